# SPDX-License-Identifier: Apache-2.0
"""Make what a lease is made with, right before it is written, and discard it if it is not."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from oslo_log import log

from climate_core import test_points
from climate_core.cloud import errors
from climate_core.db import missing
from climate_core.db.engine import TROUBLE
from climate_core.lease import model
from climate_core.manager import draft
from climate_core.manager.parts import Parts
from climate_core.plugins.base import Claimed

if TYPE_CHECKING:
    from climate_core.context import RequestContext

LOG = log.getLogger(__name__)

_TROUBLE: tuple[type[Exception], ...] = (*errors.EXPECTED, *TROUBLE)


class Made(NamedTuple):
    """Reservations whose resources are there.

    :param preparing: the ids of those that are to be prepared
    :param new: those that were made just now
    :param found: the ids of those that an equal request made before
    """

    reservations: tuple[model.Reservation, ...]
    preparing: frozenset[str]
    new: tuple[model.Reservation, ...]
    found: frozenset[str]


def of_draft(
    parts: Parts, context: 'RequestContext', new: draft.Draft, values: Mapping[str, Any]
) -> Made:
    """Make what the reservations of a draft are made with.

    :param values: the request that it comes from
    :raises climate_core.exceptions.ClimateError: see :func:`make`
    """
    wanted = [values['reservations'][place] for place in new.places]
    return make(parts, context, new.lease.id, new.lease.reservations, wanted, new.places)


def make(
    parts: Parts,
    context: 'RequestContext',
    lease_id: str,
    reservations: Sequence[model.Reservation],
    values: Sequence[Mapping[str, Any]],
    places: Sequence[int] | None = None,
) -> Made:
    """Make the resources that the plugins make, in the order of the request.

    :param values: what the request says of each reservation
    :param places: where in the request these stand, for errors; None if it is about one only
    :raises climate_core.exceptions.ClimateError: one cannot be made, and none is left behind
    """
    done: list[model.Reservation] = []
    preparing: set[str] = set()
    new: list[model.Reservation] = []
    found: set[str] = set()
    for number, (each, wanted) in enumerate(zip(reservations, values, strict=True)):
        before = Claimed(each.resource_id, each.params, each.amounts)
        call = parts.plugins[each.resource_type].make
        if places is not None:
            call = functools.partial(draft.at, places[number], call)
        try:
            claimed = call(context, lease_id, wanted, before)
        except BaseException:
            discard(parts, new)
            raise
        made = dataclasses.replace(
            each, resource_id=claimed.resource_id, params=dict(claimed.params)
        )
        done.append(made)
        if claimed.made:
            new.append(made)
            test_points.reached('make.after', event_type='lease.create', lease_id=lease_id)
        elif claimed.resource_id != each.resource_id:
            found.add(each.id)
        if claimed.prepare:
            preparing.add(each.id)
    return Made(tuple(done), frozenset(preparing), tuple(new), frozenset(found))


def discard(parts: Parts, reservations: Sequence[model.Reservation]) -> None:
    """Delete what was made, except what a lease holds by now.

    What cannot be deleted, or of which that is not known, is logged and stays:
    ``climate-manage repair`` finds it.
    """
    for each in reservations:
        try:
            kind, key = each.resource_type, each.resource_id
            if parts.database.read(missing.unheld, kind, [key]):
                parts.plugins[kind].discard(key)
        except _TROUBLE:
            LOG.warning(
                'The %s %s of a lease that was not made stays',
                each.resource_type,
                each.resource_id,
                exc_info=True,
            )
