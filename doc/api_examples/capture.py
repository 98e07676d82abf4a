# SPDX-License-Identifier: Apache-2.0
"""Capture the examples of the API reference from the local cloud.

Call every operation of the API once, as a member of a new project and as an administrator, and
write a file per call. Two runs write the same files: ids, times and addresses of the cloud are
replaced, and long lists are cut.

Only you may use the cloud then: the host compute3, an address and the VLAN 240 are added to
Climate and removed, and compute5 is allocated.
"""

import argparse
import datetime
import hashlib
import json
import pathlib
import re
import sys
import urllib.parse
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parents[1]))

from climate_core.api import routes  # noqa: E402
from tests.cloud.people import Person, environment, member_of, wait_for  # noqa: E402

#: The address of the service, and the start of the run, in the examples.
SERVICE = 'https://reservation.example.org'
NOW = datetime.datetime(2030, 12, 1, 9, 0)
#: Times in a response differ from those of the previous run by less than half of it.
STEP = datetime.timedelta(hours=1)
#: Names of the cloud -> names in the examples.
NAMES = {'api-examples-pool': 'gpu', 'api-examples-rack': 'rack'}
POOL, PROPERTY = NAMES
HOST, ADDRESS, SEGMENT, PHYSICAL = 'compute3', '203.0.113.60', 240, 'physnet1'
#: A host of the default pool of the local cloud.
ALLOCATED = 'compute5'
#: Headers that are part of an example.
SENT = ('Idempotency-Key', 'If-Match', 'If-None-Match')
ANSWERED = ('ETag', 'Allow', 'Retry-After')

#: The secret of a feed follows its id.
_TOKEN = re.compile(r'\b[0-9a-f]{32}[\w-]{43}(?![\w-])')
FEED_TOKEN = 'TOKEN-OF-THE-FEED'
_ID = re.compile(r'\b[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}\b')
_TIME = re.compile(r'\b(\d{4})-(\d\d)-(\d\d)([T ])(\d\d):(\d\d)(:\d\d)?(\.\d+)?(Z|\+00:00)?')
_STAMP = re.compile(r'\b\d{8}T\d{6}Z')
#: The parts of a path that are numbers of the database.
_NUMBER = re.compile(r'(?<=/)\d+(?=/|$)')


class Stable:
    """Replaces what differs between two runs.

    :param endpoint: the URL of the service, without the version
    :param started: when the run started, in UTC
    """

    def __init__(self, endpoint: str, started: datetime.datetime) -> None:
        self._endpoint, self._started = endpoint, started
        self._ids: dict[str, uuid.UUID] = {}
        self._numbers: dict[str, int] = {}

    def value(self, value: Any, key: str = '') -> Any:
        """Return a value of a body with all that it contains."""
        if isinstance(value, Mapping):
            return {self.text(name): self.value(item, name) for name, item in value.items()}
        if isinstance(value, list):
            return [self.value(item, key) for item in value]
        if isinstance(value, float):
            return round(value, 1)
        is_number = isinstance(value, int | str) and not isinstance(value, bool)
        if is_number and key in ('id', 'resource_id', 'host_id') and str(value).isdigit():
            return type(value)(self._number(str(value)))
        return self.text(value) if isinstance(value, str) else value

    def url(self, url: str) -> str:
        """Return the path and the query of a request."""
        path, mark, query = url.partition('?')
        path = _NUMBER.sub(lambda found: str(self._number(found[0])), path)
        return self.text(path + mark + urllib.parse.unquote(query))

    def text(self, text: str) -> str:
        for old, new in {self._endpoint: SERVICE, **NAMES}.items():
            text = text.replace(old, new)
        text = _TOKEN.sub(FEED_TOKEN, text)
        text = _STAMP.sub(lambda found: f'{self._time(found[0]):%Y%m%dT%H%M%SZ}', text)
        text = _TIME.sub(self._iso, text)
        return _ID.sub(self._id, text)

    def _number(self, number: str) -> int:
        return self._numbers.setdefault(number, len(self._numbers) + 1)

    def _id(self, found: re.Match[str]) -> str:
        number = len(self._ids)
        digest = hashlib.sha256(f'climate {number}'.encode()).digest()[:16]
        made = self._ids.setdefault(found[0].replace('-', ''), uuid.UUID(bytes=digest, version=4))
        return str(made) if '-' in found[0] else made.hex

    def _time(self, text: str) -> datetime.datetime:
        when = datetime.datetime.fromisoformat(text).replace(tzinfo=None)
        return NOW + STEP * round((when - self._started) / STEP)

    def _iso(self, found: re.Match[str]) -> str:
        *_, between, _hour, _minute, seconds, micros, zone = found.groups()
        text = self._time(found[0]).isoformat(between, 'seconds' if seconds else 'minutes')
        return text + ('.000000' if micros else '') + (zone or '')


