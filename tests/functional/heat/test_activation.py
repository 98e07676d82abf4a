# SPDX-License-Identifier: Apache-2.0
"""How heat loads the extension, and what happens in a heat that lacks an extension point."""

import os
import pathlib
import subprocess
import sys
import textwrap

import pytest
import yaml
from heat.engine import clients, resources
from keystoneauth1 import exceptions as ks_exceptions
from keystoneauth1 import loading, token_endpoint
from oslo_config import cfg

from climate_core import exceptions as core
from climateclient import exceptions
from climateclient.extension.errors import Incompatible
from heat_ext import seams
from heat_ext.service import client, conf
from tests.functional.heat import installed, leases
from tests.functional.heat.base import HeatTest
from tests.functional.heat.users import ALICE


class TestLoaded(HeatTest):
    def test_mapped_types_are_subclasses_of_heats(self):
        environment = resources.global_env()
        names = yaml.safe_load((installed.ROOT / 'environment.d/climate.yaml').read_text())
        for name, ours in names['resource_registry'].items():
            assert environment.get_class(name).__module__.startswith('heat_ext.')
            assert environment.get_class(name) is environment.get_class(ours)
            stock = environment.get_class(name).__mro__
            assert any(each.__module__.startswith('heat.engine.resources.') for each in stock)

    def test_names_of_the_extension_are_known(self):
        assert str(installed.ROOT / 'plugins') in cfg.CONF.plugin_dirs
        assert 'OS::Climate::Lease' in resources.global_env().get_types(ALICE.context())
        assert resources.global_env().get_constraint('climate.lease')
        assert clients.has_client('climate')


class TestSeams:
    def test_check_names_every_difference(self, monkeypatch):
        seams.check()
        table = {
            ('heat.engine.resource', 'Resource.handle_update'): ('self', 'definition'),
            ('heat.engine.resource', 'Resource.handle_nothing'): None,
        }
        monkeypatch.setattr(seams, 'TABLES', (*seams.TABLES, table))
        with pytest.raises(Incompatible) as caught:
            seams.check()
        told = str(caught.value)
        assert 'Climate cannot work in this heat, and does not start' in told
        assert 'Resource.handle_update takes' in told
        assert 'Resource.handle_nothing is missing' in told

    def test_engine_of_another_heat_does_not_start(self, tmp_path):
        """Heat-engine loads the resources before anything else."""
        code = """
            import heat.tests.common
            from heat.engine import resource, resources
            from tests.functional.heat import installed, leases
            del resource.Resource.needs_replace_failed
            installed.configure()
            resources.initialise()
        """
        root = pathlib.Path(__file__).resolve().parents[3]
        found = subprocess.run(
            [sys.executable, '-c', textwrap.dedent(code)],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env={**os.environ, 'PYTHONPATH': str(root)},
        )
        assert found.returncode == 1
        assert 'Climate cannot work in this heat, and does not start' in found.stderr
        assert 'Resource.needs_replace_failed is missing' in found.stderr


class TestConfiguration(HeatTest):
    def test_options_are_listed_and_can_be_registered_twice(self):
        sections = dict(conf.list_opts())
        names = {each.name.replace('-', '_') for each in sections['climate']}
        assert {'endpoint_override', 'timeout', 'cafile', 'region_name'} <= names
        # Leases of stacks say their dates.
        assert not any(name.startswith('reservation_') for name in names)
        assert 'auth_type' in {each.name.replace('-', '_') for each in sections['service_user']}
        conf.register(cfg.CONF)
        conf.register(cfg.CONF)
        assert cfg.CONF.climate.service_type == 'reservation'

    def test_endpoint_is_configured_or_that_of_the_catalogue(self):
        assert self._client().get_endpoint() == self.leases.url
        assert self._client().session.session.timeout == 30
        cfg.CONF.set_override('endpoint_override', 'http://other.test/v1', group='climate')
        assert self._client().get_endpoint() == 'http://other.test/v1'
        cfg.CONF.clear_override('endpoint_override', group='climate')
        del self.keystone.endpoints['reservation']
        with pytest.raises(ks_exceptions.EndpointNotFound):
            self._client().get('/leases')

    def test_region_is_configured_or_that_of_the_stack(self):
        def region():
            context = ALICE.context()
            context.region_name = 'here'
            return self._client(context).session.region_name

        assert region() == 'here'
        cfg.CONF.set_override('region_name', 'there', group='climate')
        assert region() == 'there'

    def test_certificates_are_configured_or_those_of_heat(self):
        def used():
            context = ALICE.context()
            context.keystone_session.verify = '/etc/heat/ca.pem'
            context.keystone_session.cert = ('/etc/heat/cert.pem', '/etc/heat/key.pem')
            session = self._client(context).session.session
            return session.verify, session.cert

        assert used() == ('/etc/heat/ca.pem', ('/etc/heat/cert.pem', '/etc/heat/key.pem'))
        cfg.CONF.set_override('cafile', '/etc/climate/ca.pem', group='climate')
        cfg.CONF.set_override('certfile', '/etc/climate/both.pem', group='climate')
        assert used() == ('/etc/climate/ca.pem', '/etc/climate/both.pem')
        cfg.CONF.clear_override('cafile', group='climate')
        cfg.CONF.set_override('insecure', True, group='climate')
        assert used()[0] is False

    def _client(self, context=None):
        self.context = context or ALICE.context()
        return self.context.clients.client('climate')


class TestErrors(HeatTest):
    def test_client_plugin_classifies_errors(self):
        context = ALICE.context()
        plugin = context.clients.client_plugin('climate')
        names = {'is_not_found', 'is_conflict', 'is_over_limit', 'is_client_exception'}
        for error, expected in [
            (core.LeaseNotFound('No such lease.'), {'is_not_found'}),
            (core.InvalidState('It is over.'), {'is_conflict'}),
            (core.LimitExceeded('Three is all.'), {'is_over_limit'}),
            (core.Forbidden('Not yours.'), set()),
        ]:
            self.leases.answers = [
                leases.refusal(error.status, error.message, error_name=error.code)
            ]
            with pytest.raises(exceptions.ApiError) as caught:
                plugin.client().leases.get('any')
            found = {name for name in names if getattr(plugin, name)(caught.value)}
            assert found == {*expected, 'is_client_exception'}


class TestServiceUser:
    """The loading of [service_user]."""

    @pytest.fixture(autouse=True)
    def fresh(self):
        conf.register(cfg.CONF)
        options = loading.get_auth_plugin_conf_options('password')
        cfg.CONF.register_opts(options, group='service_user')
        client.service_auth.cache_clear()
        yield
        client.service_auth.cache_clear()
        for name in ('auth_type', 'auth_url'):
            cfg.CONF.clear_override(name, group='service_user')

    def test_credentials_are_added_to_those_of_the_user(self):
        context = ALICE.context()
        context._auth_plugin = token_endpoint.Token('http://keystone.test', 'token')
        assert client.service_auth() is None
        assert client.make_auth(context) is context.auth_plugin
        client.service_auth.cache_clear()
        cfg.CONF.set_override('auth_type', 'password', group='service_user')
        cfg.CONF.set_override('auth_url', 'http://keystone.test', group='service_user')
        found = client.service_auth()
        assert type(found).__name__ == 'Password'
        # It caches its token.
        assert client.service_auth() is found
        both = client.make_auth(context)
        assert both.user_auth is context.auth_plugin
        assert both.service_auth is found
