# SPDX-License-Identifier: Apache-2.0
"""The cells of the table of changes in doc/source/user/hosts.rst: what the calendar judges.

What it refuses says from when on there would be enough, and leaves all as it was. What servers
are on hosts that are to be given back (fewer) Placement says: see
tests/functional/nova/test_host_leases.py.
"""

import uuid
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from climate_common import dates
from climate_core import exceptions
from climate_hosts.db import hosts as db
from climate_hosts.nodes import Node
from climate_hosts.plugins.capacity import SizesPlugin
from climate_hosts.plugins.host import HostPlugin
from climate_hosts.plugins.lane_plugin import LanePlugin
from tests.support.created import get_id
from tests.support.world import World, at, user

#: What asks for one host, and for two.
SIZES = {'vcpus': 64, 'memory_mb': 1, 'disk_gb': 0}
WANTED: Mapping[type[LanePlugin], tuple[dict[str, Any], dict[str, Any]]] = {
    HostPlugin: ({'min': 1, 'max': 1}, {'min': 2, 'max': 2}),
    SizesPlugin: ({**SIZES, 'amount': 1}, {'amount': 2}),
}
#: In the place of the values that ask for two hosts.
TWO = {'two': True}
#: What others have besides.
Others = list[tuple[str, str, str]]
Change = Callable[[str, Others, dict[str, Any]], list[str]]


@pytest.fixture(params=WANTED, ids=lambda plugin: plugin.resource_type)
def plugin(request: Any, world: World) -> type[LanePlugin]:
    """Return the type of the reservations, whose resources need nothing to be awake."""
    kind: type[LanePlugin] = request.param
    world.conf.register_opts(kind.options, group=kind.resource_type)
    world.conf.set_override('prepare_seconds', 0, group=kind.resource_type)
    nothing = {name: lambda *_: None for name in ('start', 'reallocate')}
    world.plugins[kind.resource_type] = type('Awake', (kind,), nothing)(world.conf, None)
    return kind


@pytest.fixture
def change(world: World, plugin: type[LanePlugin]) -> Change:
    """Leases cn1, has others lease hosts, and changes the lease; returns its hosts."""
    one, two = WANTED[plugin]
    for name in ('cn1', 'cn2'):
        capacity = {'vcpus': 64, 'memory_mb': 1024}
        known = Node(
            hypervisor_hostname=name, service_name=name, capacity=capacity, details={'vcpus': 64}
        )
        world.database.write(db.insert, 'default', str(uuid.uuid4()), ('a', 'b'), known, {})

    def lease(name: str, start: str, end: str) -> str:
        wanted = {'resource_type': plugin.resource_type, **one, 'names': name}
        body = {'name': str(uuid.uuid4()), 'start_date': f'2082-12-01 {start}'}
        body |= {'end_date': f'2082-12-01 {end}', 'reservations': [wanted]}
        return get_id(world.operations.creator.create_lease(user(), body))

    def change(start: str, others: Others, values: dict[str, Any]) -> list[str]:
        lease_id = lease('cn1', start, '15:00')
        for each in others:
            lease(*each)
        world.run_until_idle()
        before = world.lease(lease_id)
        assert before.status == ('ACTIVE' if start == '12:00' else 'PENDING')
        (reservation,) = before.reservations
        dated = {name: f'2082-12-01 {values[name]}' for name in values if name.endswith('_date')}
        wanted = {name: each for name, each in values.items() if not name.endswith('_date')}
        if wanted.pop('two', False):
            wanted |= two
        if wanted:
            dated['reservations'] = [{'id': reservation.id, **wanted}]
        try:
            world.update(lease_id, **dated)
        except exceptions.ClimateError:
            assert world.lease(lease_id) == before
            raise
        (reservation,) = world.lease(lease_id).reservations
        return [each.unit['hypervisor_hostname'] for each in reservation.allocations]

    return change


LATER: Others = [('cn1', '16:00', '17:00')]
EARLIER: Others = [('cn1', '12:30', '13:00')]
ANY = {'names': ''}


@pytest.mark.parametrize(
    ('start', 'others', 'values', 'found'),
    [
        pytest.param('14:00', LATER, {'end_date': '16:00'}, ['cn1'], id='longer'),
        pytest.param('14:00', LATER, {'end_date': '16:30', **ANY}, ['cn2'], id='longer, moved'),
        pytest.param('14:00', [], {'end_date': '14:30'}, ['cn1'], id='shorter'),
        pytest.param(
            '14:00', LATER, {'start_date': '15:00', 'end_date': '16:00'}, ['cn1'], id='later'
        ),
        pytest.param('14:00', EARLIER, {'start_date': '13:00'}, ['cn1'], id='earlier'),
        pytest.param('14:00', [], {**TWO, **ANY}, ['cn1', 'cn2'], id='more'),
        pytest.param('14:00', [], {'names': 'cn2'}, ['cn2'], id='another filter'),
        pytest.param('14:00', LATER, {'grace': 3600}, ['cn1'], id='longer grace'),
        pytest.param('12:00', LATER, {'end_date': '16:00'}, ['cn1'], id='longer, runs'),
        pytest.param('12:00', [], {'end_date': '12:30'}, ['cn1'], id='shorter, runs'),
        pytest.param('12:00', [], {**TWO, **ANY}, ['cn1', 'cn2'], id='more, runs'),
        pytest.param('12:00', [], {'names': 'cn2'}, ['cn1'], id='another filter, runs'),
        pytest.param('12:00', LATER, {'grace': 3600}, ['cn1'], id='longer grace, runs'),
        pytest.param('14:00', LATER, {'on_end': 'migrate'}, ['cn1'], id='another end'),
        pytest.param('12:00', LATER, {'on_end': 'migrate'}, ['cn1'], id='another end, runs'),
    ],
)
def test_change_is_granted_and_moved_only_before_the_start(
    change: Change, start: str, others: Others, values: dict[str, Any], found: list[str]
) -> None:
    assert change(start, others, values) == found


