# SPDX-License-Identifier: Apache-2.0
"""The calls to Placement that hosts of the pools and their lanes need.

A lane is a child provider of a host, see :mod:`climate_common.lanes`. Its slots are what servers
of one reservation take; while all of them are reserved the lane is closed. Every function takes
the connection whose rights it uses, which must be those of an administrator or of a service, and
raises the exceptions of :mod:`climate_core.cloud.errors`. Each of them may be called again: what
is as it shall be is left alone. Facts: Placement API reference, microversion 1.39.
"""

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from climate_common import lanes
from climate_core.cloud import errors
from climate_core.cloud.services import Service, optional

if TYPE_CHECKING:
    from openstack import connection

#: Since 1.26 all of an inventory may be reserved; since 1.39 ``member_of`` takes several.
PLACEMENT = Service('Placement', optional('placement'), '1.39')
#: Sets aggregates without a generation, which each claim of a server changes.
_WITHOUT_GENERATION: Final = '1.18'
#: How often a write is tried that others were faster than. Storms of claims took up to 9.
_TRIES: Final = 50
_GENERATION: Final = 'resource_provider_generation'
_CHANGED_MEANWHILE: Final = 'placement.concurrent_update'
#: The most that a database keeps of an inventory: a lane for servers of any size and number.
MAX_SLOTS: Final = 2**31 - 1


@dataclasses.dataclass(frozen=True, slots=True)
class Provider:
    """A resource provider.

    :param root_id: of the tree that it is in; its own id if it is the root
    """

    id: str
    name: str
    root_id: str


@dataclasses.dataclass(frozen=True, slots=True)
class LaneRoom:
    """How many slots of a lane can be taken, of which some are; of a closed one none can be."""

    slots: int
    used: int


@dataclasses.dataclass(frozen=True, slots=True)
class HostRoom:
    """Hold what Placement has of a host that has lanes.

    :param capacity: by resource class: what can be claimed of it in all, without its lanes
    :param used: the same for what is claimed
    :param lanes: by their ids
    """

    provider_id: str
    capacity: Mapping[str, int]
    used: Mapping[str, int]
    lanes: Mapping[str, LaneRoom]
    traits: frozenset[str]

    @property
    def slots_used(self) -> int:
        """Return how many slots of its lanes are taken."""
        return sum(each.used for each in self.lanes.values())

    @property
    def has_strangers(self) -> bool:
        """Whether it has servers, none of which has a slot of a lane."""
        return any(self.used.values()) and not self.slots_used

    @property
    def open_lanes(self) -> frozenset[str]:
        """Return the ids of the lanes that are open, also those that are full."""
        return frozenset(lane_id for lane_id, each in self.lanes.items() if each.slots)


@dataclasses.dataclass(frozen=True, slots=True)
class LaneAccess:
    """Hold whose servers may enter a lane when it is open.

    :param generation: of the lane when that was read
    """

    generation: int
    aggregates: frozenset[str]


def find_provider(conn: 'connection.Connection', name: str) -> Provider | None:
    """Find a provider by its name, which is unique; None if there is none."""
    found = list(_providers(conn, name=name))
    return found[0] if found else None


def has_provider(conn: 'connection.Connection', provider_id: str) -> bool:
    """Tell whether there is a provider with this id."""
    return any(_providers(conn, uuid=provider_id))


def list_lanes(conn: 'connection.Connection') -> list[Provider]:
    """List the lanes of all hosts."""
    if PLACEMENT.send(conn, 'GET', f'/resource_classes/{lanes.HOST}').status_code == 404:
        return []
    return list(_providers(conn, resources=f'{lanes.HOST}:1'))


def list_pool(conn: 'connection.Connection') -> list[Provider]:
    """List the root providers of the hosts of all pools."""
    return list(_providers(conn, member_of=lanes.POOL))


def _providers(conn: 'connection.Connection', **query: str) -> Iterator[Provider]:
    for row in PLACEMENT.read(conn, '/resource_providers', 'resource_providers', query):
        yield _provider(row)


