# SPDX-License-Identifier: Apache-2.0
"""Define the options and the request schema of reservations of hosts and of shares of them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from oslo_config import cfg

from climate_common import lanes, limits, resource_types
from climate_core.calendar.model import Order
from climate_core.plugins import filters, server_recovery
from climate_core.plugins.calendar_plugin import CLEANING_OPTION

#: The metadata by which servers of open matching show the end of their lease.
MARK: Final = 'climate_lease'

OPTIONS: Final[Sequence[cfg.Opt]] = (
    cfg.StrOpt(
        'order',
        default=str(Order.FIT),
        choices=[str(order) for order in Order],
        help='Which of the free hosts are allocated first: those whose gap in the calendar is the '
        'smallest (fit), those with the least (pack) or the most (spread) capacity left, or any '
        '(random).',
    ),
    CLEANING_OPTION,
    cfg.IntOpt(
        'prepare_seconds',
        default=120,
        min=0,
        help='How long before the start of a lease its lanes are prepared, so that the start only '
        'has to open them; 0: not before the start.',
    ),
    cfg.IntOpt(
        'migrate_seconds',
        default=900,
        min=0,
        help='How long Climate tries to move servers at the end (on_end: migrate), unless the '
        'reservation has a grace. Its allocations are retained until then.',
    ),
    cfg.StrOpt(
        'unmovable',
        default='shelve',
        choices=[
            ('shelve', 'Keep the server as an image, free the host.'),
            ('delete', 'Delete it.'),
        ],
        help='What happens to a server that could not be moved in time, because other leases '
        'need its host.',
    ),
    cfg.IntOpt(
        'max_grace_seconds',
        default=3600,
        min=0,
        help='The longest grace that a reservation may request.',
    ),
    *server_recovery.END_RECOVERY_OPTIONS,
)
#: What reservations of this kind have in common.
SCHEMA: Final[Mapping[str, Any]] = {
    **filters.SCHEMA,
    'share_with': {
        'type': 'array',
        'items': {'type': 'string', 'pattern': limits.json_pattern(limits.PROJECT_PATTERN)},
        'uniqueItems': True,
        'maxItems': 100,
        'description': 'Ids of other projects whose servers may enter, too.',
    },
    'matching': {
        'type': 'string',
        'enum': ['targeted', lanes.OPEN],
        'description': 'targeted: servers that name the reservation enter (default); open: new '
        'servers of the project that name none, too, while capacity is sufficient. WARNING: at '
        'the end the servers of every user of the project that entered are deleted (on_end: '
        'delete). '
        f'Climate shows the lease and its end in their metadata ({MARK}), within the interval of '
        'the reconciliation.',
    },
    'on_end': {
        'type': 'string',
        'enum': list(resource_types.ON_END[resource_types.HOST]),
        'description': 'What happens at the end to the servers that are left: they must leave '
        'the hosts, which are allocated to other leases. migrate: they are moved to hosts of no '
        'pool, as ordinary servers.',
    },
    'grace': {
        'type': ['integer', 'null'],
        'minimum': 0,
        'maximum': 7 * 86400,
        'description': 'Seconds after the end in which the servers stay, and no more enter, '
        'before they are deleted; with on_end: migrate, in which they are moved.',
    },
    'before_end': {
        'type': ['string', 'null'],
        'description': "Accepted for Blazar's clients; the lease has before_end_date.",
    },
}
#: Their defaults; Blazar's clients expect both properties of each reservation of hosts.
DEFAULTS: Final = {'on_end': 'delete', 'hypervisor_properties': '', 'resource_properties': ''}
#: The properties of them that may be changed.
CHANGEABLE: Final = (*filters.SCHEMA, 'on_end', 'grace')
