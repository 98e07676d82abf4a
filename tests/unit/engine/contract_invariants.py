# SPDX-License-Identifier: Apache-2.0
"""What is always true of leases, whatever users ask, in any order, and whichever process dies.

The same sentences are in ``doc/source/contributor/invariants.rst``. Each method reads rows as they
are in the database, so it does not believe the code that it judges.
"""

import datetime
import itertools
import re
from collections import Counter, defaultdict
from typing import Any

from climate_common import dates
from climate_core import webhooks
from climate_core.lease import events, model, states
from tests.unit.engine.contract_things import Effect, Row, Rows
from tests.unit.engine.contract_world import ContractWorld

_LIVE = frozenset(str(s) for s in states.LIVE)
_OPEN = frozenset(str(s) for s in states.OPEN)
_READY = model.READY
_OVER = str(states.LeaseStatus.TERMINATED)
_ENDING = frozenset(str(s) for s in states.ENDING)
#: Status of a lease that is not granted -> the event that tries it.
_UNGRANTED = {'WAITING': model.RETRY, 'IN_PROGRESS': model.MAKE_ROOM}
#: What may be done to a thing, in order.
_LIFE = re.compile('(wake preempt ?)*(wake ?)?(end)?')


def of(rows: Rows, table: str, lease: Row) -> list[Row]:
    """Return the rows of a table that belong to a lease."""
    return [row for row in rows[table] if row['lease_id'] == lease['id']]


def live(rows: Rows, lease: Row) -> list[Row]:
    return [r for r in of(rows, 'reservations', lease) if r['status'] in _LIVE]


def opened(rows: Rows, lease: Row, event_type: str | None = None) -> list[Row]:
    """Return the open events of a lease, of one type or of all."""
    found = [e for e in of(rows, 'events', lease) if e['status'] in _OPEN]
    return [e for e in found if event_type in (None, e['event_type'])]


