# SPDX-License-Identifier: Apache-2.0
"""The scheduler hints by which a user reserves a server or a volume, and the keys inside them."""

RESERVED = 'reserved'
LEASE_PARAMS = 'lease_params'
LEASE_ID = 'lease_id'
NAMES = frozenset((RESERVED, LEASE_PARAMS, LEASE_ID))
#: Heat adds it to the hints of all servers of a stack where an operator wants it
#: (heat/engine/resources/scheduler_hints.py).
ROOT_STACK = 'heat_root_stack_id'
#: The lease service adds it to the hints of a server or a volume that it creates: the id of the
#: reservation. A volume has it in its metadata, too.
MADE_FOR = 'climate_reservation'

#: The keys of ``lease_params`` that have several names, by the name that is sent on.
ALIASES = {
    'start_date': ('start_date', 'start'),
    'end_date': ('end_date', 'end'),
    'duration': ('duration', 'length'),
    'before_end_date': ('before_end_date', 'before_end_notification', 'before_end'),
}
#: Every key of ``lease_params`` -> the name that is sent on.
KEYS = {alias: key for key, aliases in ALIASES.items() for alias in aliases} | {
    key: key for key in ('id', 'name', 'on_end', 'events', 'kind', 'start_policy', 'before_start')
}
#: Every key of an event in ``lease_params`` -> the name that is sent on.
EVENT_KEYS = {'event_type': 'event_type', 'time': 'time', 'event_date': 'time'}
