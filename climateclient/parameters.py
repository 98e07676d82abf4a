# SPDX-License-Identifier: Apache-2.0
"""Types of the parameters of :class:`climateclient.leases.Leases`."""

import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

#: A time to send: a timezone-aware datetime, or a text as :mod:`climate_common.dates` has them,
#: which the service reads.
When = datetime.datetime | str
#: A duration to send: a timedelta, seconds, or a text as :mod:`climate_common.dates` has them.
Duration = datetime.timedelta | int | str


class LeaseDetails(TypedDict, total=False):
    """The properties of a new lease beside its name and its dates.

    ``duration`` is how long it lasts, instead of an end. ``reservations`` are mappings with
    ``resource_type``, mostly ``resource_id``, and what the type's plugin takes (``on_end`` of a
    server, ``name`` and ``template`` of a stack that is to be made), ``events`` mappings with
    ``event_type`` and ``time``. ``before_end`` is the time of the notification that the end
    is near, ``before_start`` are seconds before the start at which one is sent (several).
    ``start_policy`` is "auto" or "manual". ``webhook`` is a mapping with ``url``, ``secret`` and
    perhaps ``events``. ``kind`` is "immediate", "scheduled", "retry" or "best_effort";
    ``max_retries`` is how often one of the kind retry is tried again, ``priority`` (0 to 9) has
    it come before others, ``best_effort_timeout`` is in how many seconds hosts must be empty for
    one of the kind best_effort. Of a ``preemptible`` one other leases may take the allocations.
    ``id`` is a uuid for the lease. What is None or missing is the service's to choose.
    """

    duration: Duration | None
    reservations: Iterable[Mapping[str, Any]]
    events: Iterable[Mapping[str, Any]]
    before_end: When | None
    before_start: Sequence[int] | None
    start_policy: str | None
    webhook: Mapping[str, Any] | None
    kind: str | None
    max_retries: int | None
    priority: int | None
    best_effort_timeout: int | None
    preemptible: bool | None
    id: str | None


class Filters(TypedDict, total=False):
    """The filters of a list of leases, which must all match.

    ``status`` may be several. ``since`` and ``until`` are a window of time that the lease
    overlaps. ``project_id`` of another project needs the right to see all leases. ``deleted``
    asks for the deleted ones, which are kept for a while.
    """

    status: str | Sequence[str] | None
    name: str | None
    resource_type: str | None
    resource_id: str | None
    project_id: str | None
    since: When | None
    until: When | None
    deleted: bool | None


class Changes(TypedDict, total=False):
    """The changes of a lease; what is None or missing stays as it is.

    ``start`` can be changed before the start only. ``duration`` gives a new end. ``events``
    replace those that users gave before. ``reservations`` are mappings with ``id`` and what
    becomes different. ``priority`` is that of a lease that waits. A ``webhook`` of None removes
    it; to leave it, do not give it. ``partial`` with a later end extends what can be extended.
    """

    name: str | None
    start: When | None
    end: When | None
    duration: Duration | None
    before_end: When | None
    before_start: Sequence[int] | None
    start_policy: str | None
    priority: int | None
    webhook: Mapping[str, Any] | None
    events: Iterable[Mapping[str, Any]] | None
    reservations: Iterable[Mapping[str, Any]] | None
    partial: bool | None
