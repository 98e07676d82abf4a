# SPDX-License-Identifier: Apache-2.0
"""Say which parts of a lease keep it from being extended, and what would do."""

from collections.abc import Collection

from climate_common import dates, words
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


def explained(
    refused: TransactionRefused, before: model.Lease, after: model.Lease
) -> TransactionRefused:
    """Return the refusal of a later end with what ``partial`` would do, if it would do anything.

    :param refused: by the calendar, which names all parts that it cannot promise until then
    """

    def explain() -> Exception:
        error = refused.explain()
        if not isinstance(error, exceptions.NotEnough) or not error.parts:
            return error
        if not is_possible(before, after, error.parts):
            return error
        early = early_ends.times(before)
        ends = {early.get(each, before.end_date) for each in error.parts}
        told = words.listed([dates.sentence(each) for each in sorted(ends)])
        return exceptions.NotEnough(
            f'{error.message} With partial (--partial on the command line) all else is extended '
            f'until {dates.sentence(after.end_date)}, and '
            f'{"this part ends" if len(error.parts) == 1 else "these parts end"} at {told}, as '
            'before.',
            error.field,
            error.available_from,
        )

    return TransactionRefused(explain, refused.about)
