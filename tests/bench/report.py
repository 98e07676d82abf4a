# SPDX-License-Identifier: Apache-2.0
"""The table, as a simple table of reStructuredText, so that it can go into the documents."""

import statistics
from collections.abc import Callable, Mapping, Sequence

from tests.bench.workload import Result

#: Heading, how to read the value, number of decimals.
COLUMNS: Sequence[tuple[str, Callable[[Result], float | None], int]] = (
    ('SQL', lambda result: result.cost.statements, 1),
    ('of rows', lambda result: result.cost.data, 1),
    ('HTTP', lambda result: result.cost.calls, 1),
    ('CPU ms', lambda result: result.cost.cpu_ms, 1),
    ('DB CPU ms', lambda result: result.cost.database_cpu_ms, 1),
    ('p50 ms', lambda result: result.p50_ms, 1),
    ('late p50 s', lambda result: statistics.median(result.late) if result.late else None, 2),
    ('late last s', lambda result: result.late[-1] if result.late else None, 2),
    ('ACTIVE s', lambda result: result.active, 2),
    ('lost claims', lambda result: result.beaten, 2),
)

LEGEND = """\
All costs are per operation, for "N due" per lease, for "idle minute" in a minute without requests.
SQL: statements that the database server executed, "of rows" without COMMIT, ROLLBACK and the like.
HTTP: calls that the cloud got. CPU: user and system time of the API and the manager; DB: of the
database server. p50: median wall time of a request. late: from the start date to the call that
starts the resource. ACTIVE: from the start date until all leases are. lost claims: those that
another manager had made first, per lease. ratio: the peer's figure divided by ours."""


def table(
    results: Mapping[str, Mapping[str, Result]], heading: str = 'service', compared: bool = True
) -> str:
    """Format the results.

    :param results: operation -> service -> result, ours first
    :param heading: of the column of services
    :param compared: whether the ratio of a peer to ours follows, if there is one
    """
    found = [each for services in results.values() for each in services.values()]
    columns = [c for c in COLUMNS if any(c[1](each) is not None for each in found)]
    lines = [['operation', heading, *(each for each, _, _ in columns)]]
    for operation, services in results.items():
        for service, result in services.items():
            lines.append([operation, service, *(_cell(result, column) for column in columns)])
        if len(services) == 2 and compared:
            ours, peer = services.values()
            lines.append([operation, 'ratio', *(_ratio(ours, peer, c) for c in columns)])
    return _simple_table(lines)


def notes(results: Mapping[str, Mapping[str, Result]]) -> list[str]:
    """Return what went differently, one line each."""
    return [
        f'{operation}, {service}: {result.note}'
        for operation, services in results.items()
        for service, result in services.items()
        if result.note
    ]


def _cell(result: Result, column: tuple[str, Callable[[Result], float | None], int]) -> str:
    value = column[1](result)
    return '–' if value is None else f'{value:.{column[2]}f}'


def _ratio(
    ours: Result, peer: Result, column: tuple[str, Callable[[Result], float | None], int]
) -> str:
    mine, other = column[1](ours), column[1](peer)
    if mine is None or other is None or mine <= 0:
        return '–'
    return f'{other / mine:.1f}x'


def _simple_table(lines: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rule = ' '.join('=' * width for width in widths)
    rows = [
        ' '.join(
            cell.ljust(width) if number < 2 else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    return '\n'.join([rule, rows[0], rule, *rows[1:], rule])
