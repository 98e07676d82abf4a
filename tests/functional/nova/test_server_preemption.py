# SPDX-License-Identifier: Apache-2.0
"""Servers of a preemptible lease whose room others need, in a real nova."""

import datetime
from unittest import mock

import pytest
from nova.tests.functional.api import client

from climate_common.resource_types import SERVER
from climate_core import exceptions
from climate_core.db import events as db_events
from climate_core.db import forecast_reads
from climate_core.db import usage as db
from climate_core.delivery import usage
from climate_core.repair import reconciliation
from tests.functional.nova.hosts import Crash
from tests.functional.nova.made_servers import END, HOUR, IMAGE, START
from tests.functional.nova.preemption import ServerPreemptionTest
from tests.support.world import NOON

LOCKED = 'Climate: the preemptible lease'
NOTICE = datetime.timedelta(seconds=120)


class TestServerPreemption(ServerPreemptionTest):
    def test_shelved_for_an_immediate_lease_and_run_again_when_there_is_room(self):
        filler = self.run_preemptible()
        other = self.lease(name='other', count=2)
        self.look_around()
        assert self.state(other) == ('WAITING', ['pending'] * 2)
        lease = self.world.lease(filler)
        assert lease.status == 'ACTIVE'
        assert 'its servers are shelved' in lease.status_reason
        assert lease.preempted_at > NOON + NOTICE
        assert self.server(filler)['status'] == 'ACTIVE'

        self.until(filler, 'WAITING')
        shelved = self.server(filler)
        assert (shelved['status'], shelved['locked']) == ('SHELVED_OFFLOADED', True)
        assert shelved['locked_reason'].startswith(LOCKED)
        self.until(other, 'ACTIVE')
        assert self.servers() == [
            ('filler', 'SHELVED_OFFLOADED'),
            ('other-1', 'ACTIVE'),
            ('other-2', 'ACTIVE'),
        ]
        assert self.used() == 2
        self.end(other)
        self.until(filler, 'ACTIVE')
        woken = self.server(filler)
        assert (woken['status'], woken['locked'], woken['id']) == ('ACTIVE', False, shelved['id'])
        assert self.used() == 1
        self.end(filler)
        self.assert_nothing_left()

    def test_reserved_servers_that_are_put_into_a_lease_give_way_too(self):
        made = self.boot({'reserved': 'True', 'lease_params': '{"name": "lease"}'}, name='mine')
        reservation = {'resource_type': 'virtual:instance', 'resource_id': made['id']}
        body = {'name': 'filler', 'start_date': 'now', 'end_date': END, 'preemptible': True}
        body['reservations'] = [reservation]
        filler = self.create_lease(self.api.project_id, 'fake', body)
        self.until(filler, 'ACTIVE')
        held = self.world.lease(filler).live[0].amounts
        other = self.preempt(filler)
        assert self.world.lease(filler).live[0].amounts == {}
        self.end(other)
        lease = self.until(filler, 'ACTIVE')
        assert lease.live[0].amounts == held
        assert self.server(filler)['status'] == 'ACTIVE'

    def test_scheduled_lease_has_the_room_at_its_start(self):
        filler = self.run_preemptible()
        other = self.lease(START, more={'kind': 'scheduled'}, name='other', count=2)
        assert self.state(other)[0] == 'PENDING'
        assert self.world.lease(filler).preempted_at == NOON + HOUR * 5 / 6
        self.world.run_until_idle(minutes=49)
        assert self.state(filler)[0] == 'ACTIVE'
        self.until(filler, 'WAITING')
        lease = self.until(other, 'ACTIVE')
        assert lease.start_date == NOON + HOUR

    def test_scheduled_lease_that_begins_soon_waits_until_they_have_given_way(self):
        filler = self.run_preemptible()
        other = self.lease(more={'kind': 'scheduled'}, name='other', count=2)
        lease = self.world.lease(other)
        assert (lease.status, lease.preemptible) == ('WAITING', False)
        assert 'preempts other leases' in lease.status_reason
        self.until(filler, 'WAITING')
        self.until(other, 'ACTIVE')

    def test_one_that_waits_preempts_at_its_request_and_at_its_tries(self):
        filler = self.run_preemptible()
        other = self.lease(more={'kind': 'retry'}, name='other', count=2)
        assert (self.state(other)[0], bool(self.world.lease(filler).preempted_at)) == (
            'WAITING',
            True,
        )
        self.until(filler, 'WAITING')
        self.until(other, 'ACTIVE')
        self.end(other)
        self.until(filler, 'ACTIVE')
        first, _ = self.others(1)[0], self.set_ratio('VCPU', 2.0)
        again = self.lease(more={'kind': 'retry'}, name='again', count=4)
        assert not self.world.lease(filler).preempted_at
        self.delete(first)
        nudged = []
        self.world.database.listen(db_events.DUE, lambda: nudged.append(1))
        self.world.run_until_idle(minutes=5)
        assert self.world.lease(filler).preempted_at
        assert nudged
        self.until(again, 'ACTIVE')

    def test_where_it_would_not_be_enough_nothing_is_touched(self):
        filler = self.run_preemptible()
        for kind in ('immediate', 'scheduled'):
            before = self.world.lease(filler)
            if kind == 'scheduled':
                with pytest.raises(exceptions.NotEnough):
                    self.lease(START, more={'kind': kind}, name='other', count=3)
            else:
                other = self.lease(name='other', count=3)
                self.look_around(10)
                assert self.state(other) == ('ERROR', ['error'] * 3)
                self.world.operations.delete_lease(self.owner(), other)
                self.look_around(2)
            assert self.world.lease(filler) == before
            assert self.servers() == [('filler', 'ACTIVE')]
        assert not self.server(filler)['locked']

    def test_server_that_cannot_be_shelved_is_no_candidate(self):
        filler = self.run_preemptible()
        server = self.server(filler)
        for action in (
            {'os-resetState': {'state': 'error'}},
            {'os-resetState': {'state': 'active'}},
        ):
            self.admin_api.post_server_action(server['id'], action)
            other = self.lease(name='other', count=2)
            self.look_around(10)
            expected = 'ERROR' if 'error' in str(action) else 'WAITING'
            assert self.state(other)[0] == expected
            self.world.operations.delete_lease(self.owner(), other)
            self.look_around(2)

    def test_preemptible_lease_preempts_nothing(self):
        filler = self.run_preemptible()
        for kind, told in (('immediate', 'ERROR'), ('scheduled', None)):
            more = {'preemptible': True, 'kind': kind}
            if told is None:
                with pytest.raises(exceptions.NotEnough):
                    self.lease(START, more=more, name='other', count=2)
                continue
            other = self.lease(more=more, name='other', count=2)
            self.look_around(10)
            assert self.state(other)[0] == told
        assert self.world.lease(filler).preempted_at is None

    def test_nobody_is_looked_for_where_there_is_room(self):
        looks = mock.patch.object(
            forecast_reads, 'find_preemptible_servers', side_effect=AssertionError
        )
        with looks:
            lease_id = self.run_preemptible()
            self.lease(START, more={'kind': 'scheduled'}, name='other')
            self.end(lease_id)

    def test_scheduled_one_that_is_not_made_yet_waits_at_once(self):
        filler = self.lease(START, more={'kind': 'scheduled', 'preemptible': True}, count=2)
        other = self.lease(START, more={'kind': 'scheduled'}, name='other', count=1)
        assert (self.state(filler)[0], self.state(other)[0]) == ('WAITING', 'PENDING')
        self.world.operations.delete_lease(self.owner(), other)
        self.until(filler, 'PENDING')
        self.world.run_until_idle(hours=1)
        self.look_around()
        assert self.state(filler)[0] == 'ACTIVE'

    def dry_run(self, **more):
        """Ask what would become of a lease of two servers."""
        server = {'name': 'web', 'flavorRef': self.flavor['id'], 'imageRef': IMAGE, 'count': 2}
        wanted = {'resource_type': 'virtual:instance', 'server': server}
        body = {'name': 'other', 'start_date': START, 'reservations': [wanted], **more}
        return self.world.operations.check_lease(self.owner(), body)

    def test_dry_run_tells_that_others_would_give_way(self):
        filler = self.run_preemptible()
        for kind in ('immediate', 'scheduled'):
            found = self.dry_run(end_date=END, kind=kind)
            assert found['granted'], found
        assert self.world.lease(filler).preempted_at is None

    def test_immediate_lease_must_be_longer_than_others_take_to_give_way(self):
        filler = self.run_preemptible()
        for minutes, status in ((4, 'ERROR'), (7, 'ERROR'), (8, 'WAITING')):
            times = {'start_date': 'now', 'duration': minutes * 60}
            checked = self.dry_run(**times)
            other = self.lease(more={**times, 'end_date': None}, name='other', count=2)
            self.look_around(10)
            granted = status == 'WAITING'
            assert (checked['granted'], checked['waits'], self.state(other)[0]) == (
                granted,
                granted,
                status,
            )
            assert len(checked['refusals']) == (not granted)
            assert bool(self.world.lease(filler).preempted_at) == granted
            self.world.operations.delete_lease(self.owner(), other)
            self.look_around(2)

    def test_one_that_waits_and_is_short_has_its_time_after_others_gave_way(self):
        filler = self.run_preemptible()
        times = {'start_date': 'now', 'duration': 240, 'kind': 'scheduled'}
        assert self.dry_run(**times)['granted']
        other = self.lease(more={**times, 'end_date': None}, name='other', count=2)
        self.until(filler, 'WAITING')
        lease = self.until(other, 'ACTIVE')
        assert lease.end_date > NOON + NOTICE + datetime.timedelta(seconds=240)


