# SPDX-License-Identifier: Apache-2.0
"""The end of a volume breaks off at each request to the cloud, before it and after it."""

from collections.abc import Callable

import pytest
import requests

from climate_common import resource_types
from climate_core import exceptions
from climate_core.cloud import services
from climate_core.plugins import base
from tests.conformance.world import reserved, settle
from tests.support.fakes import cinder, nova
from tests.unit.plugins.cases import attached, shelved, woken

ON_END = list(resource_types.ON_END[resource_types.VOLUME])
#: Where the volume is when its end begins.
PLACES: dict[str, Callable] = {
    'free': woken,
    'shared': lambda volumes, on_end: attached(volumes, on_end, servers=2)[0],
    'shelved': lambda volumes, on_end: shelved(volumes, on_end, delete_on_termination=True),
}


class Crash(BaseException):
    """The manager dies."""


class Breaking(requests.adapters.BaseAdapter):
    """Makes trouble at one request.

    :param number: of the request, from one on; those to Keystone do not count
    :param after: it is sent, only its answer is lost
    """

    def __init__(self, inner, number, after, trouble) -> None:
        super().__init__()
        self._inner = inner
        self._left = number
        self._after = after
        self._trouble = trouble
        self.broken = False

    def send(self, request, **kwargs):
        if '/identity' in request.url:
            return self._inner.send(request, **kwargs)
        self._left -= 1
        self.broken = self.broken or not self._left
        if self._left:
            return self._inner.send(request, **kwargs)
        if self._after:
            self._inner.send(request, **kwargs)
        return self._trouble(request)

    def close(self) -> None:
        self._inner.close()


def crash(_request):
    raise Crash


def answer(status):
    def make(request):
        made = requests.Response()
        made.status_code, made.request, made.url = status, request, request.url
        made._content = b'{"error": {"message": "A fault that the test ordered."}}'
        return made

    return make


def story(case):
    """Return what became of the volume, in order, from the cloud's own journal."""
    ids = {case.resource_id}
    state = case.world.state
    for table in (state.backups, state.snapshots):
        ids |= {key for key, copy in table.items() if copy['volume_id'] == case.resource_id}
    told = [e['what'] for e in state.journal() if e['id'] in ids]
    return [what for what in told if what not in ('volume is', 'volume create', 'os-wake_up')]


def finish(case, act):
    def look():
        try:
            return act(case.lease, case.reservation)
        except exceptions.Transient:
            return base.PollAgain(1)

    settle(look)


def interrupted(volumes, case, act, number, after, trouble):
    """Have an action of the plugin done with trouble on the way.

    :param act: the method of a plugin
    :returns: whether there was any trouble
    """
    session = volumes.cloud._shared_session.session
    before = session.get_adapter('http://')
    breaking = Breaking(before, number, after, trouble)
    session.mount('http://', breaking)
    plugin = volumes.plugin()
    try:
        finish(case, getattr(plugin, act))
    except Crash:
        plugin = volumes.plugin()
    finally:
        session.mount('http://', before)
    finish(case, getattr(plugin, act))
    assert getattr(plugin, act)(case.lease, case.reservation) is None
    return breaking.broken


@pytest.mark.parametrize(
    ('place', 'trouble', 'after'),
    [
        ('free', crash, False),
        ('free', crash, True),
        ('free', answer(401), False),
        ('free', answer(503), True),
        ('shared', crash, True),
        ('shared', answer(503), True),
        ('shelved', crash, True),
    ],
)
@pytest.mark.parametrize('on_end', ON_END)
def test_trouble_at_each_request(volumes, on_end, place, trouble, after):
    """Nothing is made or asked for twice, and nothing is left out."""
    calm = PLACES[place](volumes, on_end)
    assert not interrupted(volumes, calm, 'end', 0, after, trouble)
    number, broken = 0, True
    while broken:
        number += 1
        case = PLACES[place](volumes, on_end)
        broken = interrupted(volumes, case, 'end', number, after, trouble)
        assert story(case) == story(calm), number
    assert number > 1


@pytest.mark.parametrize(
    ('trouble', 'after'),
    [(crash, False), (crash, True), (answer(401), False), (answer(503), True)],
)
def test_trouble_at_each_request_of_the_start(volumes, trouble, after):
    number, broken = 0, True
    while broken:
        number += 1
        case = reserved(volumes)
        broken = interrupted(volumes, case, 'start', number, after, trouble)
        assert volumes.awake(case.resource_id)
        assert volumes.wakes(case.resource_id) == 1, number
    assert number > 3


# What it costs.

#: (end action, place) -> requests of each look, without those to Keystone.
COSTS = {
    ('delete', 'free'): [2, 1, 1],
    ('delete', 'shared'): [3, 3, 2, 1, 1],
    ('backup', 'free'): [3, 3, 1, 1],
    ('backup', 'shared'): [4, 4, 3, 3, 1, 1],
    ('snapshot', 'free'): [3, 2],
    ('detach', 'shared'): [4, 4, 1],
    ('nothing', 'shared'): [1],
}


def crowd(volumes, case):
    """Put other things of the project into the cloud."""
    other = cinder.add(volumes.state, status='available')
    for number in range(7):
        key = f'other-{number}'
        copy = {
            'id': key,
            'status': 'available',
            'volume_id': other['id'],
            'project_id': 'demo-id',
            'metadata': {'climate_reservation_id': case.reservation.id},
        }
        for table in ('backups', 'snapshots', 'transfers'):
            volumes.state.put(table, dict(copy), {'what': 'made', 'id': key})
        server = nova.add(volumes.state, status='ACTIVE', hints={})
        cinder.attach(volumes.state, other['id'], server['id'])


@pytest.mark.parametrize('crowded', [False, True])
@pytest.mark.parametrize(('on_end', 'place'), sorted(COSTS))
def test_each_look_takes_the_same_requests_in_a_crowded_cloud(
    volumes, monkeypatch, on_end, place, crowded
):
    """It does not depend on what else there is in the cloud."""
    monkeypatch.setattr(services, 'PAGE', 3)
    case = PLACES[place](volumes, on_end)
    if crowded:
        crowd(volumes, case)
    plugin = volumes.plugin()
    plugin.cloud.owner(case.lease.trust_id)
    costs = []

    def look():
        with volumes.counted() as sent:
            wait = case.end_once(plugin)
        costs.append(sum('/identity' not in line for line in sent))
        return wait

    settle(look)
    assert costs == COSTS[on_end, place]
