# SPDX-License-Identifier: Apache-2.0
"""A reserved creation, from the hints to lease-reserved, and what is left of a refused one."""

import fixtures
import oslo_messaging
from cinder import objects
from cinder.scheduler import rpcapi
from cinder.volume import volume_types

from cinder_ext import reservation_marker
from tests.functional.cinder.base import IMAGE, POOL, TYPE, CinderTest
from tests.functional.cinder.users import ADMIN, ALICE, ALICES, BOB
from tests.functional.lease_service import refusal
from tests.support.kinds import kind_cell

CAST = 'cinder.scheduler.rpcapi.SchedulerAPI.create_volume'


class TestReserve(CinderTest):
    @kind_cell('Existing servers, volumes and stacks', 'immediate')
    def test_reserved_volume_is_held_created_and_deleted(self):
        volume = self.reserve(size=3)
        self.assert_status(volume, 'lease-reserved')
        assert self.array.calls == []
        assert self.quota_usage() == (1, 3)
        assert self.row(volume).host == POOL
        assert self.workers() == []

        self.wake_up(volume)
        self.assert_status(volume, 'available')
        assert list(self.array.volumes) == [volume['id']]
        assert self.quota_usage() == (1, 3)
        assert reservation_marker.get(self.ctxt, self.row(volume)) is None
        assert self.workers() == []

        self.delete(volume)
        self.assert_gone(volume)
        assert self.array.volumes == {}
        assert self.quota_usage() == (0, 0)

    def test_lease_is_created_with_the_token_and_request_id_of_the_user(self):
        body = {'volume': {'size': 1}, 'OS-SCH-HNT:scheduler_hints': {'reserved': 'True'}}
        answer = self.request('POST', '/volumes', body, status=202)
        volume = answer.json['volume']
        (request,) = self.lease_service.requests
        assert request.headers['X-Auth-Token'] == 'token-of-alice'
        sent = request.headers['X-Openstack-Request-Id']
        assert sent == answer.headers['x-openstack-request-id']
        lease = self.lease_service.lease
        assert lease['reservations'] == [
            {'resource_type': 'virtual:volume', 'resource_id': volume['id']}
        ]
        assert reservation_marker.get_lease_id(self.ctxt, self.row(volume)) == lease['id']

    def test_lease_service_can_show_the_volume_while_it_is_reserved(self):
        seen = []

        def ask(request):
            for each in request.json['reservations']:
                found = self.show({'id': each['resource_id']}, user=ALICE)
                mark = reservation_marker.get_state(self.ctxt, self.row(found))
                seen.append((found['status'], found['os-vol-tenant-attr:tenant_id'], mark))
            # The message is sent after the lease is created.
            seen.append(creations(self.bus))

        self.lease_service.on_post = ask
        self.assert_status(self.reserve(), 'lease-reserved')
        assert seen == [('creating', ALICES, 'held'), []]
        assert len(creations(self.bus)) == 2
        assert self.lease_service.lease['name'] == 'lease1'

    def test_reserved_volume_is_listed_by_its_status(self):
        volume, other = self.reserve(), self.volume_create()
        found = self.get('/volumes?status=lease-reserved')['volumes']
        assert [each['id'] for each in found] == [volume['id']]
        found = self.get('/volumes?status=available')['volumes']
        assert [each['id'] for each in found] == [other['id']]
        assert self.get('/volumes?status=lease-reserved', user=BOB)['volumes'] == []

    def test_metadata_show_no_marker_and_can_be_changed(self):
        volume = self.reserve()
        for user in (ADMIN, ALICE):
            assert 'climate_' not in str(self.show(volume, user=user))
        assert self.show(volume, user=ALICE)['metadata'] == {}
        path = f'/volumes/{volume["id"]}'
        self.request('PUT', path, {'volume': {'name': 'new'}}, status=200)
        self.request('PUT', f'{path}/metadata', {'metadata': {'a': 'b'}}, status=200)
        self.assert_status(volume, 'lease-reserved')
        self.wake_up(volume)
        found = self.assert_status(volume, 'available')
        assert (found['name'], found['metadata']) == ('new', {'a': 'b'})
        assert reservation_marker.get(self.ctxt, self.row(volume)) is None

    def test_image_of_the_creation_is_in_the_marker(self):
        self.bus.kept.add('create_volume')
        volume = self.volume_create({'reserved': 'True'}, imageRef=IMAGE)
        mark = reservation_marker.get(self.ctxt, self.row(volume))
        assert (mark.state, mark.spec) == ('held', {'image_id': IMAGE})

    def test_message_of_the_wake_up_is_that_of_the_creation(self):
        """Cinder's flow reads the request; both requests differ in what only the first knows."""
        seen = []
        real = objects.Volume.refresh
        kind = volume_types.create(self.ctxt, 'gold', {'multiattach': '<is> True'})
        manager = self.volumes['host1@fake'].manager
        create = manager.create_volume

        def note(context, volume, request_spec=None, filter_properties=None, **kwargs):
            real(volume)
            seen.append((request_spec, filter_properties, kwargs))
            return create(context, volume, request_spec, filter_properties, **kwargs)

        self.useFixture(fixtures.MonkeyPatch(f'{_path(manager)}.create_volume', _method(note)))
        volume = self.reserve(volume_type=kind.id, metadata={'a': 'b'})
        self.wake_up(volume)
        self.assert_status(volume, 'available')
        (first, _, _), (second, properties, options) = seen
        assert properties == {'climate_wake_up': True}
        assert options == {'allow_reschedule': False}
        for name in ('volume_id', 'snapshot_id', 'source_volid', 'image_id', 'backup_id'):
            assert first[name] == second[name], name
        before = first.volume_properties.obj_to_primitive()['versioned_object.data']
        after = second.volume_properties.obj_to_primitive()['versioned_object.data']
        del before['reservations'], before['qos_specs']
        assert before == after
        assert second.volume_type.id == kind.id
        assert second.volume_type.extra_specs == {'multiattach': '<is> True'}


