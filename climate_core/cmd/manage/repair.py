# SPDX-License-Identifier: Apache-2.0
"""``climate-manage lease stuck``, ``climate-manage orphans`` and ``climate-manage repair``.

The first two list leases that make no progress, and resources without a lease or leases without
their resource. The third repairs what they list.
"""

import argparse
import dataclasses
import datetime
import getpass
import json
import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import oslo_messaging as messaging
import prettytable
from oslo_config import cfg
from oslo_log import log

from climate_common import words
from climate_core import exceptions, packages
from climate_core.cloud import Cloud
from climate_core.cloud.trusts import Trusts
from climate_core.cmd import console
from climate_core.context import RequestContext, RpcSerializer
from climate_core.db import leases, migration, monitoring, sql
from climate_core.db.engine import Database
from climate_core.plugins import loading
from climate_core.plugins.base import LeaseManaged, ResourcePlugin
from climate_core.repair import operator_repair, reconciliation
from climate_core.rpc import TOPIC, open_transport

LOG = log.getLogger(__name__)

_STUCK_COLUMNS = ('kind', 'lease_id', 'status', 'event_type', 'age', 'reason')
_DEFAULT_THRESHOLDS = monitoring.StuckThresholds()


def add_lease_commands(subparsers: Any) -> None:
    """Add the commands of ``climate-manage lease`` to a parser."""
    parser = subparsers.add_parser(
        'stuck',
        help='list leases and events without progress',
        description='List expired claims that no manager has taken, events that are due or fail '
        'repeatedly, leases that are not TERMINATED after their end, leases that are in a '
        'transitional state or in ERROR for --older seconds, and trusts of leases that have '
        'ended.',
    )
    add_thresholds(parser)
    _add_lease_option(parser)
    _add_format_option(parser)
    parser.set_defaults(run=_list_stuck)


def add_thresholds(parser: argparse.ArgumentParser) -> None:
    """Add the options for when a lease or an event counts as stuck."""
    parser.add_argument(
        '--attempts',
        type=_parse_count,
        default=_DEFAULT_THRESHOLDS.attempts,
        help='number of failed attempts from which an event is listed (%(default)s)',
    )
    parser.add_argument(
        '--older',
        type=_parse_seconds,
        default=_DEFAULT_THRESHOLDS.seconds,
        metavar='SECONDS',
        help='seconds for which an event may fail, or a lease may be in a transitional state or '
        'in ERROR, before it is listed; 0: list immediately (%(default)g)',
    )
    parser.add_argument(
        '--grace',
        type=_parse_seconds,
        default=_DEFAULT_THRESHOLDS.grace,
        metavar='SECONDS',
        help='seconds for which a due event may wait for a manager (%(default)g)',
    )


def read_thresholds(options: Any) -> monitoring.StuckThresholds:
    """Read the options of :func:`add_thresholds`."""
    return monitoring.StuckThresholds(options.attempts, options.older, options.grace)


def _list_stuck(conf: cfg.ConfigOpts) -> int:
    migration.check(conf)
    database = Database(conf)
    options = conf.command
    _check_lease_exists(database, options.lease)
    rows = database.read(monitoring.find_stuck, read_thresholds(options), options.lease)
    _print_rows(rows, _STUCK_COLUMNS, options.format)
    database.dispose()
    return console.exit_status(rows)


#: Seconds for which a resource without a lease is not deleted: a boot may take that long.
SAFE_SECONDS = 3600.0
#: The hint about events that were made due; it has options of the command, and [engine].
_MADE_DUE_HINT = (
    'A running climate-manager claims the events that are due now: immediately, or within '
    '[engine] idle_seconds ({1.idle_seconds:g} s) if it was not notified. After {0.grace:g} s '
    '(--grace) "climate-manage lease stuck" lists unclaimed events.'
)


@dataclasses.dataclass(frozen=True, slots=True)
class Orphan:
    """A resource without its lease, or a reservation without its resource.

    :param side: ``resource`` without a lease, or ``reservation`` without its resource
    :param age: seconds since the resource changed for the last time, if that is known
    """

    side: str
    resource_type: str
    resource_id: str
    lease_id: str | None
    reservation_id: str | None
    age: float | None
    reason: str


