# SPDX-License-Identifier: Apache-2.0
"""Checks and errors of operators' registrations, which use the service's own rights."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Final

from oslo_db import exception as db_exc
from oslo_log import log
from sqlalchemy import orm

from climate_common import dates, words
from climate_core import exceptions
from climate_core.cloud import errors
from climate_core.db import registered_units

LOG = log.getLogger(__name__)
#: Maximum number of names in an error: there may be hundreds.
_MAX_NAMED: Final = 5


@contextlib.contextmanager
def require_services() -> Iterator[None]:
    """Raise ServiceUnavailable for errors of other services, and log them."""
    try:
        yield
    except exceptions.ClimateError:
        raise
    except errors.EXPECTED as exc:
        LOG.warning('An operation of an operator failed: %s', exc)
        raise exceptions.ServiceUnavailable(str(exc)) from exc


@contextlib.contextmanager
def reject_duplicates(error: type[exceptions.Conflict], field: str, count: int) -> Iterator[None]:
    """Raise an error of the field that names something that is registered already.

    :param count: the number of things that are registered together
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
    """Reject the registration of what is registered already: a lease may use it.

    :param registered: which of the requested things are registered
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
    """Reject the removal of a unit that is allocated to leases.

    :param name: the name of the unit, for messages
    :param error: the type of the error
    """
    allocated = registered_units.find_last_allocation(session, unit_id)
    if allocated is not None:
        count, end = allocated
        raise error(
            f'{name} is promised to {words.counted(count, "reservation")}, the last until '
            f'{dates.sentence(end)}. End their leases first.'
        )
