# SPDX-License-Identifier: Apache-2.0
"""A heat in one process: the real engine and its convergence worker, on SQLite.

The extension is loaded as an operator installs it (:mod:`tests.functional.heat.installed`). The
edge is HTTP: nova, cinder and neutron are doubles (:mod:`~tests.functional.heat.clouds`), the
lease service is the real API and the real manager with a clock to set
(:mod:`~tests.functional.heat.leases`). Nothing runs concurrently: when a call returns, heat is
idle, and the stack has the status of a success unless another ``status`` is expected::

    class TestSomething(HeatTest):
        def test_it(self):
            stack = self.create(TEMPLATE, start=self.leases.later(hours=1))
            assert self.cloud.nova.statuses() == ['RESERVED']
            self.leases.start(self.leases.lease.id)
            self.patch_stack(stack)                       # as the lease service
            self.suspend(stack, status='SUSPEND_FAILED')
"""

import json
from types import SimpleNamespace

import fixtures
import yaml
from heat.common import context as heat_context
from heat.common import template_format
from heat.db import api as db
from heat.db import models
from heat.engine import service
from heat.engine import stack as parser
from heat.rpc import api as rpc
from heat.tests import common
from oslo_config import cfg
from oslo_messaging import ExpectedException, server

from heat_ext.service import client, conf
from tests.functional.heat import bus, clouds, installed, leases, users
from tests.functional.heat.users import ALICE

#: Heat deletes stored attributes by ids that it remembers, twice if need be
#: (heat.engine.resource.Resource.clear_stored_attributes); no database but this gives them again.
models.ResourcePropertiesData.__table__.dialect_options['sqlite']['autoincrement'] = True


class Threads(service.ThreadGroupManager):
    """Runs at once what would run in a thread, unless it sleeps."""

    def __init__(self, beside):
        super().__init__()
        self._beside = beside

    def start(self, stack_id, func, *args, **kwargs):
        self._beside(func, *args, **kwargs)


