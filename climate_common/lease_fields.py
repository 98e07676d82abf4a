# SPDX-License-Identifier: Apache-2.0
"""The fields of a lease: one row each.

The schemas and the view of the API, the list, notifications, the history, the client, its command
line, the template of Heat, the dashboard and the reference are derived from these rows.
"""

import dataclasses
from collections.abc import Iterator
from typing import Final

from climate_common import dates, limits

#: Types. A stamp is a time that the API shows in seconds.
TEXT, UUID, STATUS, CHOICE, INTEGER, BOOLEAN, DATE, STAMP, DURATION = (
    'text',
    'uuid',
    'status',
    'choice',
    'integer',
    'boolean',
    'date',
    'stamp',
    'duration',
)
#: Types that are lists or objects.
SECONDS, WEBHOOK, RESERVATIONS, EVENTS = 'seconds', 'webhook', 'reservations', 'events'

#: The largest integer that databases store, which stands for no limit.
LARGEST: Final = 2**31 - 1
#: Requests that may set a field.
CREATE, UPDATE = 'create', 'update'
#: Where a field is shown. The API shows the same of one lease and in a list.
API, NOTIFICATION, HISTORY, HEAT = 'api', 'notification', 'history', 'heat'


@dataclasses.dataclass(frozen=True, slots=True)
class Field:
    """A field of a lease.

    :param type: one of the types of this module
    :param description: as requests, the reference, and the commands show it
    :param set_by: :data:`CREATE` and :data:`UPDATE`. Empty: the service sets it
    :param shown_in: :data:`API`, :data:`NOTIFICATION`, :data:`HISTORY`; :data:`HEAT`: as an
        attribute of ``OS::Climate::Lease``
    :param nullable: whether it may be null; null in an update clears a generic field
    :param choices: the values of a choice
    :param minimum: of an integer
    :param maximum: of an integer; of a text its length, which a request's text always needs
    :param is_generic: whether it is stored as the user sends it, and shown by its type alone: a
        text, a choice, an integer or a boolean that no code but the model of the lease names. It
        has an option of ``openstack lease create``, ``set`` and ``unset``, a property of
        ``OS::Climate::Lease``, and a place in the form of the dashboard
    """

    name: str
    type: str
    description: str = ''
    set_by: frozenset[str] = frozenset()
    shown_in: frozenset[str] = frozenset({API})
    nullable: bool = False
    choices: tuple[str, ...] = ()
    minimum: int = 0
    maximum: int = LARGEST
    is_generic: bool = False

    @property
    def title(self) -> str:
        """Return its name for users, as ``Start policy``."""
        return self.name.replace('_', ' ').capitalize()


_CREATE: Final = frozenset({CREATE})
_UPDATE: Final = frozenset({UPDATE})
_BOTH: Final = frozenset({CREATE, UPDATE})
_HIDDEN: Final[frozenset[str]] = frozenset()
_NOTIFIED: Final = frozenset({API, NOTIFICATION})
_READABLE: Final = frozenset({API, NOTIFICATION, HEAT})
_RECORDED: Final = frozenset({API, HISTORY})
_EVERYWHERE: Final = frozenset({API, NOTIFICATION, HISTORY, HEAT})

_DATE: Final = f'In UTC unless it has an offset: {dates.FORMS}.'

