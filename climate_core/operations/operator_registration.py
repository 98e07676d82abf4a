# SPDX-License-Identifier: Apache-2.0
"""Share among the operations for operators what is done with the service's own rights."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from oslo_db import exception as db_exc
from oslo_log import log
from sqlalchemy import orm

from climate_common import dates, words
from climate_core import exceptions
from climate_core.cloud import errors
from climate_core.db import allocations

if TYPE_CHECKING:
    pass

LOG = log.getLogger(__name__)
#: So many are named where there may be hundreds.
_MAX_NAMED: Final = 5


@contextlib.contextmanager
def require_services() -> Iterator[None]:
    """Turn what other services answer to the service itself into a 503 for its caller."""
    try:
        yield
    except exceptions.ClimateError:
        raise
    except errors.EXPECTED as exc:
        LOG.warning('An operation of an operator failed: %s', exc)
        raise exceptions.ServiceUnavailable(str(exc)) from exc


@contextlib.contextmanager
def reject_duplicates(error: type[exceptions.Conflict], field: str, count: int) -> Iterator[None]:
    """Turn the second registration of something into an error of the field that names it.

    :param count: how many are registered together
    """
    try:
        yield
    except db_exc.DBDuplicateEntry as exc:
        told = 'it is' if count == 1 else 'one of them is'
        raise error(
            f'{field}: {told} set apart for leases already. Look at the list, and leave out what '
            'is in it.',
            field=field,
        ) from exc


def check_unregistered(
    error: type[exceptions.Conflict], field: str, registered: Sequence[object]
) -> None:
    """Refuse to register what is registered already; it may well be in use, for a lease.

    :param registered: what is, of all that is wanted
    """
    if registered:
        listed = ', '.join(map(str, registered[:_MAX_NAMED]))
        more = f' and {len(registered) - _MAX_NAMED} more' if len(registered) > _MAX_NAMED else ''
        told = 'is' if len(registered) == 1 else 'are'
        raise error(
            f'{field}: {listed}{more} {told} set apart for leases already. Leave out what is.',
            field=field,
        )


def check_unallocated(
    session: orm.Session, unit_id: int, name: str, error: type[exceptions.Conflict]
) -> None:
    """Refuse to take a unit away from leases that are promised it.

    :param name: of the unit, for people
    :param error: what is raised then
    """
    promised = allocations.last_promise(session, unit_id)
    if promised is not None:
        count, end = promised
        raise error(
            f'{name} is promised to {words.counted(count, "reservation")}, the last until '
            f'{dates.sentence(end)}. End their leases first.'
        )