class HeatTest(common.HeatTestCase):
    """Starts an engine, and knows what users do.

    :ivar leases: :class:`tests.functional.heat.leases.LeaseService`
    :ivar cloud: ``nova``, ``cinder`` and ``neutron``, see :mod:`tests.functional.heat.clouds`
    :ivar keystone: :class:`tests.functional.heat.users.Keystone`
    :ivar bus: :class:`tests.functional.heat.bus.Bus`; ``bus.meanwhile`` is called whenever heat
        waits, and lets the lease service do what is due
    :ivar engine: heat's EngineService
    """

    #: Whether heat.conf has credentials in ``[service_user]``.
    SERVICE_USER = True

    def setUp(self):
        # The environment of the whole cloud is read when heat's test case asks for it.
        installed.configure()
        super().setUp(mock_find_file=False)
        directory = self.useFixture(fixtures.TempDir()).path
        self.keystone = users.Keystone({})
        self.leases = self.useFixture(leases.LeaseService(self.keystone, directory))
        self.cloud = self.useFixture(clouds.Cloud(self.keystone, self.leases))
        floating_ips = self.cloud.neutron.records.setdefault('floatingips', {})
        self.leases.addresses.records = self.leases.floating_ips.records = floating_ips
        self._authenticate()
        self._configure()
        self.bus = self.useFixture(bus.Bus())
        self.bus.meanwhile = self.leases.run
        self.engine = self.start_engine()
        self._loaded = []
        self.leases.stacks.status = self._status
        self.leases.stacks.delete = lambda stack: self.delete(stack, run=False)

    def _authenticate(self):
        keystone = self.keystone
        self.stub_keystoneclient(fake_client=keystone)
        requests = heat_context.RequestContext
        self.useFixture(
            fixtures.MonkeyPatch(
                'heat.common.context.RequestContext._create_auth_plugin',
                lambda context: keystone.auth(context),
            )
        )
        self.patchobject(
            requests, 'trusts_auth_plugin', new=property(lambda context: keystone.auth(context))
        )

    def _configure(self):
        conf.register(cfg.CONF)
        # A server of oslo.messaging does so.
        cfg.CONF.register_opts(server._pool_opts)
        cfg.CONF.set_override('enable_stack_abandon', True)
        cfg.CONF.set_override('connect_retry_delay', 0.001, group=conf.GROUP)
        cfg.CONF.set_override('status_code_retry_delay', 0.001, group=conf.GROUP)
        client.service_auth.cache_clear()
        self.addCleanup(client.service_auth.cache_clear)
        if self.SERVICE_USER:
            self.useFixture(
                fixtures.MockPatch(
                    'keystoneauth1.loading.load_auth_from_conf_options',
                    return_value=users.Auth(users.SERVICE_TOKEN, None, {}),
                )
            )
        # Nothing of glance but that an image is what it is called.
        glance = 'heat.engine.clients.os.glance.GlanceClientPlugin'
        image = {'id': 'cirros', 'status': 'active', 'min_ram': 0, 'min_disk': 0}
        self.patch(f'{glance}.find_image_by_name_or_id', side_effect=lambda name: name)
        self.patch(f'{glance}.get_image', return_value=SimpleNamespace(**image))

    def start_engine(self, name='engine-1'):
        """Start an engine; messages go to the one that was started first."""
        engine = service.EngineService(name, rpc.ENGINE_TOPIC)
        engine.thread_group_mgr = Threads(self.bus.beside)
        # Threads that report to the database and look for dead engines.
        with fixtures.MonkeyPatch('heat.engine.service.ThreadGroup', _NoThreads):
            engine.start()
        self.addCleanup(engine.worker_service.stop)
        return engine

    def ask(self, method, user, *args, **kwargs):
        """Ask the engine as heat-api does; what a user did wrong is raised."""
        try:
            return getattr(self.engine, method)(user.context(), *args, **kwargs)
        except ExpectedException as expected:
            raise expected.exc_info[1] from None

    # What users do. Templates are texts or mappings; a stack is known by its id. ``status`` is the
    # one to expect then, None for any; it is not checked while ``run`` is False, which leaves the
    # work to ``self.bus.run()``.

    def create(
        self, template, name='stack1', user=ALICE, run=True, args=None, rollback=False,
        status='CREATE_COMPLETE', **kwargs,
    ):  # fmt: skip
        """POST /stacks, and let heat work until it is idle; gives the id.

        :param rollback: whether heat rolls a failure back
        :param kwargs: ``parameters`` and ``environment``; others are parameters too
        """
        found = self.ask(
            'create_stack', user, name, _template(template), **_environment(kwargs),
            args={**(args or {}), **_rollback(rollback)},
        )  # fmt: skip
        self._run(found['stack_id'], run, status)
        return found['stack_id']

    def preview(self, template, name='stack1', user=ALICE, **kwargs):
        """POST /stacks/preview."""
        return self.ask(
            'preview_stack', user, name, _template(template), **_environment(kwargs), args={}
        )

    def update(self, stack, template, args=None, rollback=False, status='', **kwargs):
        """PUT /stacks/{id}; gives the stack."""
        if status == '':
            status = 'ROLLBACK_COMPLETE' if rollback else 'UPDATE_COMPLETE'
        args = {**(args or {}), **_rollback(rollback)}
        return self._update(stack, _template(template), args, status=status, **kwargs)

    def preview_update(self, stack, template, user=ALICE, **kwargs):
        """PUT /stacks/{id}/preview; gives name -> kind of change."""
        found = self.ask(
            'preview_update_stack', user, self._identity(stack), _template(template),
            **_environment(kwargs), args={},
        )  # fmt: skip
        return {each['resource_name']: kind for kind in found for each in found[kind]}

    def patch_stack(self, stack, template=None, **kwargs):
        """PATCH /stacks/{id}: with nothing else said, the wake-up; gives the stack."""
        template = template and _template(template)
        return self._update(stack, template, {rpc.PARAM_EXISTING: True}, **kwargs)

    def _update(
        self, stack, template, args, user=ALICE, run=True, status='UPDATE_COMPLETE', **kwargs
    ):
        given = _environment(kwargs)
        self.ask('update_stack', user, self._identity(stack), template, **given, args=args)
        return self._run(stack, run, status)

    def _do(self, method, stack, *args, user=ALICE, run=True, status=None, **kwargs):
        done = self.ask(method, user, self._identity(stack), *args, **kwargs)
        found = self._run(stack, run, status)
        return done if found is None else found

    def delete(self, stack, run=True, status=None, **kwargs):
        """DELETE /stacks/{id}; the stack is gone unless another status is expected."""
        self._do('delete_stack', stack, run=run, status=status, **kwargs)
        assert not run or status or not self.exists(stack), self.reason(stack)

    def check(self, stack, status='CHECK_COMPLETE', **kwargs):
        """POST /stacks/{id}/actions {check}."""
        return self._do('stack_check', stack, status=status, **kwargs)

    def suspend(self, stack, status='SUSPEND_COMPLETE', **kwargs):
        """POST /stacks/{id}/actions {suspend}."""
        return self._do('stack_suspend', stack, status=status, **kwargs)

    def resume(self, stack, status='RESUME_COMPLETE', **kwargs):
        """POST /stacks/{id}/actions {resume}."""
        return self._do('stack_resume', stack, status=status, **kwargs)

    def cancel(self, stack, rollback=False, **kwargs):
        """POST /stacks/{id}/actions {cancel_update}, or {cancel_without_rollback}."""
        return self._do('stack_cancel_update', stack, rollback, **kwargs)

    def abandon(self, stack, **kwargs):
        """DELETE /stacks/{id}/abandon; gives what is left of it."""
        return self._do('abandon_stack', stack, **kwargs)

    def snapshot(self, stack, name='snapshot1', **kwargs):
        """POST /stacks/{id}/snapshots."""
        return self._do('stack_snapshot', stack, name, **kwargs)

    def signal(self, stack, resource, details=None, user=ALICE, run=True):
        """POST /stacks/{id}/resources/{name}/signal."""
        self.ask('resource_signal', user, self._identity(stack), resource, details, sync_call=True)
        self._run(stack, run)

    def dies(self, stack, *resources):
        """Leave resources as an engine that dies leaves them: at work, and locked by it."""
        for name in resources:
            found = self.resource(stack, name)
            values = {'status': 'IN_PROGRESS', 'status_reason': '', 'engine_id': 'dead'}
            db.resource_update_and_save(ALICE.context(), found.id, values)
        self.bus.forget()

    def _run(self, stack, run, status=None):
        if not run:
            return None
        self.bus.run()
        self.leases.run()
        self.bus.run()
        return self.assert_stack(stack, status) if status else None

    # What users see.

    def load(self, stack, user=ALICE):
        """Return the stack as heat has it now (heat.engine.stack.Stack)."""
        return parser.Stack.load(user.context(), stack_id=stack, show_deleted=True)

    def resource(self, stack, name):
        """Return a resource of the stack (heat.engine.resource.Resource)."""
        found = self.load(stack)
        # A resource has only a weak reference to its stack.
        self._loaded.append(found)
        return found[name]

    def resources(self, stack):
        """Name -> status of all resources of the stack, as ``CREATE_COMPLETE``."""
        return {
            name: '_'.join(resource.state) for name, resource in self.load(stack).resources.items()
        }

    def show(self, stack, user=ALICE):
        """GET /stacks/{id}, with the outputs."""
        (found,) = self.ask('show_stack', user, self._identity(stack))
        return found

    def outputs(self, stack):
        """Name -> value of the outputs."""
        found = self.show(stack)[rpc.STACK_OUTPUTS]
        return {each[rpc.OUTPUT_KEY]: each[rpc.OUTPUT_VALUE] for each in found}

    def events(self, stack, user=ALICE):
        """(resource, status, reason) of all events, oldest first."""
        found = self.ask('list_events', user, self._identity(stack), nested_depth=5)
        return [
            (
                each[rpc.EVENT_RES_NAME],
                f'{each[rpc.EVENT_RES_ACTION]}_{each[rpc.EVENT_RES_STATUS]}',
                each[rpc.EVENT_RES_STATUS_DATA],
            )
            for each in found
        ]

    def nested(self, stack, resource):
        """Return the id of the stack that a resource of a stack is."""
        return self.resource(stack, resource).resource_id

    def reason(self, stack):
        """Return the reason of the status."""
        return self.load(stack).status_reason

    def exists(self, stack):
        """Return whether the stack exists."""
        found = db.stack_get(ALICE.context(), stack, show_deleted=True)
        return found is not None and found.deleted_at is None

    def assert_stack(self, stack, status):
        """Check the status of a stack; the reason is shown if it is another."""
        found = self.load(stack)
        assert f'{found.action}_{found.status}' == status, (found.state, found.status_reason)
        return found

    def _status(self, stack):
        return '_'.join(self.load(stack).state) if self.exists(stack) else None

    def _identity(self, stack, user=ALICE):
        found = db.stack_get(user.context(), stack, show_deleted=True)
        return {
            'stack_name': found.name,
            'stack_id': found.id,
            'tenant': found.tenant,
            'path': '',
        }


class _NoThreads:
    def __getattr__(self, name):
        return lambda *args, **kwargs: None


def _template(text):
    return template_format.parse(text) if isinstance(text, str) else text


def _rollback(wanted):
    return {'disable_rollback': False} if wanted else {}


def _environment(kwargs):
    """Return an environment as the one mapping that heat-api makes of it."""
    environment = kwargs.pop('environment', None) or {}
    if isinstance(environment, str):
        environment = yaml.safe_load(environment)
    given = dict(environment)
    parameters = {**kwargs.pop('parameters', {}), **kwargs}
    files = {
        name: each if isinstance(each, str) else json.dumps(each)
        for name, each in parameters.pop('files', {}).items()
    }
    given['parameters'] = {**environment.get('parameters', {}), **parameters}
    return {'params': given, 'files': files}
