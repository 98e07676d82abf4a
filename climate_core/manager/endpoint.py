# SPDX-License-Identifier: Apache-2.0
"""What the manager answers over RPC: the far side of :mod:`climate_core.manager.rpcapi`."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import oslo_messaging as messaging
from oslo_log import log

from climate_core import exceptions
from climate_core.db.engine import TROUBLE, Stale
from climate_core.manager import change, check, create, rpcapi
from climate_core.manager.parts import Parts

if TYPE_CHECKING:
    from climate_core.context import RequestContext

LOG = log.getLogger(__name__)

P = ParamSpec('P')
T = TypeVar('T')


class Endpoint:
    """The methods of version 1.1, which answers 1.0 as well.

    :param wrote: called after something was written that may be due, to nudge the engines
    :param nudged: called when a manager says that it wrote something, this one too
    """

    target = messaging.Target(version=rpcapi.VERSION)

    def __init__(
        self,
        parts: Parts,
        wrote: Callable[['RequestContext'], None],
        nudged: Callable[['RequestContext'], None],
    ) -> None:
        self._parts = parts
        self._wrote = wrote
        self._nudged = nudged

    def create_lease(self, context: 'RequestContext', values: Mapping[str, Any]) -> str:
        return self._do(context, create.create_lease, self._parts, context, values)

    def update_lease(
        self,
        context: 'RequestContext',
        lease_id: str,
        values: Mapping[str, Any],
        generation: int | None = None,
    ) -> str:
        return self._do(
            context, change.update_lease, self._parts, context, lease_id, values, generation
        )

    def check_lease(
        self, context: 'RequestContext', values: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        return self._answer(check.check_lease, self._parts, context, values)

    def delete_lease(
        self, context: 'RequestContext', lease_id: str, generation: int | None = None
    ) -> None:
        self._do(context, change.delete_lease, self._parts, context, lease_id, generation)

    def start_lease(
        self, context: 'RequestContext', lease_id: str, generation: int | None = None
    ) -> None:
        self._do(context, change.start_lease, self._parts, context, lease_id, generation)

    def end_lease(
        self, context: 'RequestContext', lease_id: str, generation: int | None = None
    ) -> None:
        self._do(context, change.end_lease, self._parts, context, lease_id, generation)

    def add_reservation(
        self,
        context: 'RequestContext',
        lease_id: str,
        values: Mapping[str, Any],
        generation: int | None = None,
    ) -> str:
        return self._do(
            context, create.add_reservation, self._parts, context, lease_id, values, generation
        )

    def update_reservation(
        self,
        context: 'RequestContext',
        lease_id: str,
        reservation_id: str,
        values: Mapping[str, Any],
        generation: int | None = None,
    ) -> str:
        return self._do(
            context,
            change.update_reservation,
            self._parts,
            context,
            lease_id,
            reservation_id,
            values,
            generation,
        )

    def remove_reservation(
        self,
        context: 'RequestContext',
        lease_id: str,
        reservation_id: str,
        generation: int | None = None,
    ) -> None:
        self._do(
            context,
            change.remove_reservation,
            self._parts,
            context,
            lease_id,
            reservation_id,
            generation,
        )

    def nudge(self, context: 'RequestContext') -> None:
        self._nudged(context)

    def _do(
        self,
        context: 'RequestContext',
        function: Callable[P, T],
        *args: P.args,
        **kw: P.kwargs,
    ) -> T:
        """Run an operation that writes, and have done what is due by it."""
        result = self._answer(function, *args, **kw)
        self._wrote(context)
        return result

    @staticmethod
    def _answer(function: Callable[P, T], *args: P.args, **kw: P.kwargs) -> T:
        """Run an operation. What a user did wrong goes back as it is, the rest is logged too."""
        try:
            return function(*args, **kw)
        except exceptions.ClimateError as exc:
            raise messaging.ExpectedException from exc
        except Stale:
            LOG.warning('A lease was changed by others again and again', exc_info=True)
            raise exceptions.ServiceUnavailable('The lease is busy. Try again.')
        except TROUBLE:
            LOG.exception('The database failed')
            raise exceptions.ServiceUnavailable('The database does not answer. Try again.')
