# SPDX-License-Identifier: Apache-2.0
"""Limits of the lease API: lengths, counts, patterns, words, and conditions on hosts.

The schemas of the API are built from them. The extensions check requests with them in nova-api,
cinder-api and heat-engine, before the lease service would reject them. A pattern matches with
``fullmatch``; :func:`json_pattern` makes one for a JSON Schema.
"""

import datetime
import json
import math
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from climate_common import event_types

#: Characters of the text of a date or duration.
TIME_LENGTH = 64
#: The first and the last date of a request: all databases store what lies between them, and it can
#: be shown in every time zone.
FIRST_DATE = datetime.datetime(1000, 1, 1, tzinfo=datetime.UTC)
LAST_DATE = datetime.datetime(9000, 1, 1, tzinfo=datetime.UTC)
#: The longest duration of a request, 68 years. Leases store seconds in 32 bits.
LONGEST_DURATION = datetime.timedelta(days=24855)
#: Characters of a name, an id of a project or a resource, and other short texts: Nova, Cinder and
#: Heat have the same limit.
NAME_LENGTH = 255
#: Control characters (C0, DEL, C1), which terminals obey, and surrogates, which databases reject.
CONTROL = r'\u0000-\u001f\u007f-\u009f\ud800-\udfff'
#: Something to read, without control characters.
NAME_PATTERN = rf'(?=.*\S)[^{CONTROL}]*'
#: What a name is, for errors.
NAME = f'a text of 1 to {NAME_LENGTH} characters, not only blanks, and without control characters'
#: A text that may be blank or empty.
TEXT_PATTERN = rf'[^{CONTROL}]*'
#: A text of several lines that every database stores.
STORED_PATTERN = r'[^\u0000\ud800-\udfff]*'
#: Keys of the metadata of servers and of volumes, as Nova and Cinder accept them.
SERVER_KEY_PATTERN = rf'[a-zA-Z0-9_:. -]{{1,{NAME_LENGTH}}}'
VOLUME_KEY_PATTERN = rf'[a-zA-Z0-9_:. /-]{{1,{NAME_LENGTH}}}'
#: Characters of a type of resource.
TYPE_LENGTH = 66
#: The name of a trait in Placement.
TRAIT_PATTERN = rf'[A-Z0-9_]{{1,{NAME_LENGTH}}}'
#: The name of an extra property of a host, and its characters.
PROPERTY_LENGTH = 64
PROPERTY_PATTERN = rf'[A-Za-z][A-Za-z0-9_.:-]{{0,{PROPERTY_LENGTH - 1}}}'
#: The id of a project, as Keystone makes them, and as other sources of its projects have them.
PROJECT_PATTERN = r'[A-Za-z0-9][A-Za-z0-9_.-]{0,63}'
#: Items in the list of reservations of a request. Also the default of [limits]
#: reservations_per_lease, which counts every item of a ``count``.
RESERVATIONS = 1000
#: Characters of JSON, in ASCII: one document, as a template, with all aliases of YAML expanded,
#: and all that Heat accepts in one request (heat.conf max_json_body_size).
DOCUMENT_LENGTH = 1024 * 1024
#: Bytes of JSON that the reservations of one lease store. Templates stay in Heat. The longest is a
#: server with 128 items of metadata in characters that JSON writes with 12 bytes, and with all
#: its lists full: 0.97 MB. 1000 servers with a description of 255 characters store 0.76 MB.
LEASE_BYTES = 1024 * 1024
#: Reservations of one request that need the calendar: hosts and shares of hosts.
CALENDAR_RESERVATIONS = 100
EVENTS = 100
#: Servers or volumes that one reservation of a request creates, or whose availability is
#: requested.
NEW_SERVERS = 100
#: Types that end in .error or .stop are notifications about the events of the service.
EVENT_TYPE_PATTERN = r'(?!.*\.(?:error|stop)$)[a-z][a-z0-9_.-]{0,65}'
START_POLICIES = ('auto', 'manual')
#: The kinds of leases.
KINDS = ('immediate', 'scheduled', 'retry', 'best_effort')
#: The maximum time to drain hosts for a lease: a month.
BEST_EFFORT_SECONDS = 31 * 86400
#: The maximum number of retries of a request.
RETRIES = 1_000_000
#: The highest priority of a queued lease; the lowest is 0.
PRIORITY = 9
#: The maximum number of notices before the start of a lease.
START_NOTICES = 20
#: The longest time before the start, in seconds: a year.
LONGEST_START_NOTICE = 366 * 86400