def _provider(row: Mapping[str, Any]) -> Provider:
    return Provider(row['uuid'], row['name'], row['root_provider_uuid'])


def find_rooms(
    conn: 'connection.Connection', provider_id: str | None = None
) -> dict[str, HostRoom]:
    """Return what Placement has of the hosts with lanes, by the id of the root; one call.

    :param provider_id: only of the host with this root provider, in whatever pool or none;
        None: of all hosts of the pools
    """
    which = {'in_tree': provider_id} if provider_id else {'member_of': f'in:{lanes.POOL}'}
    query = {'resources': f'{lanes.HOST}:1', **which}
    summaries = PLACEMENT.read(conn, '/allocation_candidates', 'provider_summaries', query)
    trees: dict[str, dict[str, Any]] = {}
    for each, row in summaries.items():
        trees.setdefault(row['root_provider_uuid'], {})[each] = row
    return {root: _room(root, tree) for root, tree in trees.items()}


def _room(root: str, tree: Mapping[str, Mapping[str, Any]]) -> HostRoom:
    capacity: dict[str, int] = {}
    used: dict[str, int] = {}
    traits: set[str] = set()
    found: dict[str, LaneRoom] = {}
    for provider_id, provider in tree.items():
        if lanes.HOST in provider['resources']:
            slot = provider['resources'][lanes.SLOT]
            found[provider_id] = LaneRoom(slot['capacity'], slot['used'])
            continue
        traits |= set(provider['traits'])
        for name, amounts in provider['resources'].items():
            capacity[name] = capacity.get(name, 0) + amounts['capacity']
            used[name] = used.get(name, 0) + amounts['used']
    return HostRoom(root, capacity, used, found, frozenset(traits))


def list_consumers(conn: 'connection.Connection', provider_id: str) -> list[str]:
    """List who has allocations of a provider: ids of servers, and of migrations of servers.

    Those of a lane are the servers of its reservation.
    """
    found = PLACEMENT.read(conn, f'/resource_providers/{provider_id}/allocations', 'allocations')
    return sorted(found)


def make_names(conn: 'connection.Connection') -> None:
    """Make the resource classes and the trait of lanes."""
    for name in (lanes.SLOT, lanes.HOST):
        PLACEMENT.ask(conn, 'PUT', f'/resource_classes/{name}')
    PLACEMENT.ask(conn, 'PUT', f'/traits/{lanes.TRAIT}')


def make_lane(conn: 'connection.Connection', root: Provider, number: int) -> str:
    """Make a lane of a host, closed, or find it as it is; return its id.

    :raises climate_core.exceptions.Permanent: its name is that of another host's lane
    """
    name = lanes.lane_name(root.name, number)
    lane = find_provider(conn, name)
    generation = None
    if lane is None:
        body = {'name': name, 'parent_provider_uuid': root.id}
        response = PLACEMENT.send(conn, 'POST', '/resource_providers', body)
        if response.status_code == 409:
            # Another process has just made it.
            lane = find_provider(conn, name)
        else:
            row = errors.read(response, PLACEMENT.name)
            lane, generation = _provider(row), row['generation']
    if lane is None or lane.root_id != root.id:
        raise errors.Refused(
            f'The resource provider {name} does not belong to {root.name}. Delete it and restart '
            'the nova-compute of its host.'
        )
    _complete_lane(conn, lane.id, generation)
    return lane.id


def _complete_lane(conn: 'connection.Connection', lane_id: str, generation: int | None) -> None:
    """Give a lane what it lacks.

    :param generation: that of one that was just made and has nothing; None: look what it has
    """

    def slots(found: Mapping[str, Any]) -> dict[str, Any] | None:
        # Whether one that was made before is open is not the affair of the maker.
        made = lanes.SLOT in found['inventories'] and lanes.HOST in found['inventories']
        return None if made else {'inventories': _lane_inventories(1, is_open=False)}

    def traits(found: Mapping[str, Any]) -> dict[str, Any] | None:
        marked = {lanes.TRAIT, *found['traits']}
        return None if lanes.TRAIT in found['traits'] else {'traits': sorted(marked)}

    path = f'/resource_providers/{lane_id}'
    known = None if generation is None else {_GENERATION: generation, 'inventories': {}}
    written = _write(conn, f'{path}/inventories', slots, known)
    known = None if generation is None else {**written, 'traits': []}
    _write(conn, f'{path}/traits', traits, known)


