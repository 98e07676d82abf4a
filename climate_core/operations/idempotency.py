# SPDX-License-Identifier: Apache-2.0
"""Create one lease from equal requests: repeated, or concurrent.

The database decides: the id of a lease and the resource of a reservation are unique there.

====================================  ============================================================
The request has                       Result
====================================  ============================================================
the Idempotency-Key of a lease        That lease, unchanged; IdempotencyConflict if it is deleted
                                      or the body differs.
the id of a lease that is equal, of   That lease; the reservations that it does not have join it.
the same project
the id of a different lease           LeaseConflict, the same for the leases of all projects.
neither, and resources that one       That lease, unchanged.
equal lease of the project holds
neither, and a resource that another  ResourceReserved; it names leases of the same project only.
lease holds
an id or a resource that another      LeaseAppeared: the whole request runs once more. A second
request has committed concurrently    LeaseAppeared is the error for the user.
====================================  ============================================================
"""

import contextlib
import datetime
import functools
import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

from oslo_db import exception as db_exc

from climate_common import dates, resource_types, sealing
from climate_core import exceptions
from climate_core.context import RequestContext
from climate_core.db import held_resources, leases
from climate_core.db.engine import Database
from climate_core.lease import model
from climate_core.lease.request import RAISE_FIRST, ErrorCollector, LeaseRequest, prefix_field
from climate_core.operations.draft import Draft

#: How much earlier a relative time may be than in an equal request.
_SIMULTANEOUS = datetime.timedelta(minutes=1)
_OPTIONS = ('start_policy', 'before_start', 'webhook', 'kind', 'priority', 'preemptible')

#: Must never change: keys that were used would name other leases.
_NAMESPACE = uuid.UUID('4d9a5c1e-0c57-4f3b-8a3d-5d1f0b6a9e27')
#: The values that the service adds, and that are not compared when a request is repeated.
_NOT_COMPARED = frozenset({'idempotency_key', 'may_join'})

P = ParamSpec('P')
T = TypeVar('T')

#: The errors of a request if an equal request was faster: that lease has the id, the name or a
#: resource, or uses up the limits.
DUPLICATE_ERRORS = (
    db_exc.DBDuplicateEntry,
    exceptions.NameTaken,
    exceptions.LimitExceeded,
    exceptions.LeaseNotPermitted,
)


def id_of_key(project_id: str | None, key: str) -> str:
    """Return the id of the lease of an Idempotency-Key: one key of a project, one lease."""
    return str(uuid.uuid5(_NAMESPACE, f'{project_id}\n{key}'))


def chosen_id(project_id: str | None, values: Mapping[str, Any]) -> str | None:
    """Return the id that a request chooses for its lease, by ``id`` or by its key, if any."""
    key = values.get('idempotency_key')
    return values.get('id') if key is None else id_of_key(project_id, key)


def request_digests(
    values: Mapping[str, Any], lease_id: str, keys: Sequence[str]
) -> Sequence[str]:
    """Return the digests of a request with an Idempotency-Key.

    :param lease_id: the id that it chooses
    :param keys: the operator's keys, see :func:`climate_common.sealing.digests`
    :returns: the first is stored, all are compared
    """
    compared = {name: value for name, value in values.items() if name not in _NOT_COMPARED}
    text = json.dumps(compared, sort_keys=True, separators=(',', ':'))
    return sealing.digests(text, lease_id, keys)


def check_repeated_request(present: model.Lease, digests: Sequence[str]) -> None:
    """Reject an Idempotency-Key whose lease is deleted or belongs to another request."""
    if present.deleted_at is not None or present.request_digest not in digests:
        raise exceptions.IdempotencyConflict(field='Idempotency-Key')


def retry_if_lease_appeared(operation: Callable[P, T]) -> Callable[P, T]:
    """Run an operation again if its lease was created or changed concurrently."""

    @functools.wraps(operation)
    def run(*args: P.args, **kw: P.kwargs) -> T:
        try:
            return operation(*args, **kw)
        except exceptions.LeaseAppeared:
            return operation(*args, **kw)

    return run


