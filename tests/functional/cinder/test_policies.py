# SPDX-License-Identifier: Apache-2.0
"""Who may wake a reserved volume up, and when."""

import pathlib

import fixtures
from cinder import objects

from cinder_ext import policies, reservation_marker
from tests.functional.cinder.base import HOST, CinderTest
from tests.functional.cinder.users import ADMIN, ALICE, ALICES, BOB, BOBS, CLIMATE, User


class PolicyTest(CinderTest):
    def setUp(self):
        super().setUp()
        policies.POLICY.reload()
        self.addCleanup(policies.POLICY.reload)
        self.volume = self.reserve()

    def refused(self, user, status, kind):
        answer = self.wake_up(self.volume, user=user, status=status)
        assert self.array.calls == []
        self.assert_status(self.volume, 'lease-reserved')
        assert reservation_marker.get_state(self.ctxt, self.row(self.volume)) == 'held'
        return answer[kind]['message']

    def conflict(self, *words):
        message = self.wake_up(self.volume, status=409)['conflictingRequest']['message']
        for word in words:
            assert word in message, message


class TestWho(PolicyTest):
    def test_only_the_service_with_the_trust_of_the_owner_can(self):
        """The rule asks for the project and the service: the trust has a role already."""
        for user, status, kind, word in [
            (ALICE, 403, 'forbidden', policies.WAKE_UP),
            (User('alice', ALICES, 'reader'), 403, 'forbidden', policies.WAKE_UP),
            (BOB, 404, 'itemNotFound', self.volume['id']),
            (User('bob', BOBS, 'member', service=True), 404, 'itemNotFound', self.volume['id']),
        ]:
            with self.subTest(user=user):
                assert word in self.refused(user, status, kind)
        self.wake_up(self.volume, user=CLIMATE)
        self.assert_status(self.volume, 'available')

    def test_administrator_can_once_and_no_such_volume_is_404(self):
        self.wake_up({'id': '11111111-2222-3333-4444-555555555555'}, status=404)
        self.wake_up(self.volume, user=ADMIN)
        self.assert_status(self.volume, 'available')
        assert reservation_marker.get(self.ctxt, self.row(self.volume)) is None
        self.conflict(self.volume['id'], 'available')
        assert len(self.array.called('create_volume')) == 1

    def test_rule_of_the_policy_file_is_respected(self):
        path = pathlib.Path(self.useFixture(fixtures.TempDir()).path, 'policy.yaml')
        path.write_text(f'"{policies.WAKE_UP}": "user_id:%(user_id)s"\n')
        self.flags(policy_file=str(path), group='oslo_policy')
        policies.POLICY.reload()
        self.refused(ADMIN, 403, 'forbidden')
        self.wake_up(self.volume, user=ALICE)
        self.assert_status(self.volume, 'available')


class TestWhen(PolicyTest):
    def test_slower_of_two_requests_is_409(self):
        """Between the read and the write of the row."""
        real = reservation_marker.get

        def faster(context, volume):
            self.write(volume, status='creating')
            return real(context, volume)

        with fixtures.MonkeyPatch('cinder_ext.reservation_marker.get', faster):
            self.conflict('faster')
        assert self.array.calls == []

    def test_volume_that_is_not_held_is_409(self):
        self.bus.kept.add('delete_volume')
        self.delete(self.volume)
        self.conflict('deleting')
        self.bus.deliver()
        self.assert_gone(self.volume)
        # No backend holds it: there is nothing that could be promised, only deleted.
        self.volume = self.reserve(size=200)
        self.assert_status(self.volume, 'error')
        self.conflict('no backend')
        self.bus.kept.clear()
        self.delete(self.volume)
        self.assert_gone(self.volume)
        assert self.quota_usage() == (0, 0)
        self.volume = self.volume_create()
        self.conflict('only a reserved volume')
        self.write(self.volume, status='error')
        self.conflict('not reserved')

    def test_frozen_backend_is_503_until_it_is_thawed_and_a_disabled_one_creates_it(self):
        """After a failover nothing is changed there until it is thawed."""
        service = objects.Service.get_by_args(self.ctxt, HOST, 'cinder-volume')
        for status in ('lease-reserved', 'error'):
            self.write(self.volume, status=status)
            service.frozen = True
            service.save()
            answer = self.wake_up(self.volume, status=503)
            assert 'frozen' in answer['serviceUnavailable']['message']
            self.assert_status(self.volume, status)
        assert self.array.calls == []
        # A disabled one takes no new volumes, and makes those that it holds.
        service.frozen, service.disabled = False, True
        service.save()
        self.wake_up(self.volume)
        self.assert_status(self.volume, 'available')

    def test_wrong_body_is_400_and_the_oldest_microversion_will_do(self):
        (found,) = [
            each
            for each in self.get('/extensions')['extensions']
            if each['alias'] == 'climate-reservations'
        ]
        assert found['name'] == 'Reservations'
        path = f'/volumes/{self.volume["id"]}/action'
        for body in ({'now': True}, 'yes', []):
            self.post(path, {'os-wake_up': body}, CLIMATE, 400)
        self.post(path, {'os-wake_up': {}, 'more': {}}, CLIMATE, 400)
        self.post(path, {'os-wake_up': None}, CLIMATE, 202, version='3.0')
        self.assert_status(self.volume, 'available')