@pytest.mark.parametrize(
    ('start', 'others', 'values', 'period', 'later'),
    [
        pytest.param('14:00', LATER, {'end_date': '16:30'}, '14:00 16:30', '17:00', id='longer'),
        pytest.param(
            *('14:00', LATER, {'start_date': '15:30', 'end_date': '16:30'}),
            *('15:30 16:30', '17:00'),
            id='later',
        ),
        pytest.param(
            *('14:00', EARLIER, {'start_date': '12:45', 'end_date': '13:45'}),
            *('12:45 13:45', '13:00'),
            id='earlier',
        ),
        pytest.param(
            *('14:00', [*LATER, ('cn2', '14:00', '15:00')], {**TWO, **ANY}),
            *('14:00 15:00', '15:00'),
            id='more',
        ),
        pytest.param(
            *('14:00', [('cn2', '14:30', '15:30')], {'names': 'cn2'}, '14:00 15:00', '15:30'),
            id='another filter',
        ),
        pytest.param(
            *('14:00', [('cn1', '15:30', '16:00')], {'grace': 3600}, '14:00 15:00', '16:00'),
            id='longer grace',
        ),
        pytest.param(
            *('12:00', LATER, {'end_date': '16:30'}, '12:00 16:30', None), id='longer, runs'
        ),
        pytest.param(
            *('12:00', [('cn2', '12:00', '14:00')], {**TWO, **ANY}, '12:00 15:00', '14:00'),
            id='more, runs',
        ),
        pytest.param(
            *('12:00', [('cn2', '12:00', '14:00')], {**TWO, 'names': 'cn2'}),
            *('12:00 15:00', '14:00'),
            id='another filter for more, runs',
        ),
        pytest.param(
            *('12:00', [('cn1', '15:30', '16:00')], {'grace': 3600}, '12:00 15:00', None),
            id='longer grace, runs',
        ),
    ],
)
def test_change_is_refused_with_the_reason_and_the_earliest_time(
    change: Change,
    plugin: type[LanePlugin],
    start: str,
    others: Others,
    values: dict[str, Any],
    period: str,
    later: str | None,
) -> None:
    with pytest.raises(exceptions.NotEnough) as refused:
        change(start, others, values)
    error = refused.value
    begin, end = (f'2082-12-01 {each} UTC' for each in period.split())
    of = {HostPlugin: 'free', SizesPlugin: 'of this shape'}[plugin]
    is_longer = [*values] == ['end_date']
    told = f'cannot be extended until {end}: ' if is_longer else f' {of} from {begin} to {end}'
    assert told in error.message
    moved = [each for each in ('start_date', 'end_date') if each in values]
    amount = f'reservations[0].{plugin.amount_field}'
    assert error.field == (moved[0] if moved == [*values] else amount)
    # That is when what others have begins.
    longer = ' This lease could be extended until 2082-12-01 16:00 UTC.' in error.message
    assert longer is is_longer
    never = 'insufficient at all times until the lease ends' in error.message
    assert never is (later is None and not is_longer)
    if later is None:
        assert error.available_from is None
    else:
        told = ('apacity is sufficient', f'from 2082-12-01 {later} UTC on.')
        if is_longer:
            told = (f'With its new length it could start at 2082-12-01 {later} UTC.',)
        assert all(each in error.message for each in told)
        assert error.available_from == dates.serialize(at(f'2082-12-01 {later}'))


@pytest.mark.parametrize(
    ('start', 'sentence'),
    [('14:00', 'Capacity is insufficient at all times: '), ('12:00', 'until the lease ends: ')],
)
@pytest.mark.parametrize(
    ('values', 'field', 'told'),
    [
        ({'resources': 'vcpus>=65'}, 'resources', 'no host has vcpus>=65; the largest has 64'),
        ({'affinity': True}, 'amount', 'no host has 128 vcpus; the largest has 64'),
    ],
)
def test_change_to_what_there_never_is_says_what_no_host_has(
    change: Change,
    plugin: type[LanePlugin],
    start: str,
    sentence: str,
    values: dict[str, Any],
    field: str,
    told: str,
) -> None:
    if values.keys() <= {*plugin.changeable}:
        with pytest.raises(exceptions.NotEnough) as refused:
            change(start, [], {**TWO, **ANY, **values})
        assert f'{sentence}{told}.' in refused.value.message
        assert refused.value.field == f'reservations[0].{field}'
        assert refused.value.available_from is None


@pytest.mark.parametrize('values', [{'start_date': '12:30'}, {'start_date': '11:00'}])
def test_start_of_a_lease_that_runs_is_not_changed(change: Change, values: dict[str, Any]) -> None:
    with pytest.raises(exceptions.ClimateError) as refused:
        change('12:00', [], values)
    assert (refused.value.status, refused.value.field) == (409, 'start_date')


def test_what_is_not_in_the_calendar_is_never_changed(plugin: type[LanePlugin]) -> None:
    """The API refuses what is not changeable, whatever the state of the lease."""
    never = {'matching', 'share_with', 'before_end'}
    sizes = {*SIZES, 'ephemeral_gb', 'extra_specs'} if plugin is SizesPlugin else set()
    assert plugin.schema.keys() - {*plugin.changeable} == never | sizes
