# SPDX-License-Identifier: Apache-2.0
"""Create in Neutron, at the start of a lease, what the calendar allocated: one of each.

It is created with the rights of the service in the project of the lease. Its description marks it
from the first moment on, which closes the time until its id is saved: what an earlier try or
another manager has created is found by it and taken over.
"""

import abc
import datetime
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from oslo_log import log

from climate_core import exceptions
from climate_core.cloud import neutron
from climate_core.plugins import calendar_plugin
from climate_core.plugins.base import LeaseManaged, PollAgain, ProvisionedResource
from climate_networks import cloud

if TYPE_CHECKING:
    from climate_core.lease.model import Lease, Reservation

LOG = log.getLogger(__name__)

T = TypeVar('T')

NOT_FREE: Final = '{} is not free yet: an earlier lease still has it.'
_TAKEN: Final = (
    '{} is in use in Neutron, but not for a lease: an operator must free it, or remove it from '
    'those registered for leases.'
)
_FULL: Final = 'The quota of the project for {} in Neutron is full: {}'


class NeutronResourcePlugin(calendar_plugin.CalendarPlugin, LeaseManaged):
    """Reserve what the calendar allocates and Neutron creates at the start of a lease.

    A subclass defines the names of its resources in Neutron, and deletes one with ``discard``.
    """

    service = 'neutron'
    reserves_locally = True
    orphaned = 'it was created for a reservation that has ended'
    #: Their name in Neutron, and the plural for users.
    neutron_noun: ClassVar[str]
    neutron_plural: ClassVar[str]

    def list_created(self) -> Iterable[ProvisionedResource]:
        for each in neutron.list_tagged(self.cloud.service(), self.neutron_noun):
            origin = cloud.reservation_of(each)
            if origin is not None:
                yield ProvisionedResource(each['id'], *origin)

    def unleased_since(self, resource_id: str) -> datetime.datetime | None:
        return neutron.read_changed_at(self.cloud.service(), self.neutron_noun, resource_id)

    @abc.abstractmethod
    def _find(self, reservation: 'Reservation', unit: Any) -> Mapping[str, Any] | None:
        """Return what has an address or a segment in Neutron; None: nothing that is visible."""

    @abc.abstractmethod
    def _find_holder(self, reservation: 'Reservation', unit: Any) -> Any:
        """Return what else has an address or a segment, for operators."""

    def _create_once(
        self,
        lease: 'Lease',
        reservation: 'Reservation',
        unit: Any,
        values: Mapping[str, Any],
        resource: Mapping[str, Any] | None,
        created_ids: Collection[str] = (),
        tags: Collection[str] = (),
    ) -> Mapping[str, Any] | PollAgain:
        """Create it, or take over what an earlier try has created; set its tags.

        :param unit: the address or the segment, whose text users know
        :param values: what it is created with besides its project and its mark
        :param resource: what has the address or the segment in Neutron
        :param created_ids: as of :func:`is_ours`
        :param tags: what it gets besides its tag
        :returns: what exists now; a :class:`PollAgain` for an earlier lease
        :raises climate_core.exceptions.Transient: the quota is full, or something else has it
        """
        conn = self.cloud.service()
        mark = {'project_id': lease.project_id, 'description': cloud.mark(reservation.id)}
        try:
            if resource is None:
                try:
                    resource = neutron.create(conn, self.neutron_noun, {**values, **mark})
                except neutron.Taken:
                    # Another manager may have been faster with the same lease.
                    resource = self._find(reservation, unit)
            if resource is None or not is_ours(resource, lease, reservation, created_ids):
                return self._wait_for_holder(reservation, unit, resource)
            all_tags = {cloud.tag(reservation.id), *tags}
            if not all_tags <= {*resource.get('tags', ())}:
                neutron.set_tags(conn, self.neutron_noun, resource['id'], all_tags)
        except neutron.QuotaFull as exc:
            raise exceptions.Transient(_FULL.format(self.neutron_plural, exc)) from exc
        return resource

    def _wait_for_holder(
        self, reservation: 'Reservation', unit: Any, resource: Mapping[str, Any] | None
    ) -> PollAgain:
        """Return the wait for an earlier lease.

        :raises climate_core.exceptions.Transient: something else has it
        """
        if resource is not None and cloud.is_marked(resource):
            return PollAgain(calendar_plugin.POLL_SECONDS, NOT_FREE.format(unit))
        holder = resource or self._find_holder(reservation, unit)
        LOG.warning('%s, which is for leases, is in use in Neutron: %s', unit, dict(holder))
        raise exceptions.Transient(_TAKEN.format(unit))


def is_ours(
    resource: Mapping[str, Any],
    lease: 'Lease',
    reservation: 'Reservation',
    created_ids: Collection[str],
) -> bool:
    """Return whether something was created for a reservation, whatever address or segment it has.

    :param created_ids: the ids of what is known to be created
    """
    if resource['project_id'] != lease.project_id:
        return False
    return resource['id'] in created_ids or cloud.is_marked_for(
        resource, reservation.id, lease.project_id
    )


def delete_all(delete: Callable[[T], Any], things: Iterable[T]) -> None:
    """Delete all that can be deleted; then raise the error of the first one that could not."""
    failed: list[Exception] = []
    for each in things:
        try:
            delete(each)
        except exceptions.PluginFailure as exc:
            failed.append(exc)
    if failed:
        raise failed[0]