#: In the order in which they are shown.
FIELDS: Final = (
    Field(
        'id',
        UUID,
        'UUID that the client may choose, so that a repeated request creates a single lease.',
        _CREATE,
        _NOTIFIED,
    ),
    Field('name', TEXT, '', _BOTH, _EVERYWHERE, maximum=limits.NAME_LENGTH),
    Field('status', STATUS, '', shown_in=_EVERYWHERE),
    Field(
        'status_reason',
        TEXT,
        'Reason for the status, if any.',
        shown_in=_EVERYWHERE,
        nullable=True,
    ),
    Field(
        'degraded',
        BOOLEAN,
        'Whether a resource was lost while other resources are active.',
        shown_in=_READABLE,
    ),
    Field('start_date', DATE, f'Start of the lease. {_DATE}', _BOTH, _EVERYWHERE),
    Field('end_date', DATE, f'End of the lease. {_DATE}', _BOTH, _EVERYWHERE),
    Field(
        'before_end_date',
        DATE,
        f'Time of the notification ``before_end_lease``; null: none. {_DATE}',
        _BOTH,
        _EVERYWHERE,
        nullable=True,
    ),
    Field(
        'before_end_notification',
        DATE,
        'Alias of before_end_date.',
        _BOTH,
        _HIDDEN,
        nullable=True,
    ),
    Field(
        'duration',
        DURATION,
        f'Duration of the lease, in place of end_date: {dates.DURATION_FORMS}.',
        _BOTH,
        _HIDDEN,
    ),
    Field(
        'kind',
        CHOICE,
        'immediate: all resources are claimed or allocated immediately. scheduled: the calendar '
        'allocates them for the time of the lease. retry: the lease is queued until there is '
        'sufficient capacity. best_effort: shared hosts are drained if capacity is insufficient.',
        _CREATE,
        _READABLE,
        choices=limits.KINDS,
    ),
    Field(
        'max_retries',
        INTEGER,
        'Maximum number of retries of a lease of the kind retry.',
        _CREATE,
        _HIDDEN,
        minimum=1,
        maximum=limits.RETRIES,
    ),
    Field(
        'retries_left',
        INTEGER,
        'Remaining retries of a queued lease, and of a lease of the kind retry whose servers are '
        'being created.',
        shown_in=_NOTIFIED,
        nullable=True,
    ),
    Field(
        'priority',
        INTEGER,
        'Priority in the queue: leases with a higher priority come first. Default: 0.',
        _BOTH,
        _EVERYWHERE,
        maximum=limits.PRIORITY,
    ),
    Field(
        'preemptible',
        BOOLEAN,
        'Whether leases that are not preemptible may take its resources and allocations when '
        'capacity is insufficient for them. A preempted lease is queued. Default: false.',
        _CREATE,
        _READABLE,
    ),
    Field(
        'best_effort_timeout',
        INTEGER,
        'Maximum number of seconds to drain hosts for a lease of the kind best_effort.',
        _CREATE,
        _HIDDEN,
        minimum=1,
        maximum=limits.BEST_EFFORT_SECONDS,
    ),
    Field(
        'next_retry_at', DATE, 'Latest time of the next retry of a queued lease.', nullable=True
    ),
    Field('queue_position', INTEGER, 'Position in the queue, starting at 1.', nullable=True),
    Field(
        'start_policy',
        CHOICE,
        'manual: after its start date the lease waits until its user starts it.',
        _BOTH,
        _EVERYWHERE,
        choices=limits.START_POLICIES,
    ),
    Field(
        'before_start',
        SECONDS,
        'Seconds before its start at which the lease sends the notification before_start_lease.',
        _BOTH,
        frozenset({API, HISTORY, HEAT}),
    ),
    Field(
        'webhook',
        WEBHOOK,
        'Receiver of the notifications of the lease.',
        _BOTH,
        _RECORDED,
        nullable=True,
    ),
    Field('reservations', RESERVATIONS, '', _BOTH, _READABLE),
    Field('events', EVENTS, '', _BOTH, _READABLE),
    Field('project_id', TEXT, 'Project that owns the lease.', shown_in=_READABLE),
    Field('user_id', TEXT, 'User who created the lease.', shown_in=_READABLE),
    Field(
        'generation',
        INTEGER,
        'Number of changes of the lease. In an update: the request is rejected with 409 if the '
        'lease has another generation.',
        _UPDATE,
    ),
    Field('created_at', STAMP, 'Time of the creation.', shown_in=_READABLE),
    Field('updated_at', STAMP, 'Time of the last change.', shown_in=_READABLE, nullable=True),
    Field(
        'partial',
        BOOLEAN,
        'With a later end: extend only the reservations that can be extended. Reservations that '
        'the calendar cannot allocate for longer keep their end, and leave the lease then. The '
        'request is rejected if no reservation can be extended.',
        _UPDATE,
        _HIDDEN,
    ),
)
BY_NAME: Final = {field.name: field for field in FIELDS}
GENERIC: Final = tuple(field for field in FIELDS if field.is_generic)
#: The fields that null in an update clears; null for another field changes nothing.
CLEARABLE: Final = frozenset(
    field.name
    for field in FIELDS
    if UPDATE in field.set_by and (field.type == WEBHOOK or (field.is_generic and field.nullable))
)


def shown_in(place: str) -> Iterator[Field]:
    """Yield the fields that are shown in a place."""
    return (field for field in FIELDS if place in field.shown_in)


def set_by(request: str) -> Iterator[Field]:
    """Yield the fields that a request may set."""
    return (field for field in FIELDS if request in field.set_by)
