# SPDX-License-Identifier: Apache-2.0
"""The scheduler hints of a reservation: their meaning, and the errors in them.

Pure: no I/O, and time comes from the caller. The same function reads the hints that a user wrote
(nova-api, cinder-api) and those that these made of them (the schedulers, nova-compute,
cinder-volume); in nova every value is then a list of strings because its RequestSpec keeps hints
so.

====================  ==========================================================================
``reserved``          a boolean. False is the same as no hint
``lease_params``      a JSON object, as a string or as it is: creates a new lease
``lease_id``          the uuid of a lease to join; ``lease_params`` may then hold ``on_end`` only
``reservation``       the uuid of a reservation of hosts or of shares of hosts, on one of which the
                      server is built; for nova only, with or without the others
====================  ==========================================================================

Heat adds ``heat_root_stack_id`` to all hints of a stack's servers where an operator wants it
(heat/engine/resources/scheduler_hints.py). Beside ``lease_id`` it makes the resource a member of
that stack in the lease; otherwise it is ignored. So it is with ``climate_reservation``, by
which the lease service says for which reservation of the lease it makes a server.
"""

import dataclasses
import datetime
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from climate_common import lanes
from climate_common.hints import LEASE_ID, LEASE_PARAMS, MADE_FOR, NAMES, RESERVED, ROOT_STACK
from climateclient.extension.errors import BadHint
from climateclient.extension.lease_params import LeaseParams

__all__ = [
    'LEASE_ID',
    'LEASE_PARAMS',
    'NAMES',
    'RESERVED',
    'ROOT_STACK',
    'BadHint',
    'HintRules',
    'ReservationHints',
    'mentioned',
    'parse',
    'reservation_of_hosts',
    'wants_reservation',
]

_TRUE = frozenset(('true', 'yes', 'on', '1', 't', 'y'))
_FALSE = frozenset(('false', 'no', 'off', '0', 'f', 'n'))


@dataclasses.dataclass(frozen=True, slots=True)
class HintRules:
    """The rules and defaults of one service for hints.

    :param on_end: the actions that its resources can have at the end of a lease
    :param start: the default start, a date as :func:`climate_common.dates.parse` reads it
    :param length: the default time from the start to the end
    """

    on_end: Sequence[str]
    start: str = 'now'
    length: datetime.timedelta = datetime.timedelta(days=30)


@dataclasses.dataclass(frozen=True, slots=True)
class ReservationHints:
    """The reservation that hints ask for.

    :param lease_id: of the new lease, or of the lease to join
    :param join: the lease exists
    :param lease: the rest of the body of POST /v1/leases; empty when joining
    :param on_end: the action for the resource at the end; None is the service's default
    :param id_given: the id of the new lease is in the hints
    :param stack_id: the root stack in the lease to join of which the resource is a member
    :param made_for: the reservation of the lease to join for which the lease service makes it
    """

    lease_id: str
    join: bool
    lease: Mapping[str, Any]
    on_end: str | None = None
    id_given: bool = dataclasses.field(default=False, compare=False)
    stack_id: str | None = None
    made_for: str | None = None

    def as_hints(self) -> dict[str, str]:
        """Return hints of strings, which :func:`parse` reads as the same reservation."""
        params = {} if self.join else {'id': self.lease_id, **self.lease}
        if self.on_end:
            params['on_end'] = self.on_end
        result = {RESERVED: 'True'}
        if self.join:
            result[LEASE_ID] = self.lease_id
        if self.stack_id:
            result[ROOT_STACK] = self.stack_id
        if self.made_for:
            result[MADE_FOR] = self.made_for
        if params:
            result[LEASE_PARAMS] = json.dumps(params, sort_keys=True)
        return result


def mentioned(hints: Mapping[str, Any] | None) -> bool:
    """Tell whether any hint is about a reservation; an ordinary request costs no more."""
    return hints is not None and not NAMES.isdisjoint(hints)


def wants_reservation(hints: Mapping[str, Any] | None) -> bool:
    """Tell whether these hints, which were checked before, ask for a reservation."""
    if hints is None or not mentioned(hints):
        return False
    return LEASE_PARAMS in hints or LEASE_ID in hints or _boolean(_single(hints, RESERVED))


