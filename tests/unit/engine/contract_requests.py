# SPDX-License-Identifier: Apache-2.0
"""What a user may want of a lease, and what must follow from it at once."""

import dataclasses
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from climate_core.lease import model
from climate_core.operations.create import LeaseCreator
from climate_core.operations.leases import LeaseOperations
from climate_core.repair import reconciliation
from tests.unit.engine.contract_world import THINGS, ContractWorld

HOOKS = [{'url': f'https://{name}.example.org/', 'secret': 'x' * 16} for name in 'ab']
MINUTES = st.sampled_from([1, 10, 45, 60, 90, 180, 0, -1, -60])


@dataclasses.dataclass(frozen=True)
class Asker:
    """A user who wants something of a lease.

    :param data: what is wanted is drawn from it
    :param ask: calls a function of the manager as the user; None when it is refused, or when the
        manager died
    """

    world: ContractWorld
    lease_id: str
    data: st.DataObject
    ask: Callable[..., Any]

    @property
    def lease(self) -> model.Lease:
        return self.world.lease(self.lease_id)

    def draw_generation(self) -> tuple[int | None, bool]:
        """Draw the generation that the user has seen, and whether it is the one of now."""
        kind = self.data.draw(st.sampled_from(['none', 'right', 'wrong']))
        now = self.lease.generation
        return {'none': None, 'right': now, 'wrong': now + 1}[kind], kind != 'wrong'


def rename(asker: Asker) -> None:
    values = {'name': asker.data.draw(st.sampled_from(['', 'a', 'b']))}
    done = asker.ask(LeaseOperations.update_lease, asker.lease_id, values)
    assert done is None or asker.lease.name == values['name']


def move(asker: Asker) -> None:
    fields = st.sampled_from(['start_date', 'end_date', 'before_end_date'])
    wanted = asker.data.draw(st.dictionaries(fields, MINUTES, min_size=1, max_size=2))
    values = {field: asker.world.text(minutes) for field, minutes in wanted.items()}
    generation, right = asker.draw_generation()
    done = asker.ask(LeaseOperations.update_lease, asker.lease_id, values, generation)
    assert done is None or right
    for field, text in values.items():
        assert done is None or getattr(asker.lease, field).isoformat() == text


def extend(asker: Asker) -> None:
    """Have what can be had for longer; the rest keeps its end."""
    minutes = asker.data.draw(st.sampled_from([120, 240, 480]))
    values = {'end_date': asker.world.text(minutes), 'partial': True}
    generation, right = asker.draw_generation()
    done = asker.ask(LeaseOperations.update_lease, asker.lease_id, values, generation)
    assert done is None or right
    assert done is None or asker.lease.end_date.isoformat() == values['end_date']


def put(asker: Asker) -> None:
    """Change anything that a PUT can change, beside the times."""
    note = MINUTES.map(lambda n: {'event_type': 'note', 'time': asker.world.text(n)})
    colours = st.sampled_from(['red', 'green'])
    own = [r.id for r in asker.lease.reservations]
    possible: dict[str, st.SearchStrategy[Any]] = {
        'name': st.sampled_from(['a', 'b']),
        'duration': st.sampled_from([60, 3600, '3h', 10800]),
        'start_policy': st.sampled_from(['auto', 'manual']),
        'before_start': st.lists(st.sampled_from([30, 600, 7200]), max_size=2),
        'events': st.lists(note, max_size=2),
        'webhook': st.none() | st.sampled_from(HOOKS),
        'reservations': colours.map(lambda c: [{'id': each, 'colour': c} for each in own]),
    }
    chosen = asker.data.draw(st.sampled_from(sorted(possible)))
    values = {chosen: asker.data.draw(possible[chosen])}
    generation, right = asker.draw_generation()
    done = asker.ask(LeaseOperations.update_lease, asker.lease_id, values, generation)
    if done is None:
        return
    assert right
    after = asker.lease
    notes = sorted(e.time.isoformat() for e in after.events if e.event_type == 'note')
    assert chosen != 'events' or notes == sorted(e['time'] for e in values['events'])
    assert chosen != 'start_policy' or after.start_policy == values['start_policy']
    for item in values['reservations'] if chosen == 'reservations' else ():
        (found,) = (r for r in after.reservations if r.id == item['id'])
        assert found.params['colour'] == item['colour']


def paint(asker: Asker) -> None:
    before = asker.lease
    if before.reservations:
        chosen = asker.data.draw(st.sampled_from([r.id for r in before.reservations]))
        values = {'colour': asker.data.draw(st.sampled_from(['red', 'green']))}
        generation, right = asker.draw_generation()
        done = asker.ask(LeaseOperations.update_reservation, before.id, chosen, values, generation)
        (after,) = (r for r in asker.lease.reservations if r.id == chosen)
        assert done is None or (right and after.params == {**after.params, **values})


def join(asker: Asker) -> None:
    thing = asker.data.draw(st.sampled_from([None, None, *THINGS])) or asker.world.fresh()
    values = asker.world.wanted(thing)
    done = asker.ask(LeaseCreator.add_reservation, asker.lease_id, values)
    assert done is None or done in {r.id for r in asker.lease.live}


def remove(asker: Asker) -> None:
    before = asker.lease
    if before.reservations:
        chosen = asker.data.draw(st.sampled_from([r.id for r in before.reservations]))
        generation, right = asker.draw_generation()
        done = asker.ask(LeaseOperations.remove_reservation, asker.lease_id, chosen, generation)
        assert done is None or right
        (after,) = (r for r in asker.lease.reservations if r.id == chosen)
        assert done is None or after.status in ('deleting', 'deleted')


def start(asker: Asker) -> None:
    generation, right = asker.draw_generation()
    done = asker.ask(LeaseOperations.start_lease, asker.lease_id, generation)
    assert done is None or (right and asker.lease.start_date <= asker.world.ledger.time())


def end(asker: Asker) -> None:
    generation, right = asker.draw_generation()
    done = asker.ask(LeaseOperations.end_lease, asker.lease_id, generation)
    assert done is None or right
    assert done is None or asker.lease.status in ('TERMINATING', 'TERMINATED', 'DELETING')


def delete(asker: Asker) -> None:
    """Delete it, which works in every state."""
    before = asker.lease
    done = asker.ask(LeaseOperations.delete_lease, asker.lease_id, must=before.deleted_at is None)
    after = asker.lease
    assert done is None or after.deleted_at is not None or after.status == 'DELETING'


def lose(asker: Asker) -> None:
    """Delete a resource outside of its lease; a manager hears of it, or none does."""
    own = (r for r in asker.lease.live if r.unit_kind is None)
    held = [(r.id, r.resource_id) for r in own]
    if held:
        reservation_id, thing = asker.data.draw(st.sampled_from(held))
        asker.world.ledger.state[thing] = 'gone'
        if asker.data.draw(st.booleans()):
            reasons = {reservation_id: 'It was deleted.'}
            reconciliation.mark_lost(asker.world.database, asker.lease_id, reasons)


REQUESTS: dict[str, Callable[[Asker], None]] = {
    'rename': rename,
    'move': move,
    'extend': extend,
    'put': put,
    'paint': paint,
    'join': join,
    'remove': remove,
    'start': start,
    'end': end,
    'delete': delete,
    'lose': lose,
}