_ORPHAN_COLUMNS = ('side', 'resource_type', 'resource_id', 'lease_id', 'age', 'reason')
_REPAIRED_COLUMNS = ('what', 'wrong', 'action', 'done', 'trouble')


def add_repair_commands(subparsers: Any) -> None:
    """Add ``orphans`` and ``repair`` to a parser."""
    parser = subparsers.add_parser(
        'orphans',
        help='list resources without a lease, and leases without their resource',
        description='Compare the leases with the cloud. A resource that was just created may '
        'still get its lease: check its age.',
    )
    _add_format_option(parser)
    parser.set_defaults(run=_list_orphans)
    _add_repair(subparsers)


def _add_repair(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        'repair',
        help='repair what "lease stuck" and "orphans" list',
        description='Without --yes it only reports the repairs. It makes stuck events due now, '
        'marks missing resources as lost, deletes resources without a lease, and releases the '
        'trusts of leases that have ended. It compares the hosts of the pools with Placement, and '
        'deletes the flavors of reservations that have ended. The history of a lease records its '
        'repairs.',
    )
    parser.add_argument('--yes', action='store_true', help='do it')
    _add_lease_option(parser)
    add_thresholds(parser)
    parser.add_argument(
        '--safe',
        type=_parse_seconds,
        default=SAFE_SECONDS,
        metavar='SECONDS',
        help='leave resources without a lease that changed since (%(default)g)',
    )
    parser.add_argument(
        '--trusts',
        action='store_true',
        help='also delete trusts delegated to the service user that no lease has; do not use it '
        'if another installation has the same service user; takes '
        f'{operator_repair.TRUST_PAUSE_SECONDS:.0f} seconds more',
    )
    _add_format_option(parser)
    parser.epilog = (
        'exit status: 0 nothing is wrong, or all of it was repaired; 1 something is left; 2 it '
        'could not be checked'
    )
    parser.set_defaults(run=_repair)


def _list_orphans(conf: cfg.ConfigOpts) -> int:
    database, cloud, plugins = _connect(conf)
    now = database.read(sql.read_time)
    rows: list[Orphan] = []
    unseen: dict[str, str] = {}
    for plugin in plugins.values():
        with reconciliation.skip_unavailable(plugin.title, unseen):
            rows += _find_orphans(database, plugin, now)
    rows += [
        Orphan('resource', resource_type, resource_id, None, None, None, reason)
        for package in packages.list_packages()
        for resource_type, resource_id, reason in package.find_orphans(database, cloud, unseen)
    ]
    _print_rows(rows, _ORPHAN_COLUMNS, conf.command.format, unseen)
    database.dispose()
    return console.exit_status(rows, unseen)


def _find_orphans(
    database: Database, plugin: ResourcePlugin, now: datetime.datetime
) -> Iterator[Orphan]:
    resource_type = plugin.resource_type
    if isinstance(plugin, LeaseManaged):
        for resource_id in reconciliation.find_orphans(database, plugin):
            since = plugin.unleased_since(resource_id)
            age = (now - since).total_seconds() if since else None
            yield Orphan('resource', resource_type, resource_id, None, None, age, plugin.orphaned)
    for reservation, reason in reconciliation.find_lost(database, plugin):
        yield Orphan(
            'reservation',
            resource_type,
            reservation.resource_id,
            reservation.lease_id,
            reservation.id,
            None,
            reason,
        )