def read_access(conn: 'connection.Connection', lane_id: str) -> LaneAccess:
    """Return whose servers may take slots of a lane."""
    return LaneAccess(*_read_aggregates(conn, lane_id))


def _read_aggregates(
    conn: 'connection.Connection', provider_id: str
) -> tuple[int, frozenset[str]]:
    """Return the generation of a provider, and its aggregates."""
    response = PLACEMENT.send(conn, 'GET', f'/resource_providers/{provider_id}/aggregates')
    found = errors.read(response, PLACEMENT.name, 'aggregates')
    return response.json()[_GENERATION], frozenset(found)


def set_lane_aggregates(
    conn: 'connection.Connection', lane_id: str, aggregates: Collection[str]
) -> None:
    """Say which reservation's servers may take slots of a lane; none: nobody's."""
    path = f'/resource_providers/{lane_id}/aggregates'
    response = PLACEMENT.send(
        conn, 'PUT', path, sorted(aggregates), microversion=_WITHOUT_GENERATION
    )
    errors.check(response, PLACEMENT.name)


def is_open(conn: 'connection.Connection', lane_id: str) -> bool:
    """Tell whether anybody's servers may take slots of a lane."""
    inventories = PLACEMENT.read(conn, f'/resource_providers/{lane_id}/inventories', 'inventories')
    slots = inventories.get(lanes.SLOT, {})
    return slots.get('reserved', 0) < slots.get('total', 0) or bool(
        read_access(conn, lane_id).aggregates
    )


def set_slots(
    conn: 'connection.Connection',
    lane_id: str,
    slots: int,
    *,
    is_open: bool,
    generation: int | None = None,
) -> int:
    """Set how many slots a lane has, and whether they can be taken.

    Servers that have slots keep them, also when there are fewer than that now.

    :param generation: that of the lane if it is known, which saves the look at it; if it is
        another one by now, the lane is looked at
    :returns: the generation that it has now
    """
    wanted = _lane_inventories(slots, is_open)
    known = None if generation is None else {_GENERATION: generation, 'inventories': {}}
    written = _write(
        conn,
        f'/resource_providers/{lane_id}/inventories',
        lambda found: None if _has(found, wanted) else {'inventories': wanted},
        known,
    )
    return int(written[_GENERATION])


def open_lane(
    conn: 'connection.Connection',
    lane_id: str,
    slots: int,
    aggregates: Collection[str],
    found: LaneAccess,
) -> bool:
    """Let servers into a closed lane; one request if it was prepared.

    :param found: as it is, or as :func:`prepare_lane` left it
    :returns: False: it is not as it was found, and nobody was let in
    """
    access = _give_lane(conn, lane_id, aggregates, found)
    return access is not None and _put_slots(conn, lane_id, slots, True, access) is not None


def prepare_lane(
    conn: 'connection.Connection', lane_id: str, slots: int, aggregates: Collection[str]
) -> int | None:
    """Give a lane to a reservation and leave it closed, so that it only has to be opened.

    :returns: the generation that it has then; None: it is open, in use or gone, and left alone
    """
    path = f'/resource_providers/{lane_id}'
    try:
        found = PLACEMENT.read(conn, f'{path}/inventories')
        slot = found['inventories'].get(lanes.SLOT, {})
        closed = slot.get('reserved') == slot.get('total')
        if not closed or any(PLACEMENT.read(conn, f'{path}/usages', 'usages').values()):
            return None
        # Nobody opens it meanwhile: that would be another generation.
        access = _put_slots(
            conn, lane_id, slots, False, LaneAccess(found[_GENERATION], frozenset())
        )
        access = access and _give_lane(conn, lane_id, aggregates, access)
    except errors.Gone:
        return None
    return access.generation if access else None


