# SPDX-License-Identifier: Apache-2.0
"""The hosts of the pools, for operators: ``client.hosts``."""

import builtins
import datetime
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypedDict, Unpack

from keystoneauth1 import adapter

from climateclient import exceptions, extra_properties
from climateclient.host_models import (
    Host,
    HostAllocation,
    HostPool,
    HostProperty,
    HostUsage,
)
from climateclient.serialization import read, read_pages, to_path, to_query


class HostDetails(TypedDict, total=False):
    """The values that an operator gives a host; those that are None or missing stay.

    ``disabled`` is whether it gets no new allocations, ``disabled_reason`` why. ``extra`` are
    extra properties by name; in a change a value of None removes one. ``shared`` and ``empty``
    are only for :meth:`Hosts.create`: whether ordinary servers may run there until a lease needs
    it, and whether its servers are moved to other hosts first. ``kept_on`` is only for
    :meth:`Hosts.update`: whether it is never switched off, and switched on if it is off.
    """

    pool: str | None
    disabled: bool | None
    disabled_reason: str | None
    shared: bool | None
    empty: bool | None
    kept_on: bool | None
    extra: Mapping[str, Any]


class HostFilters(TypedDict, total=False):
    """The filters of a list of hosts, which must all match."""

    pool: str | None
    reservable: bool | None
    hypervisor_hostname: str | None
    service_name: str | None


