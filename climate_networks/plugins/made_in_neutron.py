# SPDX-License-Identifier: Apache-2.0
"""Make in Neutron, at the start of a lease, what the calendar promised: exactly one of each.

It is made with the rights of the service in the project of the lease. Its description marks it
from the first moment on, which closes the time until its id is saved: what an earlier try has
made, or another manager, is found by it and taken over.
"""

import dataclasses
import datetime
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from oslo_log import log

from climate_core import exceptions
from climate_core.cloud import neutron
from climate_core.plugins import calendar_plugin
from climate_core.plugins.base import PollAgain
from climate_core.plugins.capabilities import LeaseManaged, ProvisionedResource
from climate_networks import cloud

if TYPE_CHECKING:
    from climate_core.cloud import connections
    from climate_core.lease.model import Lease, Reservation

LOG = log.getLogger(__name__)

T = TypeVar('T')

NOT_FREE: Final = '{} is not free yet: an earlier lease still has it.'
_TAKEN: Final = (
    '{} is in use in Neutron, but not for a lease: an operator must free it, or take it away from '
    'those for leases.'
)
_FULL: Final = 'The quota of the project for {} in Neutron is full: {}'


@dataclasses.dataclass(frozen=True, kw_only=True)
class NeutronRequest:
    """Describe what is to be created in Neutron.

    :param noun: in Neutron: ``floatingip`` or ``network``
    :param plural: the same for people
    :param name: of what was promised, for people
    :param values: what it is created with besides its project and its mark
    :param tags: what it gets besides its tag
    :param find: returns what has the address or the segment in Neutron; None: nothing that is seen
    :param find_holder: returns what else has it, for operators
    """

    noun: str
    plural: str
    name: str
    values: Mapping[str, Any]
    tags: Collection[str] = ()
    find: Callable[[], Mapping[str, Any] | None]
    find_holder: Callable[[], Any]


class MadeInNeutronPlugin(calendar_plugin.CalendarPlugin, LeaseManaged):
    """Reserve what the calendar promises and Neutron makes at the start of a lease.

    A subclass says how its resources are called there, and deletes one with ``discard``.
    """

    service = 'neutron'
    reserves_locally = True
    orphaned = 'it was made for a reservation that has ended'
    #: In Neutron.
    neutron_noun: ClassVar[str]

    def list_made(self) -> Iterable[ProvisionedResource]:
        for each in neutron.list_tagged(self.cloud.service(), self.neutron_noun):
            made = cloud.reservation_of(each)
            if made is not None:
                yield ProvisionedResource(each['id'], *made)

    def unleased_since(self, resource_id: str) -> datetime.datetime | None:
        return neutron.read_changed_at(self.cloud.service(), self.neutron_noun, resource_id)


def is_ours(
    found: Mapping[str, Any], lease: 'Lease', reservation: 'Reservation', known: Collection[str]
) -> bool:
    """Tell whether something was made for a reservation, whatever address or segment it has.

    :param known: the ids of what is known to be made
    """
    if found['project_id'] != lease.project_id:
        return False
    return found['id'] in known or cloud.is_marked_for(found, reservation.id, lease.project_id)


def make(
    conn: 'connections.Connection',
    wanted: NeutronRequest,
    lease: 'Lease',
    reservation: 'Reservation',
    found: Mapping[str, Any] | None,
    known: Collection[str],
) -> Mapping[str, Any] | PollAgain:
    """Create it, or take over what an earlier try has made; give it its tags.

    :param found: what has the address or the segment in Neutron
    :param known: as of :func:`is_ours`
    :returns: what is there now; a :class:`PollAgain` for an earlier lease
    :raises climate_core.exceptions.Transient: the quota is full, or something else has it
    """
    try:
        if found is None:
            try:
                found = neutron.create(
                    conn,
                    wanted.noun,
                    {
                        **wanted.values,
                        'project_id': lease.project_id,
                        'description': cloud.mark(reservation.id),
                    },
                )
            except neutron.Taken:
                # Another manager may have been faster with the same lease.
                found = wanted.find()
        if found is None or not is_ours(found, lease, reservation, known):
            return _not_ours(wanted, found)
        tags = {cloud.tag(reservation.id), *wanted.tags}
        if not tags <= {*found.get('tags', ())}:
            neutron.set_tags(conn, wanted.noun, found['id'], tags)
    except neutron.QuotaFull as exc:
        raise exceptions.Transient(_FULL.format(wanted.plural, exc)) from exc
    return found


def _not_ours(wanted: NeutronRequest, found: Mapping[str, Any] | None) -> PollAgain:
    """Return the wait for an earlier lease.

    :raises climate_core.exceptions.Transient: something else has it
    """
    if found is not None and cloud.is_marked(found):
        return PollAgain(calendar_plugin.POLL_SECONDS, NOT_FREE.format(wanted.name))
    holder = found or wanted.find_holder()
    LOG.warning('%s, which is for leases, is in use in Neutron: %s', wanted.name, dict(holder))
    raise exceptions.Transient(_TAKEN.format(wanted.name))


def delete_all(delete: Callable[[T], Any], things: Iterable[T]) -> None:
    """Delete all that can be deleted; then raise what kept the first one from it."""
    failed: list[Exception] = []
    for each in things:
        try:
            delete(each)
        except exceptions.PluginFailure as exc:
            failed.append(exc)
    if failed:
        raise failed[0]