def _give_lane(
    conn: 'connection.Connection', lane_id: str, aggregates: Collection[str], found: LaneAccess
) -> LaneAccess | None:
    """Say whose servers may enter a lane; None if it is not as it was found."""
    if found.aggregates == {*aggregates}:
        return found
    body = {_GENERATION: found.generation, 'aggregates': sorted(aggregates)}
    path = f'/resource_providers/{lane_id}/aggregates'
    written = _put_if_unchanged(conn, path, body)
    return None if written is None else LaneAccess(written[_GENERATION], frozenset(aggregates))


def _put_slots(
    conn: 'connection.Connection', lane_id: str, slots: int, is_open: bool, found: LaneAccess
) -> LaneAccess | None:
    """Set the slots of a lane; None if it is not as it was found."""
    body = {_GENERATION: found.generation, 'inventories': _lane_inventories(slots, is_open)}
    path = f'/resource_providers/{lane_id}/inventories'
    written = _put_if_unchanged(conn, path, body)
    return None if written is None else LaneAccess(written[_GENERATION], found.aggregates)


def _put_if_unchanged(
    conn: 'connection.Connection', path: str, body: Mapping[str, Any]
) -> dict[str, Any] | None:
    response = PLACEMENT.send(conn, 'PUT', path, body)
    if _is_changed_meanwhile(response):
        return None
    written: dict[str, Any] = errors.read(response, PLACEMENT.name)
    return written


def close_lane(conn: 'connection.Connection', lane_id: str) -> list[str]:
    """Let no more servers into a lane; return who is in it.

    Its aggregates go first: that needs no generation, so claims at the same time do not delay it.
    What is claimed until its slots are closed is among those who are returned.
    """
    set_lane_aggregates(conn, lane_id, ())
    _close_slots(conn, lane_id)
    return list_consumers(conn, lane_id)


def leave_lane(conn: 'connection.Connection', lane_id: str, reservation_id: str) -> list[str]:
    """Let no more servers of a reservation into a lane; return who is in it.

    It is the reservation's, and nobody else may open it, until a call finds nobody in it. One that
    is another reservation's, or gone, is left alone.
    """
    ended = lanes.ended_aggregate(reservation_id)
    try:
        found = read_access(conn, lane_id).aggregates
        if not found & {ended, lanes.reservation_aggregate(reservation_id)}:
            return []
        if found != {ended}:
            set_lane_aggregates(conn, lane_id, [ended])
        generation = _close_slots(conn, lane_id)
        left = list_consumers(conn, lane_id)
        if not left:
            _release_lane(conn, lane_id, ended, generation)
    except errors.Gone:
        return []
    return left


def clear_lane(conn: 'connection.Connection', lane_id: str, aggregates: Collection[str]) -> bool:
    """Close a lane and have it be nobody's, with or without servers in it.

    What another one does with it meanwhile is left as it is.

    :param aggregates: it is only done while the lane is in one of them
    :returns: whether it was done
    :raises climate_core.cloud.errors.Busy: others were always faster
    """
    path = f'/resource_providers/{lane_id}'
    response = None
    for _ in range(_TRIES):
        found = PLACEMENT.read(conn, f'{path}/aggregates')
        if not {*aggregates} & {*found['aggregates']}:
            return False
        total = PLACEMENT.read(conn, f'{path}/inventories')['inventories'][lanes.SLOT]['total']
        # One after the other: neither is written if anything has changed since the first look.
        body = {_GENERATION: found[_GENERATION], 'inventories': _lane_inventories(total, False)}
        response = PLACEMENT.send(conn, 'PUT', f'{path}/inventories', body)
        if not _is_changed_meanwhile(response):
            generation = errors.read(response, PLACEMENT.name)[_GENERATION]
            body = {_GENERATION: generation, 'aggregates': []}
            response = PLACEMENT.send(conn, 'PUT', f'{path}/aggregates', body)
        if not _is_changed_meanwhile(response):
            break
    assert response is not None
    errors.check(response, PLACEMENT.name)
    return True


