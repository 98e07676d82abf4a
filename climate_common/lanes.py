# SPDX-License-Identifier: Apache-2.0
"""The names by which the lease service and nova-scheduler agree on lanes in Placement.

A lane is a child resource provider of a host of the pool. The root provider of each of these hosts
is in the aggregate :data:`POOL`, which an ordinary request must not have. Servers of a reservation
take one :data:`SLOT` of a lane whose aggregates name the reservation. Aggregates are derived from
ids, so that neither side sends the other a request:

* :func:`lane_aggregates`: what the lease service adds to a lane, and removes at the end;
* :func:`host_aggregate`, :func:`slot_aggregate`: one of these admits a server;
* :func:`reservation_aggregate`: without any lane in it the reservation has ended;
* :func:`ended_aggregate`: the lane is closed, and belongs to no other reservation yet.
"""

import json
import uuid
from collections.abc import Iterable, Mapping
from typing import Any, Final

#: The aggregate of the root providers of all hosts of all pools.
POOL: Final = '5f1d8a52-3c07-5e0e-9d3c-6f6d0c7b9a41'
#: What a server claims of a lane. All of it is reserved while the lane is closed.
SLOT: Final = 'CUSTOM_CLIMATE_SLOT'
#: One of these per lane: finds the hosts of the pools with one request.
HOST: Final = 'CUSTOM_CLIMATE_HOST'
#: The trait of lanes, which nova's isolated aggregates admit to the pool.
TRAIT: Final = 'CUSTOM_CLIMATE_POOL'
#: The scheduler hint, and the extra spec of a flavor, that name a reservation.
HINT: Final = 'reservation'
EXTRA_SPEC: Final = 'climate:reservation'
#: The extra spec by which clients of Blazar find the flavor of a reservation. Servers enter by
#: :data:`EXTRA_SPEC`: no host aggregate has the metadata that this one means to Nova.
BLAZAR_SPEC: Final = 'aggregate_instance_extra_specs:reservation'
#: The extra specs of the flavor of a reservation that name the reservation.
MARKS: Final = (EXTRA_SPEC, BLAZAR_SPEC)
#: In the place of a reservation in the names of lanes with open matching.
OPEN: Final = 'open'

_NAMESPACE: Final = uuid.UUID('0b6b2a0c-7d0f-5d0c-8f43-41c0f3a3d6f9')


def lane_aggregates(
    reservation_id: str,
    project_ids: Iterable[str],
    shape: str | None = None,
    *,
    open_to: str | None = None,
) -> list[str]:
    """Return all aggregates of a lane of a reservation.

    :param project_ids: the projects whose servers may enter
    :param shape: only servers of this shape may enter; None: all may
    :param open_to: servers of this project that name no reservation may, too. Other projects
        have not agreed to have such servers in a lease that they do not see.
    """
    entering = [(reservation_id, each) for each in project_ids]
    found = {reservation_aggregate(reservation_id)}
    if open_to is not None:
        entering.append((OPEN, open_to))
        found.add(reservation_aggregate(OPEN))
    if shape is None:
        found.update(host_aggregate(*each) for each in entering)
    else:
        found.update(slot_aggregate(*each, shape) for each in entering)
    return sorted(found)


def reservation_aggregate(reservation_id: str) -> str:
    """Return the aggregate of all lanes of a reservation, of any project."""
    return _derive('reservation', reservation_id)


def ended_aggregate(reservation_id: str) -> str:
    """Return the aggregate of lanes that a reservation leaves, until its servers are gone."""
    return _derive('ended', reservation_id)


def host_aggregate(reservation_id: str, project_id: str) -> str:
    """Return the aggregate of lanes that take any server of a project, for a reservation."""
    return _derive('host', reservation_id, project_id)


def slot_aggregate(reservation_id: str, project_id: str, shape: str) -> str:
    """Return the aggregate of lanes that take servers of one shape, for a reservation.

    :param shape: as :func:`shape` returns it
    """
    return _derive('slot', reservation_id, project_id, shape)


def shape(
    vcpus: int,
    memory_mb: int,
    root_gb: int,
    ephemeral_gb: int,
    swap_mb: int | str,
    extra_specs: Mapping[str, Any],
) -> str:
    """Return the canonical text of what a flavor gives its servers; its name does not matter.

    :param swap_mb: an empty string is none, as nova-api answers before microversion 2.75
    :param extra_specs: all of them; :data:`MARKS` make no difference
    """
    specs = {key: str(value) for key, value in extra_specs.items() if key not in MARKS}
    sizes = [int(vcpus), int(memory_mb), int(root_gb), int(ephemeral_gb), int(swap_mb or 0)]
    return json.dumps([sizes, specs], sort_keys=True, separators=(',', ':'))


def flavor_shape(flavor: Mapping[str, Any]) -> str:
    """Return the shape of a flavor as nova-api shows it, at microversion 2.61 or later.

    :raises KeyError: the answer has no extra specs: of an older microversion, or they are hidden
        from this user
    """
    return shape(
        flavor['vcpus'],
        flavor['ram'],
        flavor['disk'],
        flavor['OS-FLV-EXT-DATA:ephemeral'],
        flavor['swap'],
        flavor['extra_specs'],
    )


def lane_name(host: str, number: int) -> str:
    """Return the name of a lane, which is unique in Placement.

    :param host: the name of the root provider: the hypervisor_hostname
    """
    return f'climate-{number}-{host}'


def _derive(*parts: str) -> str:
    return str(uuid.uuid5(_NAMESPACE, '|'.join(parts)))