class Invariants:
    """Each method is one of them; :meth:`check_all` asks them all."""

    def __init__(self, world: ContractWorld) -> None:
        self.world = world
        self.rows: Rows = world.rows()

    def check_all(self) -> None:
        """Compare the database as it is with what must be, and with how it was."""
        before, self.rows = self.rows, self.world.rows()
        self.a_resource_is_held_once()
        self.hold_says_what_the_status_says()
        self.what_is_not_over_will_end()
        self.what_ends_is_not_started()
        self.what_is_taken_out_will_be_freed()
        self.what_is_over_holds_nothing()
        self.what_is_over_gives_its_trust_back()
        self.what_is_not_over_has_its_trust()
        self.what_waits_is_tried_again_and_has_nothing()
        self.nothing_is_promised_twice()
        self.what_is_promised_lasts_until_its_end()
        self.what_gives_way_has_its_notice()
        self.what_sleeps_will_be_woken()
        self.an_open_event_has_a_next_time()
        self.what_is_awake_was_woken_once_and_before_its_end()
        self.what_is_active_is_awake()
        self.history_has_no_gap()
        self.a_change_of_a_lease_is_a_new_generation(before)
        self.what_is_deleted_stays_deleted(before)

    def a_resource_is_held_once(self) -> None:
        held = [
            (r['resource_type'], r['resource_id'])
            for r in self.rows['reservations']
            if r['status'] in _LIVE
        ]
        assert len(held) == len(set(held)), held

    def hold_says_what_the_status_says(self) -> None:
        for row in self.rows['reservations']:
            assert row['hold'] == (1 if row['status'] in _LIVE else None), row
            assert (row['freed_at'] is None) == (row['status'] in _LIVE), row

    def what_is_not_over_will_end(self) -> None:
        """So that what it holds is always freed."""
        for lease in self.rows['leases']:
            ends = opened(self.rows, lease, model.END)
            if lease['status'] in _UNGRANTED and lease['duration'] is not None:
                # It ends so long after it is granted, or after it was tried for the last time.
                assert not ends, (lease, ends)
                continue
            assert len(ends) == (0 if lease['status'] == _OVER else 1), (lease, ends)
            for end in ends:
                asked = lease['status'] in _ENDING or end['status'] == 'IN_PROGRESS'
                assert asked or self.is_due(end, lease['end_date']), (lease, end)

    def is_due(self, event: Any, date: datetime.datetime) -> bool:
        """Return whether an event is due at a date, or since it was written if that was later."""
        return bool(event['next_at'] == date or date < event['next_at'] <= self.now)

    def what_ends_is_not_started(self) -> None:
        for lease in self.rows['leases']:
            if lease['status'] in _ENDING:
                kinds = {e['event_type'] for e in opened(self.rows, lease)}
                assert not kinds & {model.START, _READY, model.END_RESERVATION}, (lease, kinds)

    def what_is_taken_out_will_be_freed(self) -> None:
        for lease in self.rows['leases']:
            for row in of(self.rows, 'reservations', lease):
                ends = opened(self.rows, lease, model.END_RESERVATION)
                own = [e for e in ends if e['reservation_id'] == row['id']]
                asked = row['status'] == 'deleting' and lease['status'] not in _ENDING
                assert len(own) == 1 if asked else len(own) <= 1, (lease, row, own)
                early = self._early_end(lease, row)
                assert not own or early or row['status'] == 'deleting', (lease, row, own)
                if early:
                    assert early <= max(lease['end_date'], self.now), (lease, row, own)

    def what_is_over_holds_nothing(self) -> None:
        for lease in self.rows['leases']:
            if lease['status'] == _OVER:
                assert not live(self.rows, lease), lease
                kinds = {e['event_type'] for e in opened(self.rows, lease)}
                stages = {events.get_handler(each).cancelled_by for each in kinds}
                assert stages <= {events.EndStage.NEVER}, (lease, kinds)
            else:
                assert lease['deleted_at'] is None, lease

    def what_is_over_gives_its_trust_back(self) -> None:
        for lease in self.rows['leases']:
            if lease['status'] == _OVER and lease['trust_id'] is not None:
                releases = [
                    e
                    for e in of(self.rows, 'events', lease)
                    if e['event_type'] == model.RELEASE_TRUST
                ]
                assert len(releases) == 1, (lease, releases)
                assert releases[0]['status'] != 'DONE', (lease, releases)

    def what_is_not_over_has_its_trust(self) -> None:
        for lease in self.rows['leases']:
            if lease['status'] != _OVER:
                assert lease['trust_id'] in self.world.trusts.present, lease

    def what_waits_is_tried_again_and_has_nothing(self) -> None:
        for lease in self.rows['leases']:
            tries = [
                (kind, event)
                for kind in _UNGRANTED.values()
                for event in opened(self.rows, lease, kind)
            ]
            wanted = _UNGRANTED.get(lease['status'])
            # An event that found out that it is needless may still be in progress.
            undone = [kind for kind, event in tries if event['status'] == 'UNDONE']
            assert len(tries) == 1 if wanted else not undone, (lease, tries)
            assert all(kind == wanted for kind in undone), (lease, tries)
            if wanted or lease['status'] == 'TIMEDOUT':
                ids = {row['id'] for row in of(self.rows, 'reservations', lease)}
                # What one had that gave way is remembered until then.
                later = [a for a in self.rows['allocations'] if a['end'] > self.now]
                assert not [a for a in later if a['reservation_id'] in ids], lease
            if wanted:
                assert not opened(self.rows, lease, model.START), lease

    def nothing_is_promised_twice(self) -> None:
        live_ids = {r['id'] for r in self.rows['reservations'] if r['status'] in _LIVE}
        # What ends as it begins takes nothing.
        promised = [
            each
            for each in self.rows['allocations']
            if each['reservation_id'] in live_ids and each['start'] < each['end']
        ]
        for first, second in itertools.combinations(promised, 2):
            apart = first['end'] <= second['start'] or second['end'] <= first['start']
            assert apart or first['unit_id'] != second['unit_id'], (first, second)

    def what_is_promised_lasts_until_its_end(self) -> None:
        """Return the end of its lease, or its own if it could not be extended with that."""
        for lease in self.rows['leases']:
            gives_way = opened(self.rows, lease, model.PREEMPT)
            if lease['status'] not in ('PENDING', 'STARTING', 'ACTIVE') or gives_way:
                continue
            for row in of(self.rows, 'reservations', lease):
                if row['unit_kind'] is None or row['status'] not in ('pending', 'active'):
                    continue
                promised = [
                    a['end'] for a in self.rows['allocations'] if a['reservation_id'] == row['id']
                ]
                end = self._early_end(lease, row) or lease['end_date']
                assert max(promised) >= end, (lease, row, promised)

    def _early_end(self, lease: Row, row: Row) -> Any:
        """Return when a resource ends that ends before its lease; None if it ends with it."""
        ends = opened(self.rows, lease, model.END_RESERVATION)
        own = [e['time'] for e in ends if e['reservation_id'] == row['id']]
        is_leaving = row['unit_kind'] is None or row['status'] == 'deleting'
        return own[0] if own and not is_leaving else None

    def what_gives_way_has_its_notice(self) -> None:
        """Only preemptible leases give way, and one that runs knows when."""
        for event in self.rows['events']:
            if event['event_type'] == model.PREEMPT:
                (lease,) = (e for e in self.rows['leases'] if e['id'] == event['lease_id'])
                assert lease['preemptible'], (lease, event)
                assert event['time'] - event['created_at'] >= self.world.notice, event

    def what_sleeps_will_be_woken(self) -> None:
        """By an event that is open; or its time is over, or its user has to start it."""
        for lease in self.rows['leases']:
            asleep = any(r['status'] == 'pending' for r in live(self.rows, lease))
            if lease['status'] in _ENDING or not asleep or lease['end_date'] <= self.now:
                continue
            if lease['status'] in _UNGRANTED or opened(self.rows, lease, model.PREEMPT):
                continue
            if lease['start_policy'] == 'manual' and lease['status'] == 'PENDING':
                assert not opened(self.rows, lease, model.START), lease
                ready = [e for e in of(self.rows, 'events', lease) if e['event_type'] == _READY]
                assert len(ready) == 1, (lease, ready)
                continue
            (start,) = opened(self.rows, lease, model.START)
            begun = start['status'] != 'UNDONE' or lease['status'] != 'PENDING'
            assert begun or self.is_due(start, lease['start_date']), (lease, start)

    def an_open_event_has_a_next_time(self) -> None:
        for event in self.rows['events']:
            assert (event['next_at'] is not None) == (event['status'] in _OPEN), event

    def what_is_awake_was_woken_once_and_before_its_end(self) -> None:
        for thing in self.world.ledger.state:
            done = self.world.ledger.done(thing)
            assert _LIFE.fullmatch(' '.join(done)), (thing, done)

    def what_is_active_is_awake(self) -> None:
        for row in self.rows['reservations']:
            if row['status'] == 'active':
                assert 'wake' in self.world.ledger.done(row['resource_id']), row
                assert row['woken_at'] is not None, row

    def history_has_no_gap(self) -> None:
        """Each value is left as it was reached; the last ones are those of now."""
        for lease in self.rows['leases']:
            known: dict[str, Any] = defaultdict(lambda: None)
            for entry in of(self.rows, 'lease_history', lease):
                for key, (before, after) in _changes(entry['changes']).items():
                    assert known[key] == (before or None), (key, known[key], entry)
                    known[key] = after or None
            for field in ('status', 'status_reason', 'name', 'start_policy', 'before_start'):
                assert known[field] == (lease[field] or None), (field, lease)
            for field in ('start_date', 'end_date', 'before_end_date', 'deleted_at'):
                assert known[field] == dates.serialize(lease[field]), (field, lease)
            # Of a webhook only the origin is stored.
            url = (lease['webhook'] or {}).get('url')
            assert known['webhook'] == (url and webhooks.url_origin(url)), lease
            for row in of(self.rows, 'reservations', lease):
                assert known[f'{row["id"]}.status'] == row['status'], row
                for key, value in row['params'].items():
                    # What has a name that begins so is never shown.
                    if not key.startswith('_'):
                        assert known[f'{row["id"]}.params.{key}'] == (value or None), row

    def a_change_of_a_lease_is_a_new_generation(self, before: Rows) -> None:
        old = {lease['id']: lease for lease in before['leases']}
        for lease in self.rows['leases']:
            was = old.get(lease['id'], lease)
            if was != lease:
                assert lease['generation'] > was['generation'], (was, lease)

    def what_a_user_changed_is_a_new_generation(self, before: Rows) -> None:
        """Also if it is in the lease and not the lease itself. To be asked after a request."""
        now = self.world.rows()
        for was in before['leases']:
            (lease,) = (each for each in now['leases'] if each['id'] == was['id'])
            inside = [
                [of(rows, table, was) for table in ('reservations', 'events')]
                for rows in (before, now)
            ]
            if inside[0] != inside[1]:
                assert lease['generation'] > was['generation'], (was, lease)

    def what_is_deleted_stays_deleted(self, before: Rows) -> None:
        gone = {lease['id'] for lease in before['leases'] if lease['deleted_at'] is not None}
        still = {lease['id'] for lease in self.rows['leases'] if lease['deleted_at'] is not None}
        assert gone <= still

    def freed_when_it_is_time(self, effect: Effect) -> None:
        """Never before the end of its lease, unless its user gave it back."""
        lease = effect.now
        over = lease['end_date'] <= effect.time and lease['status'] in _ENDING
        given_back = any(
            entry['action'] == 'lease.end' for entry in of(self.rows, 'lease_history', lease)
        )
        taken_out = effect.held['status'] in ('deleting', 'deleted')
        deleted = lease['status'] == 'DELETING' or lease['deleted_at'] is not None
        assert over or given_back or taken_out or deleted, effect

    def everything_is_freed(self) -> None:
        """Once the time of all leases is past and managers have worked."""
        for lease in self.rows['leases']:
            assert lease['status'] == _OVER, lease
            assert lease['trust_id'] is None, lease
            assert not opened(self.rows, lease), lease
        assert not self.rows['notifications']
        for row in self.rows['reservations']:
            # What a lease has given up is remembered in a reservation without a thing.
            if row['id'] != row['resource_id'] and row['resource_id'][:4] != model.UNMADE:
                assert self.world.ledger.state[row['resource_id']] == 'gone', row
        made = self.world.made.made.values()
        assert {self.world.ledger.state[each] for each in made} <= {'gone'}

    def no_trust_is_kept_for_a_later_lease(self) -> None:
        """Once they are retired, and the time is past after which they are deleted."""
        assert self.world.rows()['owner_trusts'] == []

    def everything_is_told(self) -> None:
        """Check that what history remembers was told; what was told twice has one id."""
        told: Counter[tuple[str, str]] = Counter()
        kinds = {payload['event_id']: (payload['id'], kind) for kind, payload in self.world.sent}
        told.update(kinds.values())
        for lease in self.rows['leases']:
            for kind, times in _notices(self.rows, lease).items():
                assert told[lease['id'], kind] >= times, (lease, kind, told)
            assert told[lease['id'], 'lease.create'] == 1
            self._webhook_is_told(lease)
            assert told[lease['id'], 'lease.delete'] == (lease['deleted_at'] is not None)

    def _webhook_is_told(self, lease: Row) -> None:
        """All that the bus is told, if the lease had the same webhook all the time."""
        changes = [entry['changes'] for entry in of(self.rows, 'lease_history', lease)]
        if lease['webhook'] and not any('webhook' in each for each in changes[1:]):
            rows = {row['event_id'] for row in of(self.rows, 'webhook_deliveries', lease)}
            sent = {p['event_id'] for _, p in self.world.sent if p['id'] == lease['id']}
            assert rows == sent, lease

    @property
    def now(self) -> Any:
        return self.world.ledger.time()


