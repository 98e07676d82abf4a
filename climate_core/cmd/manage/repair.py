# SPDX-License-Identifier: Apache-2.0
"""``climate-manage orphans`` and ``climate-manage repair``."""

import dataclasses
import datetime
import getpass
import time
from collections.abc import Iterator
from typing import Any

import oslo_messaging as messaging
from oslo_config import cfg
from oslo_log import log

from climate_core.cloud import Cloud
from climate_core.cloud.trusts import Trusts
from climate_core.cmd.manage import arguments, leases, output
from climate_core.context import RequestContext, RpcSerializer
from climate_core.db import migration, sql
from climate_core.db.engine import Database
from climate_core.plugins import loading
from climate_core.plugins.base import ResourcePlugin
from climate_core.rpc.client import TOPIC, open_transport
from climate_core.sync import orphans, repair, stuck_leases
from climate_hosts.db import hosts
from climate_hosts.sync import flavor_repair
from climate_hosts.sync import repair as host_repair

LOG = log.getLogger(__name__)

#: Seconds that a resource without a lease is left alone: a boot may take its time.
SAFE_SECONDS = 3600.0
#: What an operator is told of events that were made due: options of the command, and [engine].
_TAKEN_UP = (
    'A running climate-manager takes up what is due now: at once, or within [engine] idle_seconds '
    '({1.idle_seconds:g} s) if it was not told. After {0.grace:g} s (--grace) "climate-manage '
    'lease stuck" says what was not taken up.'
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


def add_commands(subparsers: Any) -> None:
    """Add the commands to a parser."""
    parser = subparsers.add_parser(
        'orphans',
        help='list resources without a lease, and leases without their resource',
        description='Compare the leases with the cloud. A resource that was made a moment ago '
        'may still get its lease: look at its age.',
    )
    output.add_format(parser)
    parser.set_defaults(run=_orphans)
    _add_repair(subparsers)


def _add_repair(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        'repair',
        help='repair what "lease stuck" and "orphans" list',
        description='Without --yes it only says what it would do. It makes stuck events due now, '
        'marks resources that are gone, deletes resources without a lease, and has the trusts '
        'of leases that are over deleted. It compares the hosts of the pools with Placement, and '
        'deletes the flavors of reservations that are over. What it does to a lease is in its '
        'history.',
    )
    parser.add_argument('--yes', action='store_true', help='do it')
    arguments.add_lease(parser)
    leases.add_thresholds(parser)
    parser.add_argument(
        '--safe',
        type=arguments.seconds,
        default=SAFE_SECONDS,
        metavar='SECONDS',
        help='leave resources without a lease that changed since (%(default)g)',
    )
    parser.add_argument(
        '--trusts',
        action='store_true',
        help='also delete trusts to the service user that no lease has: not if another '
        f'installation has the same service user; takes {repair.TRUST_SECONDS:.0f} seconds more',
    )
    output.add_format(parser)
    parser.epilog = (
        'exit status: 0 nothing is wrong, or all of it was repaired; 1 something is left; '
        '2 it could not be looked for'
    )
    parser.set_defaults(run=_repair)


def _orphans(conf: cfg.ConfigOpts) -> int:
    database, cloud, plugins = _parts(conf)
    now = database.read(sql.read_time)
    found: list[Orphan] = []
    unseen: dict[str, str] = {}
    for plugin in plugins.values():
        with orphans.unseen(plugin.title, unseen):
            found += _find(database, plugin, now)
    found += _flavors(database, cloud, unseen)
    output.show(found, _ORPHAN_COLUMNS, conf.command.format, unseen)
    database.dispose()
    if unseen:
        return output.TROUBLE
    return output.FOUND if found else output.NOTHING


def _find(database: Database, plugin: ResourcePlugin, now: datetime.datetime) -> Iterator[Orphan]:
    kind = plugin.resource_type
    for each in orphans.resources(database, plugin):
        since = plugin.unleased_since(each)
        age = (now - since).total_seconds() if since else None
        yield Orphan('resource', kind, each, None, None, age, plugin.orphaned)
    for held, reason in orphans.lost(database, plugin):
        yield Orphan('reservation', kind, held.resource_id, held.lease_id, held.id, None, reason)


def _flavors(database: Database, cloud: Cloud, unseen: dict[str, str]) -> list[Orphan]:
    if not database.read(hosts.exist):
        # Without hosts of pools there is no flavor of a reservation.
        return []
    with orphans.unseen('Flavor', unseen):
        found = flavor_repair.find(database, cloud.service())
        reason = flavor_repair.REASON
        return [Orphan('resource', 'flavor', e, None, None, None, reason) for e in found]
    return []


def _repair(conf: cfg.ConfigOpts) -> int:
    database, cloud, plugins = _parts(conf)
    options = conf.command
    arguments.check_lease(database, options.lease)
    work = repair.Repair(database, plugins, options.yes, getpass.getuser())
    now = database.read(sql.read_time)
    found = [
        *work.leases(leases.thresholds(options), options.lease),
        *work.lost(options.lease),
    ]
    if options.lease is None:
        found += work.resources(now, options.safe)
        found += _hosts(database, cloud, options.yes, work.unseen)
        if options.trusts:
            found += work.trusts(Trusts(cloud), time.sleep)
    output.show(found, _REPAIRED_COLUMNS, options.format, work.unseen)
    if any(each.done for each in found):
        _nudge(conf)
        if any(each.done and each.action in stuck_leases.REMEDIES.values() for each in found):
            _say(_TAKEN_UP.format(options, conf.engine), options.format)
    elif any(each.action for each in found) and not options.yes:
        _say('Nothing was done: say --yes to do it.', options.format)
    database.dispose()
    if work.unseen:
        return output.TROUBLE
    return output.NOTHING if all(each.done for each in found) else output.FOUND


def _hosts(
    database: Database, cloud: Cloud, yes: bool, unseen: dict[str, str]
) -> list[repair.Repaired]:
    # Without hosts a cloud may have no Placement, or no rights to it for us.
    noted: dict[str, str] = {}
    found: list[repair.Repaired] = []
    with orphans.unseen('Host', noted):
        found += host_repair.HostRepair(database, cloud.service(), yes).run()
        found += flavor_repair.run(database, cloud.service(), yes)
    if database.read(hosts.exist):
        unseen |= noted
    return found


def _say(text: str, form: str) -> None:
    if form == 'table':
        print(text)


def _parts(conf: cfg.ConfigOpts) -> tuple[Database, Cloud, dict[str, ResourcePlugin]]:
    migration.check(conf)
    cloud = Cloud(conf)
    return Database(conf), cloud, loading.load(conf, cloud)


def _nudge(conf: cfg.ConfigOpts) -> None:
    """Nudge the managers; one that does not get the hint looks by itself after a while."""
    try:
        client = messaging.get_rpc_client(
            open_transport(conf),
            messaging.Target(topic=TOPIC, version='1.0', fanout=True),
            serializer=RpcSerializer(),
        )
        client.prepare(retry=1).cast(RequestContext(overwrite=False), 'nudge')
    except messaging.MessagingException as exc:
        LOG.warning('The managers were not told; they look by themselves: %s', exc)
