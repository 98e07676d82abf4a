# SPDX-License-Identifier: Apache-2.0
"""Any order of users' requests, events, failures and crashes, on the pure part alone.

Whatever happens, every move is one of the tables, a resource is never woken after its end, and
once time has passed the lease is over, holds nothing, and its trust is being released.
"""

import dataclasses
import datetime
from collections.abc import Mapping
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from climate_core import exceptions
from climate_core.engine import plugin_calls
from climate_core.lease import changes, events, model, resources, states, transitions
from climate_core.lease.events import end, start
from climate_core.threads import Backoff
from tests.unit.lease import samples
from tests.unit.lease.samples import HOUR, NOON, RULES

BACKOFF = Backoff(2, 120)

_RESULTS = st.sampled_from(['done', 'wait', 'transient', 'permanent', 'bug'])


class LeaseMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = NOON
        self.lease = samples.lease()
        self.claimed: dict[str, tuple[model.Event, transitions.EventWork]] = {}
        self.ended: set[str] = set()
        self.joined = 0

    def _become(self, change: transitions.Change) -> None:
        old, new = self.lease, change.lease
        assert states.is_allowed(states.LEASE, old.status, new.status)
        before = {r.id: r for r in old.reservations}
        for each in new.reservations:
            if each.id in before:
                was = before[each.id].status
                assert states.is_allowed(states.RESERVATION, was, each.status)
        times = [r.created_at for r in new.reservations]
        assert times == sorted(set(times))
        events = {e.id: e for e in old.events}
        for event in new.events:
            if event.id in events:
                assert states.is_allowed(states.EVENT, events[event.id].status, event.status)
                assert event.generation >= events[event.id].generation
        self.lease = new

    def _user(self, change: object) -> None:
        if self.lease.deleted_at is None:
            try:
                self._become(change())  # type: ignore[operator]
            except exceptions.ClimateError:
                return

    @rule(minutes=st.integers(1, 90))
    def time_passes(self, minutes: int) -> None:
        self.now += datetime.timedelta(minutes=minutes)

    @rule()
    def claim(self) -> None:
        due = [e for e in self.lease.events if e.next_at is not None and e.next_at <= self.now]
        if not due:
            return
        first = min(due, key=lambda e: (e.next_at, events.get_handler(e.event_type).priority))
        event = dataclasses.replace(
            first,
            status=states.EventStatus.IN_PROGRESS,
            generation=first.generation + 1,
            next_at=self.now + datetime.timedelta(seconds=30),
        )
        self._become(transitions.Change(self.lease.with_events(event)))
        work = events.get_handler(event.event_type).begin(self.lease, event, self.now)
        if work.skip_reason is not None:
            self._become(
                events.get_handler(event.event_type).skip(
                    self.lease, event, work.skip_reason, self.now
                )
            )
            return
        self._become(transitions.Change(work.lease))
        self.claimed[event.id] = event, work

    @rule(results=st.lists(_RESULTS, min_size=4, max_size=4), data=st.data())
    def finish(self, results: list[str], data: st.DataObject) -> None:
        if not self.claimed:
            return
        event_id = data.draw(st.sampled_from(list(self.claimed)))
        event, work = self.claimed.pop(event_id)
        outcomes = self._outcomes(event, work, results)
        present = next((e for e in self.lease.events if e.id == event_id), None)
        if present is None:  # Its user took it back meanwhile.
            return
        if present.generation == event.generation and present.open:
            self._become(
                events.get_handler(present.event_type).settle(
                    self.lease, present, outcomes, self.now
                )
            )

    def _outcomes(
        self, event: model.Event, work: transitions.EventWork, results: list[str]
    ) -> Mapping[str, transitions.Outcome]:
        ids = [r.id for r in work.reservations] or [event.id]
        return {i: self._outcome(r, event) for i, r in zip(ids, results, strict=False)}

    def _outcome(self, result: str, event: model.Event) -> transitions.Outcome:
        if result in ('transient', 'permanent'):
            trouble = exceptions.Transient if result == 'transient' else exceptions.Permanent
            return plugin_calls.decide_retry(trouble('no'), event, self.lease, self.now, BACKOFF)
        if result == 'bug':
            return plugin_calls.decide_bug(KeyError('x'), event, BACKOFF)
        return (
            transitions.DONE
            if result == 'done'
            else transitions.Outcome(transitions.Result.WAIT, 5.0)
        )

    @rule()
    def crash(self) -> None:
        """Let the claims of the manager that was at work expire: it is dead."""
        self.claimed.clear()
        self.now += datetime.timedelta(seconds=31)

    @rule(ago=st.integers(0, 90))
    def join(self, ago: int) -> None:
        """Let a resource join that was asked for some minutes ago."""
        self.joined += 1
        asked = self.now - datetime.timedelta(minutes=ago)
        new = model.new_reservation('lease', 't', f'joined{self.joined}', {}, asked)
        self._user(lambda: resources.add_reservations(self.lease, [new], self.now))

    @rule(verb=st.sampled_from([end.delete_lease, start.start_lease, end.end_lease]))
    def delete_start_or_end(self, verb: Any) -> None:
        self._user(lambda: verb(self.lease, self.now))

    @rule(field=st.sampled_from(['start_date', 'end_date']), minutes=st.integers(-60, 240))
    def move(self, field: str, minutes: int) -> None:
        text = (self.now + datetime.timedelta(minutes=minutes)).isoformat()
        self._user(lambda: changes.update_lease(self.lease, {field: text}, self.now, RULES))

    @rule(
        values=st.sampled_from(['auto', 'manual']).map(lambda policy: {'start_policy': policy})
        | st.sets(st.sampled_from([60, 600, 7200])).map(lambda told: {'before_start': [*told]})
    )
    def change_how_it_starts(self, values: dict[str, Any]) -> None:
        self._user(lambda: changes.update_lease(self.lease, values, self.now, RULES))

    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        if self.lease.reservations:
            out = data.draw(st.sampled_from([r.id for r in self.lease.reservations]))
            self._user(lambda: resources.remove_reservation(self.lease, out, self.now))

    @rule(data=st.data())
    def resource_disappears(self, data: st.DataObject) -> None:
        if self.lease.live:
            lost = data.draw(st.sampled_from([r.id for r in self.lease.live]))
            self._user(lambda: resources.record_lost(self.lease, {lost: 'deleted'}, self.now))

    @invariant()
    def what_is_over_holds_nothing(self) -> None:
        if self.lease.status == states.LeaseStatus.TERMINATED:
            assert not self.lease.live
        if self.lease.deleted_at is not None:
            assert self.lease.status == states.LeaseStatus.TERMINATED

    @invariant()
    def what_holds_something_will_end(self) -> None:
        end = self.lease.event(model.END)
        assert end is not None
        if self.lease.live:
            assert end.open
            assert end.next_at is not None

    @invariant()
    def what_is_over_gives_its_trust_back(self) -> None:
        if self.lease.status == states.LeaseStatus.TERMINATED and self.lease.trust_id:
            assert any(e.event_type == model.RELEASE_TRUST for e in self.lease.events)

    @invariant()
    def what_sleeps_in_an_open_lease_will_be_woken(self) -> None:
        start = self.lease.event(model.START) or self.lease.event(model.READY)
        assert start is not None
        if self.lease.status == 'PENDING' and start.event_type == model.READY:
            return
        asleep = any(r.status == 'pending' for r in self.lease.reservations)
        if asleep and self.lease.status not in states.ENDING:
            assert start.open or self.now >= self.lease.end_date

    @invariant()
    def what_is_taken_out_will_be_freed(self) -> None:
        out = {e.reservation_id for e in self.lease.events if e.open and e.reservation_id}
        for each in self.lease.reservations:
            if each.status == 'deleting' and self.lease.status not in states.ENDING:
                assert each.id in out

    @invariant()
    def a_coming_start_is_told_in_time(self) -> None:
        start = self.lease.start_date
        for event in self.lease.events:
            if event.event_type == model.BEFORE_START and event.open:
                assert event.time <= start

    @invariant()
    def what_is_open_has_a_next_time(self) -> None:
        for event in self.lease.events:
            assert event.open == (event.next_at is not None)

    def teardown(self) -> None:
        """Let time pass with a cloud that works: it must come to its end."""
        self.claimed.clear()
        for _ in range(60):
            self.now += HOUR
            self.claim()
            for _ in list(self.claimed):
                event, work = self.claimed.popitem()[1]
                present = next(e for e in self.lease.events if e.id == event.id)
                outcomes = {r.id: transitions.DONE for r in work.reservations}
                outcomes[event.id] = transitions.DONE
                self._become(
                    events.get_handler(present.event_type).settle(
                        self.lease, present, outcomes, self.now
                    )
                )
        assert self.lease.status == states.LeaseStatus.TERMINATED
        assert not self.lease.live
        assert not any(e.open for e in self.lease.events)


TestLease = LeaseMachine.TestCase
TestLease.settings = settings(max_examples=60, stateful_step_count=30)
