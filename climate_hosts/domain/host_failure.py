# SPDX-License-Identifier: Apache-2.0
"""Tell by what Nova says of a nova-compute whether its host has failed. Pure.

All of it is in Nova's answer, also since when: nothing has to be remembered.
"""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any

from climate_common import dates


def failure(
    service: Mapping[str, Any] | None, name: str, now: datetime, seconds: float
) -> str | None:
    """Return why a host has failed; None if it has not, or not yet.

    :param service: as ``/os-services`` shows it at microversion 2.69 or later; None if Nova has
        none. One in a cell that does not answer has no state, which says nothing
    :param name: of the service, for people
    :param seconds: for how long a service must have been silent
    """
    if service is None:
        return f'Nova has no nova-compute on {name} any more.'
    if service.get('forced_down'):
        return f'The nova-compute on {name} is forced down.'
    seen = service.get('updated_at')
    if service.get('state') != 'down' or not seen:
        return None
    since = datetime.fromisoformat(seen).replace(tzinfo=UTC)
    if (now - since).total_seconds() < seconds:
        return None
    return f'The nova-compute on {name} is down since {dates.sentence(since)}.'


def is_up(service: Mapping[str, Any] | None) -> bool:
    """Tell whether a host is certain to be there."""
    return service is not None and service.get('state') == 'up' and not service.get('forced_down')


def outage(
    services: Mapping[str, Mapping[str, Any]], names: Collection[str], share: float
) -> str | None:
    """Return the reason to believe that Nova failed, and not its hosts; None if it did not.

    One that is silent counts at once, and not only when it has failed: in an outage all of them
    fall silent within seconds, and the first must not be replaced before the last has failed. One
    that is forced down does not count: the operator who did that knows the host.

    :param services: as Nova shows them, by their names
    :param names: of the services whose hosts have not failed yet; a service may have several
    :param share: how many of them may look down; two are always needed
    :returns: None if it is not so
    """
    every = {*names}
    down = {each for each in every if _looks_down(services.get(each))}
    if len(down) < 2 or len(down) <= share * len(every):
        return None
    return f'{len(down)} of {len(every)} nova-computes of the pools look down at once'


def _looks_down(service: Mapping[str, Any] | None) -> bool:
    if service is None:
        return True
    return service.get('state') == 'down' and not service.get('forced_down')
