# SPDX-License-Identifier: Apache-2.0
"""Reserved resources of the fake cloud, and looks at their end."""

import dataclasses
from collections.abc import Callable

from climate_core import exceptions
from tests.conformance.world import reserved
from tests.support.fakes import cinder, nova


def change(case, **fields):
    case.world.table[case.resource_id].update(fields)


def status(case):
    """Return the status of a resource, None if it is gone."""
    found = case.world.table.get(case.resource_id)
    return found and found['status']


def woken(world, on_end='delete', **fields):
    case = reserved(world, on_end=on_end)
    case.woken()
    change(case, **fields)
    return case


def asked(case):
    """Return what was asked for beside the wake-up."""
    told = case.world.effects(case.resource_id)
    return [each for each in told if each not in ('wake_up', 'os-wake_up')]


def count_failures(call: Callable[[], None]) -> int:
    """Repeat a wake-up or an end until it is done; count what went wrong on the way."""
    count = 0
    while True:
        try:
            call()
        except exceptions.Transient:
            count += 1
        else:
            return count


def without_rights(case):
    """Have the owner's trust gone."""
    case.lease = dataclasses.replace(case.lease, trust_id=None)


def attached(volumes, on_end='delete', servers=1, **fields):
    """Return a volume that is in servers."""
    case = woken(volumes, on_end)
    made = [nova.add(volumes.state, status='ACTIVE', hints={}) for _ in range(servers)]
    for server in made:
        cinder.attach(volumes.state, case.resource_id, server['id'], **fields)
    return case, made


def shelved(volumes, on_end, **fields):
    """In a server that is off its host; Cinder does not show such an attachment."""
    case, (server,) = attached(volumes, on_end, status='reserved', **fields)
    server['status'] = 'SHELVED_OFFLOADED'
    change(case, status='reserved')
    return case


def reject_for_an_hour(case, answer: str) -> None:
    """Try the end until its service has rejected it three times; an hour is between the last."""
    for rejected in range(3):
        if rejected == 2:
            case.time.forward(hours=1)
        while not is_rejected(case, answer):
            pass


def is_rejected(case, answer: str) -> bool:
    """Take a step of the end; return whether its service rejects it with this answer."""
    try:
        assert case.end_once() is not None
    except exceptions.Transient as exc:
        return answer in str(exc)
    return False
