# SPDX-License-Identifier: Apache-2.0
"""Read the reservation that a template or an environment requests for a server or volume.

The scheduler hints of the resource take precedence over the lease of the whole stack, which the
environment names in ``parameter_defaults``. Heat keeps such a default without a parameter of the
template, also in updates with ``--existing``, and passes it to nested stacks
(heat/engine/environment.py).
"""

import dataclasses
import json
import uuid
from collections.abc import Mapping
from typing import Any

from climate_common import limits
from climateclient.extension import hints

#: Key in ``parameter_defaults``: the id of the lease of every server and volume of the stack.
STACK_LEASE = 'climate_lease_id'
#: The hint that names the root stack of a resource; the name is heat's own
#: (heat/engine/resources/scheduler_hints.py).
ROOT_STACK_HINT = 'heat_root_stack_id'


@dataclasses.dataclass(frozen=True, slots=True)
class ReservationRequest:
    """The reservation of one resource.

    :param lease_id: the lease to join; None for a new lease, which nova or cinder creates
    :param hints: the scheduler hints of the template
    :param separate: whether the lease is another one than the lease of the stack. The lease
        service then wakes up the resource itself, without heat
    """

    lease_id: str | None
    hints: Mapping[str, Any]
    separate: bool = False

    def to_hints(self, lease_id: str, root_stack_id: str) -> dict[str, Any]:
        """Return the hints to send to nova or cinder.

        :param lease_id: the lease to join or to create
        :param root_stack_id: the stack that wakes up the resource, if it joins a lease
        """
        result = {**self.hints, hints.RESERVED: 'True'}
        if self.lease_id:
            if hints.LEASE_PARAMS in result:
                result[hints.LEASE_PARAMS] = _dump(result[hints.LEASE_PARAMS])
            result[hints.LEASE_ID] = lease_id
            return result if self.separate else {**result, ROOT_STACK_HINT: root_stack_id}
        result[hints.LEASE_PARAMS] = _dump(_add_id(self.hints.get(hints.LEASE_PARAMS), lease_id))
        return result

    def choose_lease_id(self) -> str:
        """Return the id of the lease to join, the id given in ``lease_params``, or a new id."""
        if self.lease_id:
            return self.lease_id
        params = _load(self.hints.get(hints.LEASE_PARAMS))
        given = params.get('id') if isinstance(params, Mapping) else None
        return str(given or uuid.uuid4())


def parse(
    given: Mapping[str, Any] | None, defaults: Mapping[str, Any]
) -> ReservationRequest | None:
    """Return the reservation that a resource requests; None for an ordinary resource.

    :param given: the scheduler hints of the resource, as its template has them
    :param defaults: ``parameter_defaults`` of the environment of its stack
    :raises climateclient.extension.hints.BadHint: the hints contradict each other, or
        ``climate_lease_id`` is no id. Nova and cinder check the rest of the hints
    """
    given = given or {}
    stack_lease = _stack_lease(defaults)
    if not hints.mentioned(given):
        return ReservationRequest(stack_lease, given) if stack_lease else None
    if hints.RESERVED in given and not hints.wants_reservation(
        {hints.RESERVED: given[hints.RESERVED]}
    ):
        for name in (hints.LEASE_PARAMS, hints.LEASE_ID):
            if given.get(name) is not None:
                raise hints.BadHint(name, 'must be left out where reserved is False')
        return None
    if hints.LEASE_ID in given:
        lease_id = _lease_reference(given[hints.LEASE_ID])
        return ReservationRequest(lease_id, given, stack_lease not in (None, lease_id))
    return ReservationRequest(None if hints.LEASE_PARAMS in given else stack_lease, given)


def is_lease_id(value: str | None) -> bool:
    """Return whether a value is an id, and not the name of a lease that is not created yet."""
    try:
        return bool(value and uuid.UUID(value))
    except ValueError:
        return False


def _stack_lease(defaults: Mapping[str, Any]) -> str | None:
    if STACK_LEASE not in defaults:
        return None
    value = defaults[STACK_LEASE]
    if value in (None, ''):
        # The command that should have given the id failed; do not run the stack unreserved.
        raise hints.BadHint(STACK_LEASE, 'must be the id of a lease, or be left out; it is empty')
    try:
        return str(uuid.UUID(value))
    except (ValueError, AttributeError, TypeError):
        raise hints.BadHint(STACK_LEASE, f'must be the id of a lease, not {value!r:.80}') from None


def _lease_reference(value: Any) -> str:
    """Return the lease that a hint names.

    Where heat validates a template, the value of ``get_resource`` is the name of the resource.
    """
    if isinstance(value, list | tuple) and len(value) == 1:
        value = value[0]
    return str(value)


def _load(params: Any) -> Any:
    """Read ``lease_params``; nova and cinder refuse a text that is not JSON."""
    if not isinstance(params, str):
        return params if params is not None else {}
    try:
        return limits.decode(params)
    except ValueError:
        return params


def _add_id(params: Any, lease_id: str) -> Any:
    value = _load(params)
    return {**value, 'id': lease_id} if isinstance(value, Mapping) else value


def _dump(params: Any) -> str:
    return params if isinstance(params, str) else json.dumps(params, sort_keys=True)
