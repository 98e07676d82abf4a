# SPDX-License-Identifier: Apache-2.0
"""Place servers one by one, each compared with all hosts: what FreeRoom.take must return."""

from collections.abc import Collection, Mapping, Sequence

from climate_core.plugins.server_placement import RunningServer, TargetHost


def place_each(
    hosts: Sequence[TargetHost], servers: Sequence[RunningServer], leaving: Collection[str] = ()
) -> dict[str, str] | None:
    """Return the host of each server by its id; None: they do not fit together."""
    free = {each.name: dict(each.free) for each in hosts}
    total: dict[str, int] = {}
    for amounts in free.values():
        for kind, amount in amounts.items():
            total[kind] = total.get(kind, 0) + max(amount, 0)

    def share(server: RunningServer) -> tuple[float, str]:
        amounts = server.amounts.items()
        shares = ((n / max(total.get(kind, 0), 1), kind) for kind, n in amounts)
        return max(shares, default=(0.0, ''))

    places = {}
    shares = {id(each): share(each) for each in servers}
    for server in sorted(servers, key=lambda each: shares[id(each)][0], reverse=True):
        _, scarcest = shares[id(server)]
        fitting = [
            (free[each.name][scarcest], each.name)
            for each in hosts
            if each.name not in leaving
            and _takes(each, server)
            and scarcest in free[each.name]
            and all(free[each.name].get(kind, 0) >= n for kind, n in server.amounts.items())
        ]
        if not fitting:
            return None
        _, name = min(fitting)
        places[server.id] = name
        for kind, amount in server.amounts.items():
            if amount:
                free[name][kind] -= amount
    return places


def _takes(host: TargetHost, server: RunningServer) -> bool:
    if server.zone is not None and host.zone != server.zone:
        return False
    if host.traits is None:
        return not server.required and not server.forbidden
    return server.required.issubset(host.traits) and server.forbidden.isdisjoint(host.traits)


def subtract_places(
    hosts: Sequence[TargetHost], servers: Sequence[RunningServer], places: Mapping[str, str]
) -> dict[str, dict[str, int]]:
    """Return what hosts have free by their names, without what servers take there."""
    free = {each.name: dict(each.free) for each in hosts}
    for server in servers:
        for kind, amount in server.amounts.items():
            if amount:
                free[places[server.id]][kind] -= amount
    return free
