# SPDX-License-Identifier: Apache-2.0
"""The network segments that are registered for leases: ``client.networks``."""

import builtins
import dataclasses
import datetime
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self, TypedDict, Unpack

from climateclient import exceptions, extra_properties
from climateclient.host_models import HostProperty
from climateclient.models import time_of
from climateclient.registered import Registered
from climateclient.serialization import read, to_path


@dataclass(frozen=True, slots=True)
class NetworkSegment:
    """A registered segment; ``reservable`` is whether it takes new allocations.

    ``project_ids`` and ``domain_ids`` say which projects, or projects of which domains, may use
    it: without any of both all may. Only operators read them and the ``generation``, by
    which their changes are counted. ``extra`` holds the properties that the operator gave it.
    """

    id: str
    network_type: str
    segment_id: int
    physical_network: str | None = None
    reservable: bool = True
    project_ids: tuple[str, ...] = ()
    domain_ids: tuple[str, ...] = ()
    created_at: datetime.datetime | None = None
    updated_at: datetime.datetime | None = None
    generation: int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, body: Mapping[str, Any]) -> Self:
        """Make it from what the service answers."""
        names = {each.name for each in dataclasses.fields(cls)} - {'extra'}
        read = {
            'project_ids': tuple(body.get('project_ids', ())),
            'domain_ids': tuple(body.get('domain_ids', ())),
            'created_at': time_of(body.get('created_at')),
            'updated_at': time_of(body.get('updated_at')),
        }
        own = {name: value for name, value in body.items() if name in names}
        extra = {name: value for name, value in body.items() if name not in names}
        return cls(**{**own, **read}, extra=extra)


class SegmentDetails(TypedDict, total=False):
    """Describe a segment as its operator does; what is missing stays as it is.

    ``extra`` are extra properties by name; in a change a value of None takes one away.
    """

    reservable: bool
    project_ids: builtins.list[str]
    domain_ids: builtins.list[str]
    extra: Mapping[str, Any]


class Networks(Registered[NetworkSegment]):
    """The calls about network segments; each raises what :mod:`climateclient.exceptions` says."""

    path, noun = '/networks', 'network'
    make = NetworkSegment.from_dict

    def create(
        self,
        network_type: str,
        segment_id: int,
        physical_network: str | None = None,
        **details: Unpack[SegmentDetails],
    ) -> NetworkSegment:
        """Set a segment apart for leases.

        :param network_type: ``vlan``, which is of a physical network, or ``vxlan``, ``geneve`` or
            ``gre``
        :raises BadRequest: there is no such segment; ``field`` says what is wrong
        :raises Conflict: it is in use, or already registered
        """
        body = _body(network_type, physical_network, details)
        return self._create(body | {'segment_id': segment_id})

    def create_range(
        self,
        network_type: str,
        first: int,
        last: int,
        physical_network: str | None = None,
        **details: Unpack[SegmentDetails],
    ) -> builtins.list[NetworkSegment]:
        """Set all segments from one to another apart, or none; raises as :meth:`create`."""
        body = _body(network_type, physical_network, details)
        body['segment_range'] = f'{first}-{last}'
        return self._create_many(body)

    def list(
        self,
        *,
        network_type: str | None = None,
        physical_network: str | None = None,
        segment_id: int | None = None,
        limit: int | None = None,
        marker: str | None = None,
    ) -> Iterator[NetworkSegment]:
        """Yield the registered segments.

        :param limit: the maximum number, over all pages of the service
        :param marker: begin after the one with this id
        """
        values = {
            'network_type': network_type,
            'physical_network': physical_network,
            'segment_id': segment_id,
            'marker': marker,
        }
        return self._list(values, limit)

    def find(self, name_or_id: str) -> NetworkSegment:
        """Return a segment by its id, or as ``physnet1:100`` or ``vxlan:5000``.

        :raises NotFound: none has this id
        :raises SegmentNotFound: there is none
        """
        name, colon, number = name_or_id.rpartition(':')
        if not colon:
            return self.get(name_or_id)
        number = number if number.isdecimal() else '0'
        for each in self.list(segment_id=int(number)) if int(number) else ():
            if name == (each.physical_network or each.network_type):
                return each
        raise exceptions.SegmentNotFound(
            f'No network segment {name_or_id} is registered for leases.'
        )

    def update(
        self, network_id: str, *, generation: int | None = None, **details: Unpack[SegmentDetails]
    ) -> NetworkSegment:
        """Change a segment; its present allocations remain.

        :param generation: that of the segment as it was seen; None: any
        :raises NotFound: there is none
        :raises BadRequest: a value is wrong; ``field`` says which
        :raises Conflict: it has another generation by now
        """
        seen = {} if generation is None else {'generation': generation}
        response = self._http.put(self.path + to_path(network_id), json=_flat(details) | seen)
        return read(response, self.noun, self.make)

    def properties(self, *, private: bool = False) -> builtins.list[HostProperty]:
        """Return the extra properties that segments have, and their values.

        :param private: also those that users may not see, for who may
        """
        return extra_properties.read_all(self._http, self.path, private)

    def set_property(self, name: str, *, private: bool) -> None:
        """Set whether users may see an extra property.

        :raises NotFound: no segment has it
        """
        extra_properties.set_private(self._http, self.path, name, private)


def _body(
    network_type: str, physical_network: str | None, details: SegmentDetails
) -> dict[str, Any]:
    own = {'network_type': network_type, 'physical_network': physical_network}
    return {**_flat(details), **{name: value for name, value in own.items() if value is not None}}


def _flat(details: SegmentDetails) -> dict[str, Any]:
    own: dict[str, Any] = dict(details)
    return {**own.pop('extra', {}), **own}
