# SPDX-License-Identifier: Apache-2.0
"""Volumes that are there, in servers or not, and looks at their end."""

import dataclasses

from tests.conformance.world import reserved
from tests.support.fakes import cinder, nova


def woken(volumes, on_end='delete', **fields):
    case = reserved(volumes, on_end=on_end)
    case.woken()
    volumes.state.volumes[case.resource_id].update(fields)
    return case


def attached(volumes, on_end='delete', servers=1, **fields):
    case = woken(volumes, on_end)
    made = [nova.add(volumes.state, status='ACTIVE', hints={}) for _ in range(servers)]
    for server in made:
        cinder.attach(volumes.state, case.resource_id, server['id'], **fields)
    return case, made


def shelved(volumes, on_end, **fields):
    """In a server that is off its host; Cinder does not show such an attachment."""
    case, (server,) = attached(volumes, on_end, status='reserved', **fields)
    server['status'] = 'SHELVED_OFFLOADED'
    volumes.state.volumes[case.resource_id]['status'] = 'reserved'
    return case


def asked(case):
    return [each for each in case.world.effects(case.resource_id) if each != 'os-wake_up']


def without_rights(case):
    """The owner's trust is no more."""
    case.lease = dataclasses.replace(case.lease, trust_id=None)


def look(case):
    return case.end_once()


def status(case):
    volume = case.world.state.volumes.get(case.resource_id)
    return volume and volume['status']
