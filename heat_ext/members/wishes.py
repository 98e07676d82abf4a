# SPDX-License-Identifier: Apache-2.0
"""What the template and the environment of a stack say about the lease of a resource.

Its own hints win; else the lease of the whole stack counts, which the environment names. It is a
default of a parameter that no template has to declare: heat keeps those in updates with
``--existing`` and gives them to nested stacks (heat/engine/environment.py).
"""

import dataclasses
import json
import uuid
from collections.abc import Mapping
from typing import Any

from climateclient.extension import hints

#: Of ``parameter_defaults``: the id of the lease of every server and volume of the stack.
LEASE = 'climate_lease_id'
#: The hint that names the stack whose member a resource is (heat's own word, see
#: heat/engine/resources/scheduler_hints.py).
ROOT = 'heat_root_stack_id'


@dataclasses.dataclass(frozen=True, slots=True)
class Wish:
    """The reservation of a resource.

    :param lease_id: the lease to join; None for a lease of its own, which nova or cinder makes
    :param own: the hints of the template
    :param alone: the lease is not that of its stack, so that the lease service wakes it by itself
    """

    lease_id: str | None
    own: Mapping[str, Any]
    alone: bool = False

    def as_hints(self, lease_id: str, root_stack_id: str) -> dict[str, Any]:
        """Write the hints to send.

        :param lease_id: of the lease to join, or of the one to make
        :param root_stack_id: of the stack that wakes the resource, if it joins a lease
        """
        result = {**self.own, hints.RESERVED: 'True'}
        if self.lease_id:
            if hints.PARAMS in result:
                result[hints.PARAMS] = _text(result[hints.PARAMS])
            result[hints.LEASE] = lease_id
            return result if self.alone else {**result, ROOT: root_stack_id}
        result[hints.PARAMS] = _text(_with_id(self.own.get(hints.PARAMS), lease_id))
        return result

    def new_id(self) -> str:
        """Give the id of the lease: known, given in the hints, or new."""
        if self.lease_id:
            return self.lease_id
        params = _read(self.own.get(hints.PARAMS))
        given = params.get('id') if isinstance(params, Mapping) else None
        return str(given or uuid.uuid4())


def read(own: Mapping[str, Any] | None, defaults: Mapping[str, Any]) -> Wish | None:
    """Read what is asked for.

    :param own: the hints of the resource, as they are in its template
    :param defaults: ``parameter_defaults`` of the environment of its stack
    :returns: None for an ordinary resource
    :raises climateclient.extension.hints.BadHint: it makes no sense. The rest of the hints is
        checked by nova and cinder
    """
    own = own or {}
    for_all = _of_the_stack(defaults)
    if not hints.mentioned(own):
        return Wish(for_all, own) if for_all else None
    given = [name for name in (hints.PARAMS, hints.LEASE) if own.get(name) is not None]
    if hints.RESERVED in own and not hints.wants_reservation({hints.RESERVED: own['reserved']}):
        if given:
            raise hints.BadHint(given[0], 'makes no sense with reserved=False')
        return None
    if hints.LEASE in own:
        lease_id = _one(own[hints.LEASE])
        return Wish(lease_id, own, for_all not in (None, lease_id))
    return Wish(None if hints.PARAMS in own else for_all, own)


def is_id(value: str | None) -> bool:
    """Tell a lease from the name of one that is not there yet."""
    try:
        return bool(value and uuid.UUID(value))
    except ValueError:
        return False


def _of_the_stack(defaults: Mapping[str, Any]) -> str | None:
    if LEASE not in defaults:
        return None
    value = defaults[LEASE]
    if value in (None, ''):
        # A command that was to give the id has failed: nobody wants all of it at once.
        raise hints.BadHint(LEASE, 'is empty; write the id of a lease, or leave it out')
    try:
        return str(uuid.UUID(value))
    except (ValueError, AttributeError, TypeError):
        raise hints.BadHint(LEASE, f'{value!r} is not the id of a lease') from None


def _one(value: Any) -> str:
    """Give the lease that is named.

    A resource that is not there yet is named by itself: heat checks templates like that.
    """
    if isinstance(value, list | tuple) and len(value) == 1:
        value = value[0]
    return str(value)


def _read(params: Any) -> Any:
    """Read lease_params; what is no JSON is left to nova and cinder."""
    if not isinstance(params, str):
        return params if params is not None else {}
    try:
        return json.loads(params)
    except ValueError:
        return params


def _with_id(params: Any, lease_id: str) -> Any:
    value = _read(params)
    return {**value, 'id': lease_id} if isinstance(value, Mapping) else value


def _text(params: Any) -> str:
    return params if isinstance(params, str) else json.dumps(params, sort_keys=True)