def reservation_of_hosts(hints: Mapping[str, Any], name: str = lanes.HINT) -> str | None:
    """Return the id of the reservation of hosts that hints name, in its canonical form.

    :param name: of the hint, or of the extra spec if these are the extra specs of a flavor
    :returns: None if they name none
    :raises BadHint: it is no uuid
    """
    if name not in hints:
        return None
    try:
        return _uuid(_single(hints, name), name)
    except RecursionError:
        raise BadHint(name, 'must not be nested so deeply') from None


def parse(
    hints: Mapping[str, Any] | None,
    now: datetime.datetime,
    rules: HintRules,
    *,
    fresh: bool = True,
    new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
) -> ReservationHints | None:
    """Read the hints of a server or volume.

    :param now: the time, timezone-aware
    :param fresh: the user sends them now, so that a start in the past is a mistake; False for a
        request that was checked some time ago
    :param new_id: makes the id of a new lease
    :returns: None if they ask for no reservation
    :raises BadHint: a hint is wrong or unknown
    """
    if hints is None or not mentioned(hints):
        return None
    try:
        return _parse(hints, now, rules, fresh, new_id)
    except RecursionError:
        field = LEASE_PARAMS if LEASE_PARAMS in hints else ', '.join(sorted(NAMES & hints.keys()))
        raise BadHint(field, 'must not be nested so deeply') from None


def _parse(
    hints: Mapping[str, Any],
    now: datetime.datetime,
    rules: HintRules,
    fresh: bool,
    new_id: Callable[[], str],
) -> ReservationHints | None:
    if RESERVED in hints and not _boolean(_single(hints, RESERVED)):
        for name in (LEASE_PARAMS, LEASE_ID):
            if name in hints:
                raise BadHint(name, 'must be left out with reserved=False')
        return None
    params = LeaseParams(_single(hints, LEASE_PARAMS) if LEASE_PARAMS in hints else {})
    on_end = params.pop_choice('on_end', rules.on_end)
    if LEASE_ID in hints:
        return _to_join(hints, params, on_end)
    id_given = 'id' in params
    lease_id = _uuid(params.pop('id'), params.field('id')) if id_given else new_id()
    params.setdefault('start_date', rules.start)
    params.setdefault('name', f'lease_{lease_id[:8]}')
    lease = params.read(now, rules.length, fresh)
    return ReservationHints(lease_id, False, lease, on_end, id_given)


def _to_join(
    hints: Mapping[str, Any], params: LeaseParams, on_end: str | None
) -> ReservationHints:
    for key in params:
        raise BadHint(params.field(key), f'must be left out with {LEASE_ID}; on_end may be given')
    lease_id = _uuid(_single(hints, LEASE_ID), LEASE_ID)
    stack_id, made_for = (
        _uuid(_single(hints, name), name) if name in hints else None
        for name in (ROOT_STACK, MADE_FOR)
    )
    return ReservationHints(lease_id, True, {}, on_end, stack_id=stack_id, made_for=made_for)


def _single(hints: Mapping[str, Any], name: str) -> Any:
    """Return the value of a hint, out of the list that nova puts around it."""
    value = hints[name]
    if isinstance(value, Sequence) and not isinstance(value, str):
        if len(value) != 1:
            raise BadHint(name, f'must have one value, not {len(value)}')
        value = value[0]
    if value is None:
        raise BadHint(name, 'must have a value, not null, or be left out')
    return value


def _boolean(value: Any) -> bool:
    word = str(value).strip().lower()
    if isinstance(value, Mapping | Sequence | int) and word in _TRUE | _FALSE:
        return word in _TRUE
    raise BadHint(RESERVED, f'must be True or False, not {value!r:.80}')


def _uuid(value: Any, field: str) -> str:
    try:
        return str(uuid.UUID(value))
    except (ValueError, AttributeError, TypeError):
        raise BadHint(field, f'must be a uuid, not {value!r:.80}') from None
