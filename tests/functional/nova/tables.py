# SPDX-License-Identifier: Apache-2.0
"""Switches the extension on for one test, and puts nova's tables back after it."""

import copy

import fixtures
import nova.conf
from nova import service
from nova.api.openstack import common
from nova.api.openstack.compute import routes
from nova.api.openstack.compute.schemas import servers, simple_tenant_usage
from nova.api.openstack.compute.views import servers as views
from nova.compute import vm_states
from nova.objects import fields

from nova_ext import activate, conf, policies, states


class Extension(fixtures.Fixture):
    """Nova with the extension, as nova.conf alone switches it on."""

    def _setUp(self):
        self.addCleanup(self._restore, self._rows())
        policies._enforcer.cache_clear()
        self.enable()

    def enable(self):
        """Do what the notification driver does in nova-api, which includes nova-compute's part."""
        activate.enable_api()

    def _rows(self):
        posts = [
            (methods, list(methods['POST']))
            for path, methods in routes.ROUTE_LIST
            if isinstance(methods, dict) and 'POST' in methods
        ]
        enums = [
            (values, list(values))
            for module in (servers, simple_tenant_usage)
            for values in states._enums(vars(module).values())
        ]
        return {
            'posts': posts,
            'enums': enums,
            'managers': dict(service.SERVICE_MANAGERS),
            'states': fields.InstanceState.ALL,
            'values': fields.InstanceStateField.AUTO_TYPE._valid_values,
            'faults': views.ViewBuilder._fault_statuses,
        }

    @staticmethod
    def _restore(rows):
        for methods, entry in rows['posts']:
            methods['POST'] = entry
        for values, before in rows['enums']:
            values[:] = before
        service.SERVICE_MANAGERS.clear()
        service.SERVICE_MANAGERS.update(rows['managers'])
        fields.InstanceState.ALL = rows['states']
        fields.InstanceStateField.AUTO_TYPE._valid_values = rows['values']
        views.ViewBuilder._fault_statuses = rows['faults']
        common._STATE_MAP.pop(states.RESERVED, None)
        vars(vm_states).get('RESERVED') and delattr(vm_states, 'RESERVED')
        policies._enforcer.cache_clear()


class Options(fixtures.Fixture):
    """Values for the section [climate]."""

    def __init__(self, **values):
        super().__init__()
        self.values = values

    def _setUp(self):
        for name, value in self.values.items():
            nova.conf.CONF.set_override(name, value, group=conf.GROUP)
            self.addCleanup(nova.conf.CONF.clear_override, name, group=conf.GROUP)


def unchanged(value):
    """A copy to compare with later."""
    return copy.deepcopy(value)
