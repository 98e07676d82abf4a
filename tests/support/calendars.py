# SPDX-License-Identifier: Apache-2.0
"""Read a calendar as strict programs do: by a parser, and by the rules that it does not enforce.

The rules are those of RFC 5545 that a feed could break; the numbers are its sections.
"""

import datetime
import re

import icalendar

#: What a property or a component has once.
_ONCE = {
    'VCALENDAR': ('PRODID', 'VERSION'),
    'VEVENT': ('UID', 'DTSTAMP', 'DTSTART', 'SUMMARY', 'STATUS', 'SEQUENCE', 'TRANSP'),
}
_STATUSES = {'TENTATIVE', 'CONFIRMED', 'CANCELLED'}
#: 3.1: CONTROL, all of which no line may have; those that other programs end a line at as well.
_CONTROL = re.compile(r'[\x00-\x08\x0a-\x1f\x7f-\x9f]')


def read(body: bytes) -> icalendar.Calendar:
    """Return a calendar; AssertionError if RFC 5545 forbids it."""
    lines = body.decode().split('\r\n')
    assert lines.pop() == '', '3.1: each line ends with CRLF'
    for line in lines:
        assert len(line.encode()) <= 75, f'3.1: a line has at most 75 octets: {line}'
        assert not _CONTROL.search(line), f'3.1: no control characters: {line!r}'
    calendar = icalendar.Calendar.from_ical(body)
    assert calendar.subcomponents, '3.6: a calendar has at least one component'
    for component in calendar.walk():
        assert not component.errors, component.errors
        for name in _ONCE.get(component.name, ()):
            assert component.get(name) is not None, f'{component.name} has no {name}'
            assert not isinstance(component[name], list), f'{component.name} has two {name}'
    for event in calendar.walk('VEVENT'):
        _check_event(event)
    ids = [str(event['uid']) for event in calendar.walk('VEVENT')]
    assert len(set(ids)) == len(ids), '3.8.4.7: a UID is unique'
    return calendar


def _check_event(event: icalendar.Event) -> None:
    assert event['status'] in _STATUSES, '3.8.1.11'
    for name in ('DTSTART', 'DTEND', 'DTSTAMP', 'LAST-MODIFIED'):
        if name in event:
            assert event.decoded(name).utcoffset() == datetime.timedelta(0), f'{name} is in UTC'
    if 'DTEND' in event:
        assert event.decoded('DTSTART') < event.decoded('DTEND'), '3.8.2.2: it ends later'
