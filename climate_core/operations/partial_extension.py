# SPDX-License-Identifier: Apache-2.0
"""Say which part of a lease keeps it from being extended, and what would do."""

from collections.abc import Collection

from climate_common import resource_types
from climate_core import exceptions
from climate_core.db.engine import TransactionRefused
from climate_core.lease import model, states
from climate_core.lease.changes import early_ends


def is_possible(before: model.Lease, after: model.Lease, refused: Collection[str]) -> bool:
    """Tell whether a change extends a lease, and something of it without what is refused.

    :param refused: the ids of reservations
    """
    leaving = {e.id for e in after.live if e.status == states.ReservationStatus.DELETING}
    later = before.end_date < after.end_date or early_ends.resumed(before, after)
    rest = {each.id for each in after.live} - leaving - early_ends.times(after).keys()
    return bool(later and before.start_date == after.start_date and not rest <= {*refused})


def explained(refused: TransactionRefused, one: model.Reservation) -> TransactionRefused:
    """Return the refusal of a later end with the part of the lease that it is about.

    :param one: the reservation that the calendar cannot promise what it has until then
    """

    def explain() -> Exception:
        error = refused.explain()
        if not isinstance(error, exceptions.NotEnough):
            return error
        names = [str(each.unit.get('address') or '') for each in one.allocations]
        listed = f' ({", ".join(names)})' if any(names) else ''
        return exceptions.NotEnough(
            f'{error.message} It is reservation {one.id}{listed} of the type '
            f'{resource_types.api_name(one.resource_type)} that cannot be extended. With partial '
            '(--partial on the command line) all that can be is extended, and the rest of the '
            'lease ends as it would have.',
            error.field,
            error.available_from,
        )

    return TransactionRefused(explain, one.id)
