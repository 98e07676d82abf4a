# SPDX-License-Identifier: Apache-2.0
"""Switches the extension on for one test, and puts nova's tables back after it."""

import fixtures
import nova.conf
import testtools
from nova import service
from nova.api.openstack import common
from nova.api.openstack.compute import routes
from nova.api.openstack.compute.schemas import servers, simple_tenant_usage
from nova.api.openstack.compute.views import servers as views
from nova.api.validation.extra_specs import validators
from nova.compute import vm_states
from nova.objects import fields
from nova.scheduler import request_filter

from nova_ext import conf, policies, providers, states
from nova_ext.api import routes as api_routes
from nova_ext.scheduler import matching


class Extension(fixtures.Fixture):
    """Nova with the extension, as nova.conf alone switches it on."""

    def _setUp(self):
        # Seconds that passed for what nova-scheduler knows of lanes.
        self.clock = 0
        recent = providers.Recent(matching.RECENT_SECONDS, lambda: self.clock)
        self.useFixture(fixtures.MonkeyPatch('nova_ext.scheduler.matching.recent', recent))
        self._before = self._rows()
        self.addCleanup(self.disable)
        policies.POLICY.reload()
        self.enable()

    def enable(self):
        """Do what the notification driver does in nova-api, which includes nova-compute's part."""
        api_routes.enable_api()

    def _rows(self):
        table = [
            (methods, dict(methods))
            for _, methods in routes.ROUTE_LIST
            if isinstance(methods, dict)
        ]
        enums = [
            (values, list(values))
            for module in (servers, simple_tenant_usage)
            for values in states.enums(module)
        ]
        return {
            'routes': table,
            'enums': enums,
            'managers': dict(service.SERVICE_MANAGERS),
            'states': fields.InstanceState.ALL,
            'values': fields.InstanceStateField.AUTO_TYPE._valid_values,
            'validators': dict(validators.VALIDATORS),
            'namespaces': set(validators.NAMESPACES),
            'request_filters': list(request_filter.ALL_REQUEST_FILTERS),
            'faults': views.ViewBuilder._fault_statuses,
        }

    def disable(self):
        """Put the tables back; a second time does nothing."""
        for methods, before in self._before['routes']:
            methods.update(before)
        for values, before in self._before['enums']:
            values[:] = before
        service.SERVICE_MANAGERS.clear()
        service.SERVICE_MANAGERS.update(self._before['managers'])
        fields.InstanceState.ALL = self._before['states']
        fields.InstanceStateField.AUTO_TYPE._valid_values = self._before['values']
        validators.VALIDATORS.clear()
        validators.VALIDATORS.update(self._before['validators'])
        validators.NAMESPACES.intersection_update(self._before['namespaces'])
        request_filter.ALL_REQUEST_FILTERS[:] = self._before['request_filters']
        views.ViewBuilder._fault_statuses = self._before['faults']
        common._STATE_MAP.pop(states.RESERVED, None)
        vars(vm_states).pop('RESERVED', None)
        policies.POLICY.reload()


class Options(fixtures.Fixture):
    """Values for the section [climate]."""

    def __init__(self, **values):
        super().__init__()
        self.values = values

    def _setUp(self):
        for name, value in self.values.items():
            nova.conf.CONF.set_override(name, value, group=conf.GROUP)
            self.addCleanup(nova.conf.CONF.clear_override, name, group=conf.GROUP)


class Directory(fixtures.TempDir):
    """A directory that goes away with the test."""


class TestCase(testtools.TestCase):
    """A test without a nova of its own."""