def woken_while_its_lease_runs(effect: Effect, disturbed: bool) -> None:
    """Never before the start, never when the end has begun, never for a cancelled lease.

    :param disturbed: something happened to the lease between the look at it and the call
    """
    lease = effect.lease
    assert lease.start_date <= effect.time, effect
    assert lease.deleted_at is None, effect
    assert lease.status in {'STARTING', 'ACTIVE', 'ERROR'}, effect
    assert effect.reservation.status == 'pending', effect
    if not disturbed:
        assert effect.held['status'] == 'pending', effect
        assert effect.time < lease.end_date, effect
        assert effect.now['status'] == lease.status, effect
        assert effect.now['deleted_at'] is None, effect
        assert effect.now['start_date'] <= effect.time < effect.now['end_date'], effect


def gave_way_when_it_was_told(effect: Effect) -> None:
    """Tell whether a lease runs, is preemptible and has had its notice."""
    lease = effect.lease
    assert lease.preemptible, effect
    assert lease.status == 'ACTIVE', effect
    assert effect.reservation.status == 'active', effect
    assert lease.preempted_at is not None, effect
    assert lease.preempted_at <= effect.time, effect


def in_the_order_of_the_ranks(effect: Effect) -> None:
    """Check that what is used is woken before what uses it and ended after it."""
    assert effect.held['status'] == 'deleting' or not effect.unsettled, effect