class TestPreemptedServers(ServerPreemptionTest):
    """The lease of one server gave way to one of two."""

    def setUp(self):
        super().setUp()
        self.filler = self.run_preemptible()
        self.other = self.preempt(self.filler)

    def test_run_again_the_oldest_lease_first(self):
        self.end(self.other)
        self.until(self.filler, 'ACTIVE')
        young = self.run_preemptible(name='young')
        other = self.preempt(young)
        assert self.world.lease(self.filler).status == 'WAITING'
        first = self.world.lease(other).live[0]
        self.world.operations.remove_reservation(self.owner(), other, first.id)
        self.until(self.filler, 'ACTIVE')
        assert self.world.lease(young).status == 'WAITING'
        self.end(other)
        self.until(young, 'ACTIVE')
        assert [name for name, status in self.servers() if status == 'ACTIVE'] == [
            'filler',
            'young',
        ]

    def test_ended_meanwhile_it_is_deleted(self):
        self.end(self.filler)
        assert self.servers() == [('other-1', 'ACTIVE'), ('other-2', 'ACTIVE')]

    def test_ended_meanwhile_it_stays_shelved_and_is_its_owners_again(self):
        reservation = self.world.lease(self.filler).live[0]
        change = {'on_end': 'nothing'}
        self.world.operations.update_reservation(self.owner(), self.filler, reservation.id, change)
        self.end(self.filler)
        server = self.show({'id': reservation.resource_id})
        assert (server['status'], server['locked']) == ('SHELVED_OFFLOADED', False)

    def test_locked_after_its_end_by_a_late_manager_it_is_unlocked(self):
        server, plugin = self.server(self.filler), self.world.plugins[SERVER]
        assert list(plugin.list_locked()) == [server['id']]
        assert list(reconciliation.undo_locks(self.world.database, plugin)) == []
        reservation = self.world.lease(self.filler).live[0]
        change = {'on_end': 'shelve'}
        self.world.operations.update_reservation(self.owner(), self.filler, reservation.id, change)
        self.end(self.filler)
        assert list(plugin.list_locked()) == []
        lock = {'lock': {'locked_reason': server['locked_reason']}}
        self.admin_api.post_server_action(server['id'], lock)
        assert list(reconciliation.undo_locks(self.world.database, plugin)) == [server['id']]
        assert list(plugin.list_locked()) == []
        assert not self.show(server)['locked']

    def test_extended_meanwhile_it_runs_again_until_its_new_end(self):
        later = '2082-12-01 16:00'
        self.world.operations.update_lease(self.owner(), self.filler, {'end_date': later})
        self.end(self.other)
        lease = self.until(self.filler, 'ACTIVE')
        assert lease.end_date == NOON + 4 * HOUR
        self.world.run_until_idle(hours=3)
        assert self.state(self.filler)[0] == 'ACTIVE'

    def test_its_owner_cannot_unshelve_or_delete_it_but_takes_it_out_of_the_lease(self):
        server = self.server(self.filler)
        for ask in (
            lambda: self.api.post_server_action(server['id'], {'unshelve': None}),
            lambda: self.api.post_server_action(server['id'], {'unlock': None}),
            lambda: self.api.delete_server(server['id']),
        ):
            with pytest.raises(client.OpenStackApiException) as refused:
                ask()
            assert refused.value.response.status_code in (403, 409)
        reservation = self.world.lease(self.filler).live[0]
        self.world.operations.remove_reservation(self.owner(), self.filler, reservation.id)
        self.look_around()
        assert self.servers() == [('other-1', 'ACTIVE'), ('other-2', 'ACTIVE')]

    def test_one_that_an_administrator_deleted_is_not_missed(self):
        self.admin_api.delete_server(self.server(self.filler)['id'])
        self.end(self.other)
        self.look_around(10)
        self.end(self.filler)
        self.assert_nothing_left()

    def test_one_that_finds_no_room_stays_shelved_and_locked_until_there_is_some(self):
        self.world.operations.end_lease(self.owner(), self.other)
        self.look_around()
        assert self.state(self.other)[0] == 'TERMINATED'
        self.world.operations.queue.grant_waiting()
        others = self.others(2)
        locked = []
        for _ in range(8):
            self.world.run_until_idle(seconds=2)
            locked.append(self.server(self.filler)['locked'])
        lease = self.world.lease(self.filler)
        assert lease.status == 'STARTING'
        assert 'Nova finds no host for the server' in lease.status_reason
        # It is not while Nova tries.
        assert True in locked
        self.delete(others[0])
        self.until(self.filler, 'ACTIVE')
        assert not self.server(self.filler)['locked']

    def test_the_time_that_was_lost_is_in_the_usage_as_that(self):
        began = self.world.lease(self.filler).created_at
        gave_up = next(
            each.freed_at for each in self.world.lease(self.filler).reservations if each.freed_at
        )
        self.end(self.other)
        again = self.until(self.filler, 'ACTIVE')
        self.end(self.filler)
        lease = self.world.lease(self.filler)
        period = usage.Span(NOON, NOON + datetime.timedelta(days=1))
        uses = self.world.database.read(lambda session: list(db.read_uses(session, period)))
        mine = [each for each in uses if each.lease_id == self.filler]
        hours = sum(usage.sum_lease([each], period).reserved['server_hours'] for each in mine)
        ended = max(each.freed_at for each in lease.reservations)
        had = (gave_up - began) + (ended - again.start_date)
        assert hours == pytest.approx(had / HOUR, abs=0.01)
        lost = usage.sum_lease(mine, period).preempted['server_hours']
        assert lost == pytest.approx((again.start_date - gave_up) / HOUR, abs=0.01)
        assert {each.resource_id for each in mine} == {lease.reservations[0].resource_id}


class TestDyingManagers(ServerPreemptionTest):
    def test_each_step_is_done_once(self):
        """After 0, 1, 2 ... requests; the servers give way and run again."""
        filler = self.run_preemptible()
        for step in (self._give_way, self._come_back):
            deaths = 0
            for answered in range(0, 60, 2):
                self.cloud.left = answered
                try:
                    step(filler)
                except Crash:
                    deaths += 1
                    self.time.forward(seconds=self.world.conf.engine.claim_ttl + 1)
                    continue
                finally:
                    self.cloud.left = None
                break
            assert deaths > 3
        server = self.server(filler)
        assert (server['status'], server['locked']) == ('ACTIVE', False)

    def _give_way(self, filler):
        if not getattr(self, 'other', None):
            self.other = self.lease(name='other', count=2)
        self.until(filler, 'WAITING')
        self.until(self.other, 'ACTIVE')
        assert self.servers()[1:] == [('other-1', 'ACTIVE'), ('other-2', 'ACTIVE')]

    def _come_back(self, filler):
        if self.world.lease(self.other).status == 'ACTIVE':
            self.world.operations.end_lease(self.owner(), self.other)
        self.until(filler, 'ACTIVE')
