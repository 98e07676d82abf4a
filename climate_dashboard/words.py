# SPDX-License-Identifier: Apache-2.0
"""The words of the lease service as users read them, in their language."""

from collections.abc import Iterable
from typing import Any, Final

from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy, pgettext_lazy

from climate_common import resource_types
from climateclient.models import Lease, Reservation

LEASE_STATUSES: Final = (
    ('WAITING', pgettext_lazy('Status of a lease', 'Waiting')),
    ('IN_PROGRESS', pgettext_lazy('Status of a lease', 'Hosts are being drained')),
    ('PENDING', pgettext_lazy('Status of a lease', 'Pending')),
    ('STARTING', pgettext_lazy('Status of a lease', 'Starting')),
    ('ACTIVE', pgettext_lazy('Status of a lease', 'Active')),
    ('TERMINATING', pgettext_lazy('Status of a lease', 'Ending')),
    ('TERMINATED', pgettext_lazy('Status of a lease', 'Ended')),
    ('DELETING', pgettext_lazy('Status of a lease', 'Deleting')),
    ('ERROR', pgettext_lazy('Status of a lease', 'Error')),
    ('TIMEDOUT', pgettext_lazy('Status of a lease', 'Timed out')),
)
RESERVATION_STATUSES: Final = (
    ('pending', pgettext_lazy('Status of a reservation', 'Pending')),
    ('active', pgettext_lazy('Status of a reservation', 'Active')),
    ('deleting', pgettext_lazy('Status of a reservation', 'Ending')),
    ('deleted', pgettext_lazy('Status of a reservation', 'Ended')),
    ('error', pgettext_lazy('Status of a reservation', 'Error')),
)
KINDS: Final = (
    ('immediate', pgettext_lazy('Kind of a lease', 'Immediate')),
    ('scheduled', pgettext_lazy('Kind of a lease', 'Scheduled')),
    ('retry', pgettext_lazy('Kind of a lease', 'Queued until capacity is sufficient')),
    ('best_effort', pgettext_lazy('Kind of a lease', 'Best effort')),
)
RESOURCE_TYPES: Final = (
    (resource_types.SERVER, _('Server')),
    (resource_types.VOLUME, _('Volume')),
    (resource_types.STACK, _('Stack')),
    (resource_types.HOST, _('Hosts')),
    (resource_types.CAPACITY, _('Capacity')),
    (resource_types.FLOATING_IP, _('Floating IPs')),
    (resource_types.NETWORK, _('Network')),
)
#: Whether a host is switched off until a lease needs it.
POWERS: Final = (
    ('awake', pgettext_lazy('Power of a host', 'On')),
    ('falling_asleep', pgettext_lazy('Power of a host', 'Powering off')),
    ('asleep', pgettext_lazy('Power of a host', 'Off')),
    ('waking', pgettext_lazy('Power of a host', 'Powering on')),
)
#: The name of floating IPs in the capacity of the calendar.
FLOATING_IP_KIND: Final = 'floating IP'
#: What the calendar counts whole, by the names that it has there.
CAPACITY_KINDS: Final = (
    ('host', _('Hosts')),
    (FLOATING_IP_KIND, _('Floating IPs')),
    ('network segment', _('Networks')),
)
UNITS: Final = (
    (resource_types.VCPUS, _('VCPUs')),
    (resource_types.MEMORY_MB, _('Memory')),
    (resource_types.DISK_GB, _('Disk')),
)
#: What a project may have, by the names that Keystone has for the limits.
LIMITS: Final = (
    ('leases', _('Leases')),
    ('reserved_servers', _('Servers')),
    ('reserved_vcpus', _('VCPUs')),
    ('reserved_memory_mb', _('Memory')),
    ('reserved_volumes', _('Volumes')),
    ('reserved_gigabytes', _('Size of volumes')),
    ('reserved_stacks', _('Stacks')),
    ('reserved_hosts', _('Hosts')),
    ('reserved_floatingips', _('Floating IPs')),
    ('reserved_networks', _('Networks')),
)
EVENTS: Final = (
    ('retry_lease', _('Next try')),
    ('make_room', _('Hosts are drained')),
    ('before_start_lease', _('Notice before the start')),
    ('ready_to_start', _('Ready for its user')),
    ('start_lease', _('Start')),
    ('preempt_lease', _('Preemption')),
    ('before_end_lease', _('Notice before the end')),
    ('end_lease', _('End')),
)
ENDS: Final = (
    ('delete', _('Delete')),
    ('stop', _('Shut off')),
    ('shelve', _('Shelve')),
    ('suspend', _('Suspend')),
    ('create_image', _('Create an image, then delete')),
    ('nothing', _('Nothing')),
    ('backup', _('Back up, then delete')),
    ('snapshot', _('Take a snapshot')),
    ('detach', _('Detach')),
    ('migrate', _('Move servers to other hosts')),
)
_COUNTED: Final = {
    resource_types.SERVER: ngettext_lazy('%d server', '%d servers'),
    resource_types.VOLUME: ngettext_lazy('%d volume', '%d volumes'),
    resource_types.STACK: ngettext_lazy('%d stack', '%d stacks'),
    resource_types.HOST: ngettext_lazy('%d reservation of hosts', '%d reservations of hosts'),
    resource_types.CAPACITY: ngettext_lazy(
        '%d reservation of capacity', '%d reservations of capacity'
    ),
    resource_types.FLOATING_IP: ngettext_lazy(
        '%d reservation of floating IPs', '%d reservations of floating IPs'
    ),
    resource_types.NETWORK: ngettext_lazy('%d network', '%d networks'),
}


def type_of(reservation: Reservation) -> str:
    """Return the type of a reservation; capacity by sizes is capacity, too."""
    by_sizes = resource_types.VCPUS in reservation.params
    is_server = reservation.resource_type == resource_types.SERVER
    return resource_types.CAPACITY if is_server and by_sizes else reservation.resource_type


def counted(reservations: Iterable[Reservation]) -> str:
    """Return what a lease reserves, as ``2 servers, 1 volume``."""
    types = [type_of(each) for each in reservations if each.status != 'deleted']
    found = {resource_type: types.count(resource_type) for resource_type in types}
    return ', '.join(
        str(_COUNTED[resource_type] % number)
        if resource_type in _COUNTED
        else f'{number} {resource_type}'
        for resource_type, number in found.items()
    )


def word(words: Iterable[tuple[str, Any]], value: str | None) -> str:
    """Return the word for a value; one that has none stands for itself."""
    return str(dict(words).get(value or '', value or ''))


def waits(lease: Lease) -> bool:
    """Return whether a lease is queued."""
    return lease.status == 'WAITING'


def reason(lease: Lease) -> str:
    """Return why a lease is as it is, and what it waits for."""
    parts = []
    if waits(lease) and lease.queue_position is not None:
        parts.append(_('Queued: position %d.') % lease.queue_position)
    if lease.waits_for_user:
        parts.append(_('Ready: waits until you start it.'))
    if lease.degraded:
        parts.append(_('Some of its resources are missing.'))
    if lease.status_reason:
        parts.append(lease.status_reason)
    return ' '.join(str(each) for each in parts)