class Hosts:
    """The calls about hosts; each raises what :mod:`climateclient.exceptions` says."""

    def __init__(self, http: adapter.Adapter) -> None:
        self._http = http

    def create(self, name: str, **details: Unpack[HostDetails]) -> Host:
        """Add a host to a pool, which keeps ordinary servers off it.

        :param name: of a node as Nova lists hypervisors, or of the nova-compute of a single node
        :raises BadRequest: Nova has no such host; ``field`` says what is wrong
        :raises Conflict: it is in a pool already, has servers, or these cannot be moved
        """
        body = {'name': name, **_body(details)}
        return read(self._http.post('/os-hosts', json=body), 'host', Host.from_dict)

    def list(
        self,
        *,
        limit: int | None = None,
        marker: str | None = None,
        **filters: Unpack[HostFilters],
    ) -> Iterator[Host]:
        """Yield the hosts of the pools, none to who may not see them.

        :param limit: the maximum number, over all pages of the service
        :param marker: begin after the host with this id
        """
        values = {**filters, 'marker': marker}
        found = read_pages(self._http, '/os-hosts', 'hosts', Host.from_dict, values, limit)
        # The entry that stands for all hosts of the cloud has no number.
        return (host for host in found if host.id.isdigit())

    def get(self, host_id: str) -> Host:
        """Return a host by its id.

        :raises NotFound: there is none
        """
        return read(self._http.get(_path(host_id)), 'host', Host.from_dict)

    def find(self, name_or_id: str) -> Host:
        """Return a host by its id, or by the name of its node or of its only service.

        :raises HostNameNotFound: there is none
        :raises AmbiguousName: its service has several nodes
        """
        if name_or_id.isascii() and name_or_id.isdigit():
            try:
                return self.get(name_or_id)
            except exceptions.NotFound:
                pass  # a node may be called by a number
        found = [*self.list(hypervisor_hostname=name_or_id)]
        found = found or [*self.list(service_name=name_or_id)]
        if not found:
            raise exceptions.HostNameNotFound(f'No host has the name or id "{name_or_id}".')
        if len(found) > 1:
            nodes = ', '.join(f'{each.hypervisor_hostname} ({each.id})' for each in found)
            raise exceptions.AmbiguousName(
                f'{name_or_id} has several nodes, give one: {nodes}',
                ids=tuple(each.id for each in found),
            )
        return found[0]

    def update(self, host_id: str, **details: Unpack[HostDetails]) -> Host:
        """Change a host, and have what Nova and Placement say of it read again.

        :raises BadRequest: a value is wrong; ``field`` says which
        """
        response = self._http.put(_path(host_id), json=_body(details))
        return read(response, 'host', Host.from_dict)

    def delete(self, host_id: str) -> None:
        """Remove a host from its pool; ordinary servers may come to it again.

        :raises Conflict: it has servers, or is allocated to reservations
        """
        self._http.delete(_path(host_id))

    def allocations(
        self,
        *,
        lease_id: str | None = None,
        reservation_id: str | None = None,
        limit: int | None = None,
        marker: str | None = None,
    ) -> Iterator[HostAllocation]:
        """Yield the allocations of hosts to reservations.

        :param lease_id: only reservations of this lease
        :param reservation_id: only this reservation
        :param limit: the maximum number of hosts
        :param marker: begin after the host with this id
        """
        values = {'lease_id': lease_id, 'reservation_id': reservation_id, 'marker': marker}
        url, make = '/os-hosts/allocations', HostAllocation.from_dict
        return read_pages(self._http, url, 'allocations', make, values, limit)

    def allocation(self, host_id: str) -> HostAllocation:
        """Return the reservations that a host is allocated to.

        :raises NotFound: there is no such host
        """
        response = self._http.get(_path(host_id, 'allocation'))
        return read(response, 'allocation', HostAllocation.from_dict)

    def usage(
        self, start: datetime.datetime | None = None, end: datetime.datetime | None = None
    ) -> builtins.list[HostUsage]:
        """Return for how long hosts were switched off.

        :param start: of the period; None: the month
        :param end: None: now
        """
        return read(
            self._http.get('/os-hosts/usage', params=to_query({'start': start, 'end': end})),
            'usage',
            lambda rows: [HostUsage.from_dict(row) for row in rows],
        )

    def properties(self, *, private: bool = False) -> builtins.list[HostProperty]:
        """Return the extra properties that hosts have, and their values.

        :param private: also those that users may not see, for who may
        """
        return extra_properties.read_all(self._http, '/os-hosts', private)

    def set_property(self, name: str, *, private: bool) -> None:
        """Set whether users may see an extra property.

        :raises NotFound: no host has it
        """
        extra_properties.set_private(self._http, '/os-hosts', name, private)

    def pools(self) -> builtins.list[HostPool]:
        """Return the pools of hosts."""
        return read(
            self._http.get('/os-hosts/pools'),
            'pools',
            lambda rows: [HostPool.from_dict(row) for row in rows],
        )

    def get_pool(self, name: str) -> HostPool:
        """Return a pool of hosts.

        :raises NotFound: there is none
        """
        return read(self._http.get(_path('pools', name)), 'pool', HostPool.from_dict)

    def set_pool(
        self,
        name: str,
        *,
        project_ids: Iterable[str] = (),
        domain_ids: Iterable[str] = (),
        generation: int | None = None,
    ) -> HostPool:
        """Set which projects may use a pool, which may have no hosts yet; none named: all may.

        :param generation: that of the pool as it was seen, 0 if there was none; None: any
        :raises Conflict: it has another one by now
        """
        body: dict[str, Any] = {
            'project_ids': sorted(project_ids),
            'domain_ids': sorted(domain_ids),
        }
        if generation is not None:
            body['generation'] = generation
        return read(self._http.put(_path('pools', name), json=body), 'pool', HostPool.from_dict)

    def delete_pool(self, name: str) -> None:
        """Delete a pool of hosts.

        :raises NotFound: there is none
        :raises Conflict: it has hosts
        """
        self._http.delete(_path('pools', name))


def _body(details: Mapping[str, Any]) -> dict[str, Any]:
    own = {name: value for name, value in details.items() if value is not None}
    return {**own.pop('extra', {}), **own}


def _path(host_id: str, *more: str) -> str:
    return f'/os-hosts{to_path(host_id, *more)}'
