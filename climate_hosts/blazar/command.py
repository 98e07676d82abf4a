# SPDX-License-Identifier: Apache-2.0
"""``climate-manage import blazar``: report what can be taken over from Blazar."""

import dataclasses
import json
import sys
from collections.abc import Sequence
from typing import Any

import prettytable
import sqlalchemy as sa
from oslo_config import cfg
from sqlalchemy import orm

from climate_common import words
from climate_core import packages
from climate_core.cmd import console
from climate_core.db import migration
from climate_core.db.engine import Database
from climate_core.db.tables import LEASES
from climate_hosts import hosts
from climate_hosts.blazar import plan, source

#: The kind of the units of floating IPs, which another package has.
_FLOATING_IP = 'floating IP'
#: Number of ids that are searched with a statement.
_BATCH = 500


def add_command(subparsers: Any) -> None:
    """Add the command to a parser."""
    parser = subparsers.add_parser(
        'blazar',
        help='report what can be taken over from a Blazar',
        description='Read the database of Blazar, and report which of its leases, hosts and '
        'floating IPs Climate could take over, which not and why. Nothing is written.',
    )
    parser.add_argument(
        '--dry-run', action='store_true', required=True, help='only report; required'
    )
    parser.add_argument(
        '--blazar-config',
        default='/etc/blazar/blazar.conf',
        metavar='FILE',
        help='the configuration file of Blazar, of which [database] connection is read '
        '(%(default)s)',
    )
    parser.add_argument(
        '-f', '--format', choices=['table', 'json'], default='table', help='(%(default)s)'
    )
    parser.epilog = (
        'exit status: 0 all can be taken over, 1 something cannot, 2 it could not be checked'
    )
    parser.set_defaults(run=_report, error_status=console.NOT_CHECKED)


def _report(conf: cfg.ConfigOpts) -> int:
    migration.check(conf)
    options = conf.command
    try:
        contents = source.read_contents(source.read_connection(options.blazar_config))
    except source.InvalidSource as exc:
        print(f'climate-manage: {exc}', file=sys.stderr)
        return console.NOT_CHECKED
    database = Database(conf)
    ids = [each['id'] for each in contents.rows['leases']]
    present = database.read(_read_present, ids, conf.hosts.lanes_per_host)
    database.dispose()
    made = plan.make_plan(contents, present)
    if options.format == 'json':
        print(json.dumps(dataclasses.asdict(made), indent=2, default=str))
    else:
        _print_plan(made)
    return console.exit_status(made.is_stopped)


def _read_present(session: orm.Session, lease_ids: Sequence[str], lanes: int) -> plan.Present:
    """Read what Climate has of what Blazar has."""
    found: set[str] = set()
    for first in range(0, len(lease_ids), _BATCH):
        batch = lease_ids[first : first + _BATCH]
        found |= {*session.scalars(sa.select(LEASES.c.id).where(LEASES.c.id.in_(batch)))}
    tables = packages.find_unit_tables()
    names = tables[hosts.KIND].table.c.hypervisor_hostname
    addresses: set[tuple[str, str]] = set()
    if _FLOATING_IP in tables:
        column = tables[_FLOATING_IP].table.c
        query = sa.select(column.network_id, column.address)
        addresses = {(row[0], row[1]) for row in session.execute(query)}
    return plan.Present(
        lease_ids=found,
        host_names={*session.scalars(sa.select(names))},
        addresses=addresses,
        lanes=lanes,
    )


def _print_plan(made: plan.Plan) -> None:
    """Print a plan as tables, and a summary."""
    table = _new_table('lease', 'name', 'status', 'start', 'end', 'hosts', 'addresses', 'import')
    for lease in made.leases:
        table.add_row(
            [
                lease.id,
                words.escape(lease.name),
                lease.status,
                lease.start_date,
                lease.end_date,
                len(lease.hosts),
                len(lease.floatingips),
                'yes' if lease.can_be_imported else 'no',
            ]
        )
    print(table)
    if made.findings:
        table = _new_table('severity', 'about', 'id', 'reason')
        for each in made.findings:
            table.add_row([each.severity, each.about, each.id, words.escape(each.reason)])
        print(table)
    ready = sum(each.can_be_imported for each in made.leases)
    print(
        f'{ready} of {words.counted(len(made.leases), "lease")} can be taken over, with '
        f'{words.counted(made.hosts, "host")} and '
        f'{words.counted(made.floatingips, "floating IP")}.'
    )
    ended = sum(made.history.values())
    print(f'{words.counted(ended, "lease")} in TERMINATED or ERROR stay in Blazar.')
    if made.next_event is not None:
        print(f'The next event of Blazar is due at {made.next_event} UTC.')


def _new_table(*names: str) -> prettytable.PrettyTable:
    table = prettytable.PrettyTable(names)
    table.align = 'l'
    return table
