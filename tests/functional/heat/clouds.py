# SPDX-License-Identifier: Apache-2.0
"""The services that heat's own clients ask over HTTP.

Servers and volumes change when they are looked at: what is asked of one puts the statuses to come
into its ``next``, and each look takes one of them, so that nothing depends on the time.
"""

import json
import re
import uuid

import fixtures
import webob
import webob.dec
from wsgi_intercept import interceptor


class Refusal(Exception):
    """An answer of 400 or more."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status, self.message = status, message


class Caller:
    """The user of a request, as keystonemiddleware names them."""

    def __init__(self, headers):
        self.user_id = headers['X-User-Id']
        self.project_id = headers['X-Project-Id']
        self.service = 'X-Service-Roles' in headers


class Service(fixtures.Fixture):
    """One service, with its routes; :class:`Cloud` puts them together.

    :cvar TYPE: in the catalogue
    :cvar PREFIX: path of its endpoint
    :ivar cloud: the other services
    :ivar changes: (what, id) of what was accepted, in order: ``('create', id)``
    :ivar requests: (method, path) of all, in order
    :ivar faults: (method, pattern of the path, answer) to give once: a status, or an exception
        that is raised in the midst of heat
    """

    TYPE = PREFIX = ''
    #: (method, pattern of the path, name of the function); it gets the request and the groups.
    ROUTES = ()

    def __init__(self, cloud):
        super().__init__()
        self.cloud = cloud

    def _setUp(self):
        self.root = f'http://{self.TYPE}-{uuid.uuid4().hex}:80'
        self.url = self.root + self.PREFIX
        self.changes, self.requests, self.faults = [], [], []
        intercept = interceptor.RequestsInterceptor(lambda: self._app, url=self.root)
        intercept.install_intercept()
        self.addCleanup(intercept.uninstall_intercept)

    def changed(self, what):
        """Ids of what this was done to, in order."""
        return [which for done, which in self.changes if done == what]

    @webob.dec.wsgify
    def _app(self, request):
        path = request.path.removeprefix(self.PREFIX).rstrip('/')
        self.requests.append((request.method, path))
        try:
            request.caller = self._caller(request)
            self._fail(request.method, path)
            status, body = self._route(request, path)
        except Refusal as refusal:
            status, body = refusal.status, self.error(refusal)
        return webob.Response(
            status=status,
            body=b'' if body is None else json.dumps(body).encode(),
            content_type='application/json',
        )

    def error(self, refusal):
        """Return the body of a refusal."""
        return {'error': {'code': refusal.status, 'message': refusal.message}}

    def _caller(self, request):
        headers = self.cloud.keystone.headers(
            request.headers.get('X-Auth-Token'), request.headers.get('X-Service-Token')
        )
        if headers is None:
            raise Refusal(401, 'The token is not good.')
        return Caller(headers)

    def _fail(self, method, path):
        for fault in self.faults:
            if fault[0] == method and re.search(fault[1], path):
                self.faults.remove(fault)
                if isinstance(fault[2], int):
                    raise Refusal(fault[2], 'A fault that the test ordered.')
                raise fault[2]

    def _route(self, request, path):
        for method, pattern, name in self.ROUTES:
            match = re.fullmatch(pattern, path)
            if match and method == request.method:
                found = getattr(self, name)(request, *match.groups())
                return found if isinstance(found, tuple) else (200, found)
        raise Refusal(404, f'Nothing at {request.method} {path}.')


class Network(Service):
    """Neutron: collections of records without any meaning."""

    TYPE = 'network'
    ROUTES = (
        ('GET', r'/v2\.0/extensions', '_extensions'),
        ('POST', r'/v2\.0/([^/]+)', '_create'),
        ('GET', r'/v2\.0/([^/]+)', '_list'),
        ('GET', r'/v2\.0/([^/]+)/([^/]+)', '_show'),
        ('PUT', r'/v2\.0/([^/]+)/([^/]+)', '_update'),
        ('DELETE', r'/v2\.0/([^/]+)/([^/]+)', '_delete'),
        ('PUT', r'/v2\.0/routers/([^/]+)/(?:add|remove)_router_interface', '_interface'),
    )

    def _setUp(self):
        super()._setUp()
        #: Collection -> id -> record.
        self.records = {}

    def error(self, refusal):
        kind = 'NotFound' if refusal.status == 404 else 'Error'
        return {'NeutronError': {'type': kind, 'message': refusal.message, 'detail': ''}}

    def _extensions(self, request):
        return {'extensions': [{'alias': 'router', 'name': 'router'}]}

    def _create(self, request, collection):
        ((kind, wanted),) = request.json.items()
        record = {
            'id': str(uuid.uuid4()),
            'status': 'ACTIVE',
            'name': '',
            'fixed_ips': [],
            'subnets': [],
            'mac_address': 'fa:16:3e:00:00:01',
            'device_id': '',
            'project_id': request.caller.project_id,
            **wanted,
        }
        self.records.setdefault(collection, {})[record['id']] = record
        self.changes.append((f'create {kind}', record['id']))
        if kind == 'subnet':
            self.records['networks'][record['network_id']]['subnets'].append(record['id'])
        return 201, {kind: record}

    def _list(self, request, collection):
        found = [
            record
            for record in self.records.get(collection, {}).values()
            if all(
                _has(record.get(key), request.GET.getall(key))
                for key in request.GET
                if key not in ('fields', 'limit', 'marker')
            )
        ]
        return {collection.replace('-', '_'): found}

    def _find(self, collection, key):
        record = self.records.get(collection, {}).get(key)
        if record is None:
            raise Refusal(404, f'{collection} {key} could not be found.')
        return record

    def _show(self, request, collection, key):
        return {_singular(collection): self._find(collection, key)}

    def _update(self, request, collection, key):
        ((kind, wanted),) = request.json.items()
        self._find(collection, key).update(wanted)
        self.changes.append((f'update {kind}', key))
        return {kind: self._find(collection, key)}

    def _delete(self, request, collection, key):
        self._find(collection, key)
        del self.records[collection][key]
        self.changes.append((f'delete {_singular(collection)}', key))
        return 204, None

    def _interface(self, request, key):
        return {'id': key, **request.json}


def _has(value, wanted):
    return {*wanted} <= {*value} if isinstance(value, list) else value in wanted


def _singular(collection):
    return collection.replace('-', '_').removesuffix('s')


class Cloud(fixtures.Fixture):
    """All services at the edge.

    :param keystone: knows whose a token is, and has the catalogue
    :param leases: the lease service
    """

    def __init__(self, keystone, leases):
        super().__init__()
        self.keystone, self.leases = keystone, leases

    def _setUp(self):
        from tests.functional.heat import compute, storage

        self.nova = self.useFixture(compute.Compute(self))
        self.cinder = self.useFixture(storage.Storage(self))
        self.neutron = self.useFixture(Network(self))
        for each in (self.nova, self.cinder, self.neutron):
            self.keystone.endpoints[each.TYPE] = each.url
        self.keystone.endpoints['reservation'] = self.leases.url
        # Where servers are told to ask; nobody does.
        for kind in ('cloudformation', 'orchestration'):
            self.keystone.endpoints[kind] = f'http://{kind}.test/v1'