WEBHOOK_URL_LENGTH = 2048
SHORTEST_SECRET, LONGEST_SECRET = 16, NAME_LENGTH
SECRET_PATTERN = rf'[\x20-\x7e]{{{SHORTEST_SECRET},{LONGEST_SECRET}}}'
#: What the secret that signs a webhook is, for descriptions and errors.
SECRET = f'{SHORTEST_SECRET} to {LONGEST_SECRET} printable ASCII characters'
WEBHOOK_EVENTS = 32
WEBHOOK_EVENT_PATTERN = r'[a-z*][a-z0-9_.*-]{0,127}'
IDEMPOTENCY_KEY_PATTERN = rf'[\x20-\x7e]{{1,{NAME_LENGTH}}}'

_NAME = re.compile(NAME_PATTERN)
_EVENT_TYPE = re.compile(EVENT_TYPE_PATTERN)


def json_pattern(pattern: str) -> str:
    """Make a pattern that JSON Schema searches for match the whole text.

    Python's ``$`` alone would accept a line end.
    """
    return rf'^{pattern}(?!\n)$'


#: A name in JSON Schema.
NAME_SCHEMA: Final[Mapping[str, Any]] = {
    'type': 'string',
    'minLength': 1,
    'maxLength': NAME_LENGTH,
    'pattern': json_pattern(NAME_PATTERN),
}


def decode(text: str) -> Any:
    """Read JSON; Python's own reader also accepts NaN, Infinity and 1e999, which are not JSON.

    :raises ValueError: it is not JSON, too deep, or has such a number
    """
    try:
        return json.loads(text, parse_constant=_finite, parse_float=_finite)
    except RecursionError as exc:
        raise ValueError('it must have fewer levels of nesting') from exc


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f'{text:.20} is no number of JSON')
    return number


def encode(value: object, most: int = DOCUMENT_LENGTH) -> str:
    """Encode JSON with sorted names; stop as soon as it is too long.

    Aliases of YAML share one object: a short text can stand for more JSON than fits into
    memory. So nothing of a user is encoded otherwise before it is sent to a service or stored.

    :param most: characters, all of them ASCII
    :raises ValueError: it is longer, too deep, holds itself, or has NaN or an infinite number
    :raises TypeError: it holds what JSON does not have
    """
    parts, size = [], 0
    try:
        for part in json.JSONEncoder(sort_keys=True, allow_nan=False).iterencode(value):
            size += len(part)
            if size > most:
                raise ValueError(f'it must have at most {most} characters as JSON')
            parts.append(part)
    except RecursionError as exc:
        raise ValueError('it must have fewer levels of nesting') from exc
    return ''.join(parts)


def check_name(value: object) -> str:
    """Check the name of a lease, and return it.

    :raises ValueError: it is not a text, blank, too long, or has control characters
    """
    if isinstance(value, str) and len(value) <= NAME_LENGTH and _NAME.fullmatch(value):
        return value
    raise ValueError(f'It must be {NAME}.')


def check_event_type(value: object) -> str:
    """Check the type of an event that a user gives, and return it.

    :raises ValueError: it is not a type, or the service uses it itself
    """
    fine = isinstance(value, str) and _EVENT_TYPE.fullmatch(value)
    if fine and value not in event_types.RESERVED_TYPES:
        return str(value)
    raise ValueError(
        f'{value!r:.80} cannot be given as the type of an event: it must be lower-case letters, '
        'digits, "_", "-" and ".", with no ".error" or ".stop" at the end, and not '
        f'{", ".join(sorted(event_types.RESERVED_TYPES))}.'
    )


def check_start_notices(value: object) -> list[int]:
    """Check the seconds before its start at which a lease has a notice, and return them.

    :raises ValueError: it is not a list of integers of this length and in this range
    """
    given = value if isinstance(value, list | tuple) else None
    if given is None or len(given) > START_NOTICES or not all(map(_is_start_notice, given)):
        raise ValueError(
            f'It must be a list of up to {START_NOTICES} integers, each from 1 to '
            f'{LONGEST_START_NOTICE} (seconds).'
        )
    return list(given)


def _is_start_notice(value: object) -> bool:
    if not isinstance(value, int) or isinstance(value, bool):
        return False
    return 1 <= value <= LONGEST_START_NOTICE


#: The longer ones first, so that ``>=`` is not read as ``>``.
CONDITION_OPERATORS: Final = ('==', '!=', '>=', '<=', '=', '>', '<')
#: Linear in the length of the text: no two adjacent repetitions match the same characters.
_CONDITION: Final = re.compile(
    rf'([^\s<>=!]+)\s*({"|".join(CONDITION_OPERATORS)})\s*((?![<>=]|!=)\S.*)'
)


class Condition(NamedTuple):
    """One comparison of a property of a host with a value.

    :param operator: one of :data:`OPERATORS`
    """

    name: str
    operator: str
    value: str


def parse_condition(text: str) -> Condition | None:
    """Read one condition; None if the text is none."""
    found = _CONDITION.fullmatch(text.strip())
    return Condition(*found.groups()) if found else None