def creations(bus):
    """Return the messages that would make a volume."""
    return [cast for cast in bus.casts if cast[0] == 'create_volume']


def _path(manager):
    return f'{type(manager).__module__}.{type(manager).__name__}'


def _method(function):
    return lambda self, *args, **kwargs: function(*args, **kwargs)


class TestRefusedLease(CinderTest):
    def refused(self, status, kind, **body):
        """Reserve in vain; gives the message of the answer."""
        ids = []
        real = self.lease_service.on_post

        def note(request):
            real(request)
            ids.append(request.json['reservations'][0]['resource_id'])

        self.lease_service.on_post = note
        answer = self.reserve(status=status, **body)
        self.assert_nothing_is_left(ids)
        return answer[kind]['message']

    def assert_nothing_is_left(self, ids):
        assert self.get('/volumes')['volumes'] == []
        assert self.quota_usage() == (0, 0)
        quota = self.get(f'/os-quota-sets/{ALICES}?usage=True')['quota_set']
        used = {name: value['in_use'] + value['reserved'] for name, value in each(quota)}
        assert not any(used.values()), used
        assert self.workers() == []
        assert creations(self.bus) == []
        assert self.array.calls == []
        for volume_id in ids:
            assert reservation_marker.get(self.ctxt, objects.Volume(id=volume_id)) is None
            assert self.row({'id': volume_id}, read_deleted='yes').status == 'deleted'

    def test_refusal_and_outage_are_answered(self):
        for status, reason, requests, answered, kind, *words in [
            (409, 'The lease is over before it begins', 1, 400, 'badRequest'),
            (403, 'Your project has no leases left', 1, 403, 'forbidden'),
            (503, 'maintenance', 4, 503, 'serviceUnavailable', 'lease service', '503'),
            (500, 'broken', 1, 503, 'serviceUnavailable', '500'),
        ]:
            with self.subTest(status=status):
                self.lease_service.requests.clear()
                self.lease_service.answer = refusal(status, reason)
                message = self.refused(answered, kind)
                for word in words:
                    assert word in message, message
                assert words or message == reason
                assert len(self.lease_service.requests) == requests

    def test_endpoint_that_is_wrong_or_unknown_is_503(self):
        for endpoint, words in (
            ('http://127.0.0.1:9/v1', 'lease service'),
            (None, 'not known'),
        ):
            with self.subTest(endpoint=endpoint):
                self.flags(endpoint_override=endpoint, group='climate')
                assert words in self.refused(503, 'serviceUnavailable')

    def test_lease_service_that_never_answers_is_503(self):
        """The lease may be there, then. It loses its volume as if that had been deleted."""
        self.useFixture(
            fixtures.MonkeyPatch('keystoneauth1.session.Session._send_request', _time_out)
        )
        assert 'lease service' in self.refused(503, 'serviceUnavailable')

    def test_lost_answer_of_the_lease_service_is_requested_again(self):
        self.lease_service.fail_first_request()
        self.assert_status(self.reserve(), 'lease-reserved')
        assert len(self.lease_service.requests) == 2
        assert len(self.lease_service.lease['reservations']) == 1

    def test_refused_lease_frees_the_quota_of_the_type_and_the_source(self):
        self.lease_service.answer = refusal(409, 'no')
        self.refused(400, 'badRequest', volume_type=TYPE, size=7)
        source = self.volume_create()
        self.reserve(status=400, source_volid=source['id'])
        self.assert_status(source, 'available')
        self.delete(source)
        self.assert_gone(source)

    def test_outage_of_the_bus_leaves_no_volume(self):
        """The lease is there, and its volume is not: the lease service finds that out."""
        error = oslo_messaging.MessageDeliveryFailure('RabbitMQ is away')
        real = rpcapi.SchedulerAPI.create_volume
        self.useFixture(fixtures.MonkeyPatch(CAST, lambda *args: _lose(real, error, *args)))
        self.reserve(status=500)
        volume_id = self.lease_service.lease['reservations'][0]['resource_id']
        self.assert_nothing_is_left([volume_id])

    def test_exceeded_quota_creates_no_lease(self):
        limits = {'quota_set': {'volumes': 0}}
        self.request('PUT', f'/os-quota-sets/{ALICES}', limits, user=ADMIN, status=200)
        self.request(
            'POST',
            '/volumes',
            {'volume': {'size': 1}, 'OS-SCH-HNT:scheduler_hints': {'reserved': 'True'}},
            status=413,
        )
        assert self.lease_service.requests == []


def each(quota):
    return [(name, value) for name, value in quota.items() if isinstance(value, dict)]


def _time_out(session, url, *args, **kwargs):
    from keystoneauth1 import exceptions

    raise exceptions.ConnectTimeout(f'Request to {url} timed out')


def _lose(real, error, scheduler, context, volume, *args):
    """Write the row of the workers table, and do not send the message."""
    volume.create_worker()
    raise error
