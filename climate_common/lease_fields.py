# SPDX-License-Identifier: Apache-2.0
"""The fields of a lease: one row each.

The schemas and the view of the API, the list, notifications, the history, the client, its command
line, the template of Heat, the dashboard and the reference are derived from these rows.
"""

import dataclasses
from collections.abc import Iterator
from typing import Final

from climate_common import dates, durations, limits

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
#: Requests that may set a field, and who may: an operator by default.
CREATE, UPDATE, OPERATOR = 'create', 'update', 'operator'
#: Where a field is shown. The API shows the same of one lease and in a list.
API, NOTIFICATION, HISTORY, HEAT = 'api', 'notification', 'history', 'heat'


@dataclasses.dataclass(frozen=True, slots=True)
class Field:
    """A field of a lease.

    :param type: one of the types of this module
    :param description: as requests, the reference, and the commands show it
    :param set_by: :data:`CREATE` and :data:`UPDATE`; :data:`OPERATOR`: the policy lets only
        operators set it by default. Empty: the service sets it
    :param shown_in: :data:`API`, :data:`NOTIFICATION`, :data:`HISTORY`; :data:`HEAT`: as an
        attribute of ``OS::Climate::Lease``
    :param nullable: whether it may be shown as null
    :param choices: the values of a choice
    :param minimum: of an integer
    :param maximum: of an integer; of a text its length
    :param since: the microversion that added it; None: the first
    :param is_generic: whether it is stored as the user sends it, and shown by its type alone: no
        code but the model of the lease names it. It has an option of ``openstack lease create``
        and ``set``, a property of ``OS::Climate::Lease``, and a place in the form of the dashboard
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
    since: str | None = None
    is_generic: bool = False

    @property
    def title(self) -> str:
        """Return its name for people, as ``Start policy``."""
        return self.name.replace('_', ' ').capitalize()


_CREATE: Final = frozenset({CREATE})
_UPDATE: Final = frozenset({UPDATE})
_BOTH: Final = frozenset({CREATE, UPDATE})
_HIDDEN: Final[frozenset[str]] = frozenset()
_NOTIFIED: Final = frozenset({API, NOTIFICATION})
_READABLE: Final = frozenset({API, NOTIFICATION, HEAT})
_RECORDED: Final = frozenset({API, HISTORY})
_EVERYWHERE: Final = frozenset({API, NOTIFICATION, HISTORY, HEAT})

_DATE: Final = f'In UTC if there is no offset: {dates.FORMS}.'

#: In the order in which they are shown.
FIELDS: Final = (
    Field(
        'id',
        UUID,
        'Chosen by the client, so that a repeated request makes one lease.',
        _CREATE,
        _NOTIFIED,
    ),
    Field('name', TEXT, '', _BOTH, _EVERYWHERE, maximum=limits.NAME_LENGTH),
    Field('status', STATUS, '', shown_in=_EVERYWHERE),
    Field(
        'status_reason',
        TEXT,
        'Why it is in this status, if there is something to say.',
        shown_in=_EVERYWHERE,
        nullable=True,
    ),
    Field('degraded', BOOLEAN, 'A resource is lost, the others are active.', shown_in=_READABLE),
    Field('start_date', DATE, f'When it starts. {_DATE}', _BOTH, _EVERYWHERE),
    Field('end_date', DATE, f'When it ends. {_DATE}', _BOTH, _EVERYWHERE),
    Field(
        'before_end_date',
        DATE,
        f'When ``before_end_lease`` is sent; null: never. {_DATE}',
        _BOTH,
        _EVERYWHERE,
        nullable=True,
    ),
    Field(
        'before_end_notification',
        DATE,
        'Another name of before_end_date.',
        _BOTH,
        _HIDDEN,
        nullable=True,
    ),
    Field(
        'duration',
        DURATION,
        f'How long the lease lasts, in place of end_date: {durations.FORMS}.',
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
        'How often a lease of the kind retry is tried again at most.',
        _CREATE,
        _HIDDEN,
        minimum=1,
        maximum=limits.RETRIES,
    ),
    Field(
        'retries_left',
        INTEGER,
        'How often a queued lease is retried; also while the servers of a lease of the kind retry '
        'are being created.',
        shown_in=_NOTIFIED,
        nullable=True,
    ),
    Field(
        'priority',
        INTEGER,
        'Leases with a higher priority are first in the queue. By default 0.',
        frozenset({CREATE, UPDATE, OPERATOR}),
        _EVERYWHERE,
        maximum=limits.PRIORITY,
    ),
    Field(
        'preemptible',
        BOOLEAN,
        'Whether leases that are not preemptible may take what it has, or is promised, when there '
        'is not enough for them; it waits then. By default false.',
        _CREATE,
        _READABLE,
    ),
    Field(
        'best_effort_timeout',
        INTEGER,
        'Seconds in which hosts must be empty for a lease of the kind best_effort.',
        frozenset({CREATE, OPERATOR}),
        _HIDDEN,
        minimum=1,
        maximum=limits.BEST_EFFORT_SECONDS,
    ),
    Field('next_retry_at', DATE, 'When a queued lease is retried at the latest.', nullable=True),
    Field('queue_position', INTEGER, 'Its place in the queue, from 1 on.', nullable=True),
    Field(
        'start_policy',
        CHOICE,
        'manual: at its start the lease waits until its user starts it.',
        _BOTH,
        _EVERYWHERE,
        choices=limits.START_POLICIES,
    ),
    Field(
        'before_start',
        SECONDS,
        'Numbers of seconds before its start at which the lease sends a notification.',
        _BOTH,
        frozenset({API, HISTORY, HEAT}),
    ),
    Field(
        'webhook',
        WEBHOOK,
        'Where the lease sends its notifications.',
        _BOTH,
        _RECORDED,
        nullable=True,
    ),
    Field('reservations', RESERVATIONS, '', _BOTH, _READABLE),
    Field('events', EVENTS, '', _BOTH, _READABLE),
    Field('project_id', TEXT, 'The project that it belongs to.', shown_in=_READABLE),
    Field('user_id', TEXT, 'The user who created it.', shown_in=_READABLE),
    Field(
        'generation',
        INTEGER,
        'Counts the changes of the lease. In an update: reject it with 409 if the lease has '
        'another generation by now.',
        _UPDATE,
    ),
    Field('created_at', STAMP, 'When it was created.', shown_in=_READABLE),
    Field('updated_at', STAMP, 'When it was changed last.', shown_in=_READABLE, nullable=True),
    Field(
        'partial',
        BOOLEAN,
        'With a later end: extend what can be extended. What the calendar does not promise any '
        'longer keeps the end that it had, and leaves the lease then. It is refused if nothing '
        'of the lease could be extended.',
        _UPDATE,
        _HIDDEN,
    ),
)
BY_NAME: Final = {field.name: field for field in FIELDS}
GENERIC: Final = tuple(field for field in FIELDS if field.is_generic)


def shown_in(place: str) -> Iterator[Field]:
    """Yield the fields that are shown in a place."""
    return (field for field in FIELDS if place in field.shown_in)


def set_by(request: str) -> Iterator[Field]:
    """Yield the fields that a request may set."""
    return (field for field in FIELDS if request in field.set_by)
