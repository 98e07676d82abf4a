# SPDX-License-Identifier: Apache-2.0
"""Declare which methods of operations a manager serves by RPC, and under which policy."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from climate_core import exceptions
from climate_core.context import RequestContext
from climate_core.lease.model import Lease

F = TypeVar('F', bound=Callable[..., Any])

_ATTRIBUTE = '_climate_remote'


@dataclasses.dataclass(frozen=True, slots=True)
class Remote:
    """How a manager serves an operation.

    :param rule: the policy that the API must have enforced; None: the operation checks it on the
        lease that it loads
    :param for_operators: whether the policy is about units that belong to no project; else it is
        about the project of the request
    :param writes: whether the engines poll after it
    :param reserves: whether plugins send requests to other services for its resources
    """

    rule: str | None = None
    for_operators: bool = False
    writes: bool = False
    reserves: bool = False

    def is_allowed(self, context: RequestContext) -> bool:
        """Return whether the API enforced the policy for a request."""
        if self.rule is None:
            return True
        if self.for_operators:
            return context.may_operate(self.rule)
        return context.may(self.rule, context.project_id)


def remote(
    rule: str | None = None,
    *,
    for_operators: bool = False,
    writes: bool = False,
    reserves: bool = False,
) -> Callable[[F], F]:
    """Serve a method of operations by RPC; see :class:`Remote`."""

    def decorate(method: F) -> F:
        setattr(method, _ATTRIBUTE, Remote(rule, for_operators, writes, reserves))
        return method

    return decorate


def check_allowed(context: RequestContext, rule: str, lease: Lease) -> None:
    """Reject a request that the policy does not allow on the loaded lease.

    :raises climate_core.exceptions.LeaseNotFound: it did not
    """
    if not context.may(rule, lease.project_id):
        raise exceptions.LeaseNotFound(f'Lease {lease.id} was not found.')


def check_generation(lease: Lease, generation: int | None) -> None:
    """Reject a change of a lease that has changed since the user has read it."""
    if generation not in (None, lease.generation):
        raise exceptions.GenerationConflict


def list_remote(operations: type) -> Iterator[tuple[str, Callable[..., Any], Remote]]:
    """Return the methods of a class that are served: name, method, and how."""
    for name, method in vars(operations).items():
        how = getattr(method, _ATTRIBUTE, None)
        if how is not None:
            yield name, method, how