def _close_slots(conn: 'connection.Connection', lane_id: str) -> int:
    """Reserve all slots of a lane; return the generation that it has now."""

    def inventories(found: Mapping[str, Any]) -> dict[str, Any] | None:
        wanted = _lane_inventories(found['inventories'][lanes.SLOT]['total'], is_open=False)
        return None if _has(found, wanted) else {'inventories': wanted}

    written = _write(conn, f'/resource_providers/{lane_id}/inventories', inventories)
    return int(written[_GENERATION])


def _release_lane(
    conn: 'connection.Connection', lane_id: str, ended: str, generation: int
) -> None:
    """Give a closed lane to nobody, unless that was done, and it is somebody's by now."""

    def aggregates(found: Mapping[str, Any]) -> dict[str, Any] | None:
        return {'aggregates': []} if found['aggregates'] == [ended] else None

    known = {_GENERATION: generation, 'aggregates': [ended]}
    _write(conn, f'/resource_providers/{lane_id}/aggregates', aggregates, known)


def is_in_pool(conn: 'connection.Connection', provider_id: str) -> bool:
    """Tell whether ordinary servers are kept off a host."""
    return lanes.POOL in _read_aggregates(conn, provider_id)[1]


def settle_pool(
    conn: 'connection.Connection', provider_id: str, is_wanted: Callable[[], bool]
) -> bool:
    """Keep ordinary servers off a host, or give it back to them; its other aggregates stay.

    Of several that do so at once the last one is right: each one looks at the generation first,
    asks then what is wanted, and always writes, also what is so already. One that asked before
    that has an old generation then, and asks again.

    :param is_wanted: tells whether they are to be kept off; it is asked again after each write
        that others were faster than
    :returns: what it told
    :raises climate_core.cloud.errors.Gone: there is no such provider
    """
    wanted = False

    def aggregates(found: Mapping[str, Any]) -> dict[str, Any]:
        nonlocal wanted
        wanted = is_wanted()
        others = {*found['aggregates']} - {lanes.POOL}
        return {'aggregates': sorted(others | {lanes.POOL} if wanted else others)}

    _write(conn, f'/resource_providers/{provider_id}/aggregates', aggregates)
    return wanted


def _lane_inventories(slots: int, is_open: bool) -> dict[str, dict[str, int]]:
    return {
        lanes.SLOT: {'total': slots, 'reserved': 0 if is_open else slots, 'max_unit': 1},
        lanes.HOST: {'total': 1, 'max_unit': 1},
    }


def _has(found: Mapping[str, Any], wanted: Mapping[str, Mapping[str, int]]) -> bool:
    """Tell whether inventories are as they shall be; what is not said is 0."""
    present = found['inventories']
    return present.keys() == wanted.keys() and all(
        {'reserved': 0, **each}.items() <= present[name].items() for name, each in wanted.items()
    )


def _write(
    conn: 'connection.Connection',
    path: str,
    change: Callable[[Mapping[str, Any]], Mapping[str, Any] | None],
    known: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Change a part of a provider, again and again if others change the provider meanwhile.

    :param change: takes the part as it is, and returns it as it shall be; None: leave it
    :param known: the part as it is, with the generation of the provider, which saves the look
    :returns: the part as it is now, with the generation
    :raises climate_core.cloud.errors.Busy: others were always faster
    """
    found = known
    response = None
    for _ in range(_TRIES):
        found = PLACEMENT.read(conn, path) if found is None else found
        wanted = change(found)
        if wanted is None:
            return dict(found)
        body = {_GENERATION: found[_GENERATION], **wanted}
        response = PLACEMENT.send(conn, 'PUT', path, body)
        if not _is_changed_meanwhile(response):
            break
        found = None
    assert response is not None
    written: dict[str, Any] = errors.read(response, PLACEMENT.name)
    return written


def _is_changed_meanwhile(response: Any) -> bool:
    """Tell whether the generation was not the present one, and not, say, an inventory in use."""
    if response.status_code != 409:
        return False
    return any(each.get('code') == _CHANGED_MEANWHILE for each in response.json()['errors'])