def _changes(changes: Row) -> dict[str, list[Any]]:
    flat = {key: value for key, value in changes.items() if key != 'reservations'}
    for reservation_id, fields in changes.get('reservations', {}).items():
        for key, value in fields.items():
            if key == 'params':
                before, after = value[0] or {}, value[1] or {}
                for name in {*before, *after}:
                    pair = [before.get(name), after.get(name)]
                    flat[f'{reservation_id}.{key}.{name}'] = pair
            elif key != 'resource':
                flat[f'{reservation_id}.{key}'] = value
    return flat


_TOLD = {'ACTIVE': 'lease.event.start_lease', 'ERROR': 'lease.event.start_lease.error'}
#: What is told when a lease that waits becomes something else.
_TOLD_OF_WAITING = {
    ('WAITING', 'PENDING'): 'lease.event.retry_lease',
    ('WAITING', 'ERROR'): 'lease.event.retry_lease.error',
    ('IN_PROGRESS', 'PENDING'): 'lease.event.make_room',
    ('IN_PROGRESS', 'TIMEDOUT'): 'lease.event.make_room.error',
}
_GAVE_WAY = ('ACTIVE', 'WAITING')
_UPDATES = frozenset({'lease.update', 'reservation.create', 'reservation.join', 'lease.preempt'})
_PREPARATION = 'event.prepare_reservation'
_RECOVERIES = frozenset({'event.end_reservation', 'resource.lost'})


def _notices(rows: Rows, lease: Row) -> Counter[str]:
    """Return what must have been told, by the history of a lease."""
    wanted: Counter[str] = Counter()
    for entry in of(rows, 'lease_history', lease):
        wanted['lease.update'] += entry['action'] in _UPDATES
        was, status = entry['changes'].get('status', (None, None))
        if was in _UNGRANTED:
            told = _TOLD_OF_WAITING.get((was, status))
            wanted.update([told] if told else [])
        elif entry['action'] in _RECOVERIES and status == 'ACTIVE':
            # What had failed has left the lease, which goes on without it.
            wanted['lease.update'] += 1
        elif entry['action'] == _PREPARATION:
            # What cannot be made is told before the start.
            wanted['lease.update'] += status == 'ERROR'
        elif (was, status) == _GAVE_WAY:
            wanted['lease.event.preempt_lease'] += 1
        elif status in _TOLD:
            wanted[_TOLD[status]] += 1
        if status == _OVER and entry['action'] != 'lease.delete':
            wanted['lease.event.end_lease'] += 1
    return wanted
