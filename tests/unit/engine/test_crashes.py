# SPDX-License-Identifier: Apache-2.0
"""A manager that dies at each named point: another one goes on, and the effect is exactly one.

``tests/kill`` does the same with processes and SIGKILL; here an exception that nothing catches
ends the work at the point.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from climate_core import test_points
from climate_core.lease import model
from tests.support.world import NOON, Time, World

Install = Callable[[test_points.Hook | None], None]

ENGINE = ('event.claimed', 'remote.before', 'remote.after', 'finish.before', 'finish.after')
OUTBOX = ('outbox.before', 'outbox.after')


class Killed(BaseException):
    """The manager is dead."""


def _kill_at(point: str, event_type: str, install: Install) -> None:
    def hook(name: str, info: dict[str, Any]) -> None:
        if name == point and info['event_type'] == event_type:
            install(None)
            raise Killed

    install(hook)


def _live(world: World, time: Time, kills: list[Callable[[], None]]) -> Sequence[str]:
    """Live through a lease with managers that die; return the types of what was told."""
    lease_id = world.create('a', 'b')
    for arm, hours in zip([*kills, lambda: None], (0, 2, 0), strict=False):
        arm()
        time.forward(hours=hours)
        for _ in range(4):
            try:
                world.run_until_idle()
                world.told()
            except Killed:
                # The claim expires, and so does that of the outbox.
                time.forward(seconds=61)
    assert world.lease(lease_id).status == 'TERMINATED'
    return [kind for kind, _ in world.sent]


@pytest.mark.parametrize('event_type', [model.START, model.END])
@pytest.mark.parametrize('point', ENGINE)
def test_killed_on_an_event_s_way(
    world: World, time: Time, install_hook: Install, point: str, event_type: str
) -> None:
    def arm() -> None:
        _kill_at(point, event_type, install_hook)

    told = _live(world, time, [arm, arm if event_type == model.END else lambda: None])
    for thing in ('a', 'b'):
        assert world.things.count('wake', thing) == 1
        assert world.things.count('end', thing) == 1
    assert sorted(told) == sorted(set(told))
    assert world.trusts.present == set()


@pytest.mark.parametrize('point', OUTBOX)
def test_killed_while_telling(world: World, time: Time, install_hook: Install, point: str) -> None:
    told = _live(
        world,
        time,
        [lambda: _kill_at(point, 'lease.event.start_lease', install_hook)],
    )
    assert {'lease.create', 'lease.event.start_lease', 'lease.event.end_lease'} <= set(told)
    by_id = {payload['event_id']: kind for kind, payload in world.sent}
    assert list(by_id.values()).count('lease.event.start_lease') == 1


def test_killed_while_releasing_the_trust(world: World, time: Time, install_hook: Install) -> None:
    kill = 'remote.after'
    _live(world, time, [lambda: None, lambda: _kill_at(kill, 'release_trust', install_hook)])
    time.forward(minutes=2)
    world.run_until_idle()
    assert world.trusts.present == set()


def test_nobody_takes_what_a_dead_manager_has_before_its_claim_expires(
    world: World, time: Time, install_hook: Install
) -> None:
    _kill_at('event.claimed', model.START, install_hook)
    world.create('a')
    with pytest.raises(Killed):
        world.run()
    time.forward(seconds=29)
    assert world.due() == []
    time.forward(seconds=1)
    assert len(world.due()) == 1
    assert time.now > NOON