class Capture:
    """Calls the API, and writes the examples.

    :param folder: where the files are written
    """

    def __init__(self, folder: pathlib.Path, member: Person, admin: Person) -> None:
        self.folder, self.member, self.admin = folder, member, admin
        # Sentences show the seconds of a time only if there are some.
        now = datetime.datetime.now(datetime.UTC)
        self.started = now.replace(second=0, microsecond=0, tzinfo=None)
        endpoint = member.client.get_endpoint()
        assert endpoint
        self.endpoint = endpoint.removesuffix('/v1')
        self.stable = Stable(self.endpoint, self.started)
        #: Of the last response.
        self.etag = ''

    def at(self, **after: float) -> str:
        """Return a time after the start of the run."""
        when = self.started + datetime.timedelta(**after)
        return when.isoformat(timespec='seconds')

    def call(
        self,
        name: str,
        method: str,
        url: str,
        body: Any = None,
        status: int | None = None,
        person: Person | None = None,
        headers: Mapping[str, str] | None = None,
        cut: Callable[[Any], Any] = lambda body: body,
        authenticated: bool = True,
        **variables: object,
    ) -> Any:
        """Send a request, write its example and return the body of the response.

        :param name: of the file
        :param url: with the names of the ``variables`` of the path
        :param status: the expected status; None: that of the route
        :param person: who sends it; None: the member
        :param cut: shortens the body in the example
        """
        path = url.partition('?')[0]
        route = routes.ROUTES.get(path, {}).get(method)
        assert route or status, f'{method} {path} is not a call of the API'
        filled = url.format(**variables)
        token = authenticated and bool(route is None or route.policy)
        response = (person or self.member).sdk.session.request(
            self.endpoint + filled,
            method,
            raise_exc=False,
            authenticated=token,
            headers={'Accept': '*/*', **(headers or {})},
            **({} if body is None else {'json': body}),
        )
        self.etag = response.headers.get('ETag', '')
        expected = status or (route.status if route else None)
        assert response.status_code == expected, (method, filled, response.text)
        is_json = response.headers.get('Content-Type', '').startswith('application/json')
        answer = response.json() if is_json else response.text.replace('\r', '') or None
        shown = {
            'method': method,
            'path': path,
            'url': self.stable.url(filled),
            'token': token,
            'request_headers': self._headers(headers or {}, SENT),
            'request_body': self.stable.value(body),
            'status': response.status_code,
            'response_headers': self._headers(response.headers, ANSWERED),
            'response_body': self.stable.value(cut(answer)),
        }
        if response.status_code == 413:
            length = response.request.headers['Content-Length']
            shown |= {'request_body': None, 'request_headers': {'Content-Length': length}}
        text = json.dumps(shown, indent=2, ensure_ascii=False) + '\n'
        (self.folder / f'{name}.json').write_text(text, encoding='utf-8')
        return answer

    def _headers(self, headers: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
        return {name: self.stable.text(headers[name]) for name in names if name in headers}

    def wait_created(self, lease_id: str) -> None:
        """Wait until all resources of a lease are created."""

        def is_created() -> bool:
            rows = self.member.leases.get(lease_id).reservations
            return not any(row.resource_id.startswith('new:') for row in rows)

        wait_for(is_created, 'all resources')

    def wait(self, lease_id: str, *statuses: str) -> Any:
        return self.member.wait_lease(lease_id, *statuses)


def _only(key: str, **wanted: object) -> Callable[[Any], Any]:
    """Return a function that cuts the list ``key`` of a body to the items with these values."""

    def cut(body: Any) -> Any:
        items = [item for item in body[key] if all(item[name] == v for name, v in wanted.items())]
        return {key: items}

    return cut


def _first(key: str, number: int) -> Callable[[Any], Any]:
    return lambda body: body | {key: body[key][:number]}


def capture_versions(capture: Capture) -> None:
    """Capture the calls that describe the service."""
    capture.call('root.versions', 'GET', '/')
    capture.call('root.version', 'GET', '/v1')
    capture.call('openapi.show', 'GET', '/v1/openapi.json', cut=_cut_openapi)
    capture.call('plugins.list', 'GET', '/v1/plugins', cut=_cut_plugins)


def _cut_openapi(document: Any) -> Any:
    operation = document['paths']['/v1']['get']
    shown = {name: operation[name] for name in ('operationId', 'summary', 'security')}
    head = {name: document[name] for name in ('openapi', 'info', 'servers')}
    return {**head, 'paths': {'/v1': {'get': shown}}}


def _cut_plugins(body: Any) -> Any:
    [plugin] = [
        plugin for plugin in body['plugins'] if plugin['resource_type'] == 'virtual:volume'
    ]
    schema = plugin['schema']
    on_end = schema['properties']['on_end']
    return {'plugins': [{**plugin, 'schema': {**schema, 'properties': {'on_end': on_end}}}]}


def capture_leases(capture: Capture) -> None:
    sdk, call = capture.member.sdk, capture.call
    hosts = {
        'resource_type': 'physical:host',
        'min': 1,
        'max': 1,
        'hypervisor_properties': f'["==", "$hypervisor_hostname", "{ALLOCATED}"]',
    }
    times = {'start_date': capture.at(days=40), 'end_date': capture.at(days=40, hours=8)}
    request = {'name': 'training', **times, 'reservations': [hosts]}
    key = {'Idempotency-Key': str(uuid.uuid4())}
    lease = call('leases.create.hosts', 'POST', '/v1/leases', request, headers=key)['lease']
    call('leases.create.dry-run', 'POST', '/v1/leases?dry_run=true', request, 200)
    call('error.not_enough', 'POST', '/v1/leases', request, 409)
    server = {
        'name': 'web',
        'flavorRef': sdk.compute.find_flavor('m1.tiny').id,
        'imageRef': sdk.image.find_image('cirros').id,
        'networks': [{'uuid': sdk.network.find_network('shared').id}],
    }
    request = {
        'name': 'course',
        'start_date': capture.at(days=1),
        'duration': '8h',
        'reservations': [
            {'resource_type': 'virtual:instance', 'server': server, 'on_end': 'delete'}
        ],
        'events': [{'event_type': 'half_time', 'time': capture.at(days=1, hours=4)}],
    }
    servers = call('leases.create', 'POST', '/v1/leases', request)['lease']
    capture_lists(capture, lease)
    capture_feeds(capture)
    url = '/v1/leases/{lease_id}'
    call('leases.show', 'GET', url, lease_id=lease['id'])
    change = {'name': 'training 2', 'end_date': capture.at(days=40, hours=9)}
    match = {'If-Match': f'"{lease["generation"]}"'}
    call('leases.update', 'PUT', url, change, headers=match, lease_id=lease['id'])
    call('error.generation', 'PUT', url, change, 409, headers=match, lease_id=lease['id'])
    call('history.list', 'GET', f'{url}/history', lease_id=lease['id'])
    call('leases.delete', 'DELETE', url, lease_id=lease['id'])
    capture.wait(servers['id'], 'PENDING')
    call('error.state', 'POST', f'{url}/start', status=409, lease_id=servers['id'])
    capture.member.leases.delete(servers['id'])
    capture_lives(capture, url)


def _cut_calendar(body: Any) -> Any:
    capacity = [
        each
        for each in body['capacity']
        if (each['kind'], each.get('pool'), each['unit']) == ('host', 'default', 'host')
    ]
    return {**body, 'capacity': capacity}


def capture_lists(capture: Capture, lease: Any) -> None:
    """Capture what is listed and read of leases; one has a host."""
    call = capture.call
    query = 'status=PENDING,ACTIVE&sort=start_date:desc&fields=id,name,status&limit=1'
    call('lease_list.list', 'GET', f'/v1/leases?{query}')
    one = json.dumps([{'resource_type': 'physical:host', 'min': 1}], separators=(',', ':'))
    times = {'from': capture.at(days=40), 'to': capture.at(days=47)}
    query = urllib.parse.urlencode({'reservations': one, 'duration': '8h', **times, 'limit': 1})
    call('availability.get', 'GET', f'/v1/availability?{query}')
    query = urllib.parse.urlencode({'from': capture.at(days=40), 'to': capture.at(days=41)})
    call('calendar.get', 'GET', f'/v1/calendar?{query}', cut=_cut_calendar)
    call('limits.get', 'GET', '/v1/limits')
    period = {'start': capture.at(days=40), 'end': capture.at(days=41), 'planned': 'true'}
    call('usage.get', 'GET', f'/v1/usage?{urllib.parse.urlencode(period)}')
    query = f'?lease_id={lease["id"]}'
    admin = capture.admin
    cut = _only('allocations', hypervisor_hostname=ALLOCATED)
    found = call(
        'hosts.allocations', 'GET', '/v1/os-hosts/allocations' + query, person=admin, cut=cut
    )
    [host_id] = [
        each['resource_id']
        for each in found['allocations']
        if each['hypervisor_hostname'] == ALLOCATED
    ]

    def own(body: Any) -> Any:
        reservations = body['allocation']['reservations']
        kept = [each for each in reservations if each['lease_id'] == lease['id']]
        return {'allocation': body['allocation'] | {'reservations': kept}}

    url = '/v1/os-hosts/{host_id}/allocation'
    call('hosts.allocation', 'GET', url, person=admin, cut=own, host_id=host_id)


def _cut_events(body: Any) -> Any:
    """Keep the first event, which is done: a manager may already work on the others."""
    return {'lease': {**body['lease'], 'events': body['lease']['events'][:1]}}


def capture_lives(capture: Capture, url: str) -> None:
    """Capture the start and the end of a lease with a volume that its user starts."""
    call = capture.call
    volume = {
        'resource_type': 'virtual:volume',
        'volume': {'name': 'data', 'size': 1},
        'on_end': 'delete',
    }
    request = {
        'name': 'evening',
        'start_date': 'now',
        'duration': '2h',
        'start_policy': 'manual',
        'reservations': [volume],
    }
    made = capture.member.client.post('/leases', json=request).json()['lease']
    lease = {'lease_id': made['id']}
    more = volume | {'volume': {'name': 'scratch', 'size': 1}}
    capture.wait_created(made['id'])
    added = call('reservations.create', 'POST', f'{url}/reservations', more, **lease)
    capture.wait_created(made['id'])
    one = {**lease, 'reservation_id': added['reservation']['id']}
    path = f'{url}/reservations/{{reservation_id}}'
    call('reservations.update', 'PUT', path, {'on_end': 'nothing'}, **one)
    call('reservations.delete', 'DELETE', path, **one)
    wait_for(
        lambda: capture.member.leases.get(made['id']).reservations[1].status == 'deleted',
        'the reservation deleted',
    )
    call('leases.start', 'POST', f'{url}/start', cut=_cut_events, **lease)
    capture.wait(made['id'], 'ACTIVE')
    call('leases.end', 'POST', f'{url}/end', cut=_cut_events, **lease)
    capture.wait(made['id'], 'TERMINATED')


def capture_feeds(capture: Capture) -> None:
    """Capture the life of a feed. Its token is replaced."""
    call = capture.call
    feed = call('feeds.create', 'POST', '/v1/feeds', {'name': 'phone'})['feed']
    call('feeds.list', 'GET', '/v1/feeds')
    query = f'?token={feed["token"]}'
    call('feeds.read', 'GET', '/v1/leases.ics' + query)
    tag = {'If-None-Match': capture.etag}
    call('feeds.read.unchanged', 'GET', '/v1/leases.ics' + query, status=304, headers=tag)
    call('feeds.delete', 'DELETE', '/v1/feeds/{feed_id}', feed_id=feed['id'])


def capture_errors(capture: Capture) -> None:
    """Capture errors; the files of their examples start with ``error``."""
    call, unknown = capture.call, str(uuid.uuid4())
    request = {'name': 'training', 'start_date': capture.at(days=2), 'duration': '3 weeks'}
    call('error.invalid', 'POST', '/v1/leases', request, 400)
    call('error.unauthorized', 'GET', '/v1/leases', status=401, authenticated=False)
    call('error.forbidden', 'GET', '/v1/os-hosts/pools', status=403)
    call('error.not_found', 'GET', '/v1/leases/{lease_id}', status=404, lease_id=unknown)
    large = {'name': 'training', 'reservations': [{'resource_type': 'x' * 2**22}]}
    call('error.too_large', 'POST', '/v1/leases', large, 413)
    call('error.method', 'PATCH', '/v1/leases', status=405)


def capture_floating_ips(capture: Capture) -> None:
    """Capture the floating IPs for leases, as an administrator."""
    call, admin, url = capture.call, capture.admin, '/v1/floatingips/{floatingip_id}'
    network = admin.sdk.network.find_network('public', ignore_missing=False)
    body = {'floating_network_id': network.id, 'floating_ip_address': ADDRESS}
    made = call('floatingips.create', 'POST', '/v1/floatingips', body, person=admin)
    one = {'person': admin, 'floatingip_id': made['floatingip']['id']}
    query = f'?floating_ip_address={ADDRESS}'
    call('floatingips.list', 'GET', '/v1/floatingips' + query, person=admin)
    call('floatingips.show', 'GET', url, **one)
    call('error.exists', 'POST', '/v1/floatingips', body, 409, person=admin)
    call('floatingips.delete', 'DELETE', url, **one)


def capture_networks(capture: Capture) -> None:
    """Capture the network segments for leases, as an administrator."""
    call, admin, url = capture.call, capture.admin, '/v1/networks/{network_id}'
    body = {
        'network_type': 'vlan',
        'physical_network': PHYSICAL,
        'segment_id': SEGMENT,
        PROPERTY: 'a1',
    }
    made = call('networks.create', 'POST', '/v1/networks', body, person=admin)
    one = {'person': admin, 'network_id': made['network']['id']}
    call('networks.list', 'GET', f'/v1/networks?segment_id={SEGMENT}', person=admin)
    call('networks.show', 'GET', url, **one)
    change = {'reservable': False, 'generation': made['network']['generation']}
    call('networks.update', 'PUT', url, change, **one)
    capture_properties(capture, 'networks', '/v1/networks/properties')
    call('networks.delete', 'DELETE', url, **one)


def capture_properties(capture: Capture, noun: str, url: str) -> None:
    """Capture the extra properties of what is registered for leases."""
    cut = _only('resource_properties', property=PROPERTY)
    query = '?detail=true&all=true'
    capture.call(f'{noun}.properties', 'GET', url + query, person=capture.admin, cut=cut)
    change = {'person': capture.admin, 'property_name': PROPERTY}
    one = url + '/{property_name}'
    capture.call(f'{noun}.update_property', 'PATCH', one, {'private': True}, **change)
    capture.admin.client.patch(f'{url.removeprefix("/v1")}/{PROPERTY}', json={'private': False})


def _cut_host(host: Any) -> Any:
    return {**host, 'traits': host['traits'][:2]}


def _cut_hosts(body: Any) -> Any:
    return {'hosts': [_cut_host(host) for host in body['hosts']]}


def capture_hosts(capture: Capture) -> None:
    """Capture the pools and their hosts, as an administrator.

    The host is shared and disabled: it keeps its ordinary servers, and no lease gets it.
    """
    call, admin = capture.call, capture.admin
    pool = {'person': admin, 'pool_name': POOL}
    url, host_url = '/v1/os-hosts/pools/{pool_name}', '/v1/os-hosts/{host_id}'
    project = {'project_ids': [capture.member.sdk.current_project_id]}
    call('hosts.update_pool', 'PUT', url, {**project, 'generation': 0}, **pool)
    call('hosts.pools', 'GET', '/v1/os-hosts/pools', person=admin, cut=_only('pools', name=POOL))
    call('hosts.show_pool', 'GET', url, **pool)
    body = {'name': HOST, 'pool': POOL, 'shared': True, PROPERTY: 'a1'}
    body |= {'disabled': True, 'disabled_reason': 'Acceptance test'}

    def cut(body: Any) -> Any:
        return {'host': _cut_host(body['host'])}

    made = call('hosts.create', 'POST', '/v1/os-hosts', body, person=admin, cut=cut)
    host = {'person': admin, 'host_id': made['host']['id']}
    url_of_pool = f'/v1/os-hosts?pool={POOL}'
    call('hosts.list', 'GET', url_of_pool, person=admin, cut=_cut_hosts)
    call('hosts.show', 'GET', host_url, **host, cut=cut)
    change = {'disabled_reason': 'New memory', PROPERTY: 'a2'}
    call('hosts.update', 'PUT', host_url, change, **host, cut=cut)
    capture_properties(capture, 'hosts', '/v1/os-hosts/properties')
    call('error.in_use', 'DELETE', url, status=409, **pool)
    call('hosts.delete', 'DELETE', host_url, **host)
    call('hosts.delete_pool', 'DELETE', url, **pool)
    period = urllib.parse.urlencode({'start': capture.at(days=-1), 'end': capture.at()})
    call('host_usage.get', 'GET', f'/v1/os-hosts/usage?{period}', person=admin)


def prepare(admin: Person) -> None:
    """Delete what an interrupted run has left."""
    for host in admin.client.hosts.list():
        if host.pool == POOL:
            admin.client.hosts.delete(host.id)
    if POOL in {pool.name for pool in admin.client.hosts.pools()}:
        admin.client.hosts.delete_pool(POOL)
    for address in admin.client.floatingips.list():
        if address.floating_ip_address == ADDRESS:
            admin.client.floatingips.delete(address.id)
    for segment in admin.client.networks.list():
        if segment.segment_id == SEGMENT:
            admin.client.networks.delete(segment.id)


def run(folder: pathlib.Path) -> None:
    """Write all examples into a folder."""
    admin = Person(environment('admin'))
    prepare(admin)
    name = f'api-examples-{uuid.uuid4().hex[:8]}'
    member = member_of(admin, name)
    capture = Capture(folder, member, admin)
    try:
        capture_versions(capture)
        capture_errors(capture)
        capture_leases(capture)
        capture_floating_ips(capture)
        capture_networks(capture)
        capture_hosts(capture)
    finally:
        for lease in member.leases.list():
            member.leases.delete(lease.id)
            member.wait_lease_gone(lease.id)
        for volume in member.sdk.block_storage.volumes():
            member.sdk.block_storage.delete_volume(volume)
        identity = admin.sdk.identity
        identity.delete_user(identity.find_user(name))
        identity.delete_project(identity.find_project(name))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        'folder', type=pathlib.Path, nargs='?', default=FOLDER, help='default: %(default)s'
    )
    run(parser.parse_args().folder)


if __name__ == '__main__':
    main()