@contextlib.contextmanager
def detect_lease_appeared(
    database: Database, lease_id: str, before: model.Lease | None
) -> Iterator[None]:
    """Raise LeaseAppeared if an equal request may have been faster than the block.

    :raises climate_core.exceptions.LeaseAppeared: the lease was created or changed since
        ``before`` was read
    """
    try:
        yield
    except DUPLICATE_ERRORS as exc:
        present = database.read(leases.find, lease_id)
        if present is None or (before is not None and present.generation == before.generation):
            raise
        raise exceptions.LeaseAppeared(field='id') from exc


def find_equal_lease(
    database: Database, context: RequestContext, draft: Draft, error: Exception
) -> model.Lease:
    """Return the equal lease that holds all resources of a draft.

    :param error: one of :data:`DUPLICATE_ERRORS`, raised if there is no such lease
    :raises climate_core.exceptions.ResourceReserved: another lease holds a resource
    """
    held = database.read(
        held_resources.find_holding_leases, [each.reservation.key for each in draft.items]
    )
    equal = find_equal_holder(context, draft, held)
    if equal is not None:
        return equal
    if not isinstance(error, db_exc.DBDuplicateEntry):
        raise error
    check_unreserved(context, draft, held)
    # The resources have been released since.
    field = 'reservations' if draft.request is not None else 'resource_id'
    raise exceptions.ResourceReserved(field=field)


def find_equal_holder(
    context: RequestContext, draft: Draft, held: Mapping[model.ResourceKey, model.Lease]
) -> model.Lease | None:
    """Return the lease that holds all resources of a draft, if it is equal to the request.

    The id of a lease is part of the request: if the user chose it, no other lease is equal.
    """
    request = draft.request
    if request is None or request.identified or len(held) < len(draft.items):
        return None
    found = {each.id: each for each in held.values()}
    if len(found) != 1:
        return None
    (lease,) = found.values()
    return (
        lease if lease.project_id == context.project_id and is_same_lease(request, lease) else None
    )


def check_unreserved(
    context: RequestContext,
    draft: Draft,
    held: Mapping[model.ResourceKey, model.Lease],
    errors: ErrorCollector = RAISE_FIRST,
) -> None:
    """Reject resources that other leases hold, by ResourceReserved.

    The error names the other lease only to its own project.
    """
    for item in draft.items:
        key = item.reservation.key
        holder = held.get(key)
        if holder is None or (draft.before is not None and holder.id == draft.before.id):
            continue
        message = ''
        if holder.project_id == context.project_id:
            start, end = dates.sentence(holder.start_date), dates.sentence(holder.end_date)
            message = (
                f'{resource_types.api_name(key[0])} {key[1]} is already reserved by lease '
                f'{holder.id}, from {start} to {end}.'
            )
        with errors.collected(), prefix_field(item.field):
            raise exceptions.ResourceReserved(message, field='resource_id')


def is_same_lease(request: LeaseRequest, lease: model.Lease) -> bool:
    """Return whether a lease is equal to a request: the request is repeated or simultaneous.

    A time relative to "now" is later in a repeated request, or a little earlier in a simultaneous
    one; with a duration the end follows the start. Fields that the request omits may differ.
    """
    start = _same_time(request.start, lease.start_date, request.start_is_relative)
    end = _same_time(request.end, lease.end_date, request.end_is_relative)
    if request.start_is_relative and request.lasts is not None:
        end = request.lasts == lease.end_date - lease.start_date
    given = {field: getattr(request, field) for field in _OPTIONS} | {**request.generic}
    options = all(
        value is None or value == getattr(lease, field) for field, value in given.items()
    )
    return start and end and options and request.name == lease.name


def _same_time(requested: datetime.datetime, stored: datetime.datetime, is_relative: bool) -> bool:
    return stored <= requested + _SIMULTANEOUS if is_relative else stored == requested


def check_same_lease(request: LeaseRequest, present: model.Lease, project_id: str | None) -> None:
    """Reject the id of a different lease, with the same error for the leases of all projects.

    :raises climate_core.exceptions.LeaseConflict: the lease is different
    :raises climate_core.exceptions.LeaseAppeared: the API has not found the lease, so it has not
        enforced the policy on it
    """
    own = present.project_id == project_id and present.deleted_at is None
    if not own or not is_same_lease(request, present):
        raise exceptions.LeaseConflict(
            f'id: {present.id} is taken by a different lease. Choose another id, or omit it.',
            field='id',
        )
    if not request.may_join:
        raise exceptions.LeaseAppeared(field='id')