def _repair(conf: cfg.ConfigOpts) -> int:
    database, cloud, plugins = _connect(conf)
    options = conf.command
    _check_lease_exists(database, options.lease)
    work = operator_repair.OperatorRepair(database, plugins, options.yes, getpass.getuser())
    now = database.read(sql.read_time)
    repaired = [
        *work.leases(read_thresholds(options), options.lease),
        *work.lost(options.lease),
    ]
    if options.lease is None:
        repaired += work.resources(now, options.safe)
        for package in packages.list_packages():
            repaired += package.repair(database, cloud, options.yes, work.unseen)
        if options.trusts:
            repaired += work.trusts(Trusts(cloud), time.sleep)
    _print_rows(repaired, _REPAIRED_COLUMNS, options.format, work.unseen)
    if any(row.done for row in repaired):
        _notify_managers(conf)
        if any(row.done and row.action in operator_repair.REMEDIES.values() for row in repaired):
            _print_hint(_MADE_DUE_HINT.format(options, conf.engine), options.format)
    elif any(row.action for row in repaired) and not options.yes:
        _print_hint('Nothing was changed: pass --yes to apply the repairs.', options.format)
    database.dispose()
    return console.exit_status(any(not row.done for row in repaired), work.unseen)


def _print_hint(text: str, form: str) -> None:
    if form == 'table':
        print(text)


def _connect(conf: cfg.ConfigOpts) -> tuple[Database, Cloud, dict[str, ResourcePlugin]]:
    migration.check(conf)
    cloud = Cloud(conf)
    return Database(conf), cloud, loading.load_plugins(conf, cloud)


def _notify_managers(conf: cfg.ConfigOpts) -> None:
    """Nudge the managers; a manager that misses the hint polls by itself after a while."""
    try:
        client = messaging.get_rpc_client(
            open_transport(conf),
            messaging.Target(topic=TOPIC, version='1.0', fanout=True),
            serializer=RpcSerializer(),
        )
        client.prepare(retry=1).cast(RequestContext(overwrite=False), 'nudge')
    except messaging.MessagingException as exc:
        LOG.warning('Could not notify the managers; they find the work when they poll: %s', exc)


def _parse_seconds(text: str) -> float:
    """Parse a number of seconds, 0 or more.

    :raises argparse.ArgumentTypeError: it is not such a number
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f'must be a number of seconds, 0 or more, not {text!r}')
    return value


def _parse_count(text: str) -> int:
    """Parse a whole number, 1 or more.

    :raises argparse.ArgumentTypeError: it is not such a number
    """
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f'must be a number from 1 on, not {text!r}')
    return int(text)


def _add_lease_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that restricts a command to one lease."""
    parser.add_argument('--lease', metavar='ID', help='only this lease')


def _check_lease_exists(database: Database, lease_id: str | None) -> None:
    """Raise LeaseNotFound if no lease, not even a deleted one, has this id. None is accepted."""
    if lease_id is not None and database.read(leases.find, lease_id, parts=()) is None:
        raise exceptions.LeaseNotFound(f'No lease has the id {lease_id}.')


def _add_format_option(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--format``, and the exit status to the help."""
    parser.add_argument(
        '-f', '--format', choices=['table', 'json'], default='table', help='(%(default)s)'
    )
    parser.epilog = console.STATUS_HELP
    parser.set_defaults(error_status=console.NOT_CHECKED)


def _print_rows(
    rows: Sequence[Any],
    columns: Sequence[str],
    form: str,
    unseen: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Print dataclasses as a table or as JSON.

    :param columns: the fields that a table has; JSON has all
    :param form: ``table`` or ``json``
    :param unseen: title -> why it was not checked; printed to standard error
    """
    for title, reason in unseen.items():
        print(f'climate-manage: {title}: not checked: {words.escape(reason)}', file=sys.stderr)
    values = [dataclasses.asdict(row) for row in rows]
    if form == 'json':
        print(json.dumps(values, indent=2))
        return
    table = prettytable.PrettyTable([name.replace('_', ' ') for name in columns])
    table.align = 'l'
    for row_values in values:
        table.add_row([words.escape(_cell(row_values[name])) for name in columns])
    print(table if values or unseen else 'Nothing is wrong.')


def _cell(value: Any) -> str:
    if value is None:
        return '-'
    if isinstance(value, bool):
        return 'yes' if value else 'no'
    return f'{value:.0f} s' if isinstance(value, float) else str(value)
