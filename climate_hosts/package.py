# SPDX-License-Identifier: Apache-2.0
"""The reservation package of physical hosts, and of shares of them."""

import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from oslo_config import cfg
from oslo_policy import policy

from climate_common import resource_types
from climate_core.packages import ManagerParts, PoolCheck, ReservationPackage
from climate_hosts import flavors, hosts

if TYPE_CHECKING:
    from sqlalchemy import orm

    from climate_core.api.registered_units import UnitCalls
    from climate_core.api.request import Table
    from climate_core.cloud import Cloud
    from climate_core.db.engine import Database
    from climate_core.db.registered_units import UnitTable
    from climate_core.lease.model import Reservation
    from climate_core.notifications.schemas import NotificationType
    from climate_core.operations.services import HostEvacuation, Services
    from climate_core.operations.wait_queue import WaitQueue
    from climate_core.plugins.base import ResourcePlugin
    from climate_core.repair.operator_repair import RepairResult
    from climate_core.threads import Background


class HostPackage(ReservationPackage):
    """Declare ``physical:host`` and ``flavor:instance``."""

    name = 'hosts'
    unit_kinds = (hosts.KIND,)
    best_effort_types = (resource_types.HOST,)

    def list_options(self) -> Iterable[tuple[str, Sequence[cfg.Opt]]]:
        from climate_hosts import conf

        return conf.hosts, conf.power

    def list_policies(self) -> Iterable[policy.RuleDefault]:
        from climate_hosts import policies

        return policies.RULES

    def list_routes(self) -> 'Table':
        from climate_hosts.api import hosts

        return hosts.ROUTES

    def view_allocations(self, reservation: 'Reservation') -> Mapping[str, Any]:
        """Return the allocated hosts, and fields that Blazar's clients read.

        The latter are Blazar's action before the end, and what it creates in Nova for capacity.
        """
        names = [allocation.unit['hypervisor_hostname'] for allocation in reservation.allocations]
        match reservation.resource_type:
            case resource_types.HOST:
                blazar = {'before_end': reservation.params.get('before_end', 'default')}
            case resource_types.CAPACITY | resource_types.SIZES:
                blazar = flavors.view(reservation.params, reservation.id)
            case _:
                blazar = {}
        return {'hosts': names, **blazar}

    def list_notifications(self) -> Iterable['NotificationType']:
        from climate_hosts.power import db

        return db.list_types()

    def list_companion_plugins(self) -> Mapping[str, 'type[ResourcePlugin]']:
        from climate_hosts.plugins.capacity import SizesPlugin

        return {resource_types.SERVER: SizesPlugin}

    def create_evacuation(self, services: 'Services', queue: 'WaitQueue') -> 'HostEvacuation':
        from climate_hosts.operations import evacuation

        return evacuation.PoolHostEvacuation(services, queue)

    def create_workers(self, parts: ManagerParts) -> Iterator['Background']:
        from climate_hosts.metrics import HostMetrics
        from climate_hosts.operations.draining import HostDrainer
        from climate_hosts.operations.shared_hosts import SharedHostReturner
        from climate_hosts.power import drivers
        from climate_hosts.power.worker import HostPower
        from climate_hosts.watch.failures import HostWatch
        from climate_hosts.watch.refresh import HostRefresher

        conf, database, cloud = parts.conf, parts.database, parts.cloud
        has_power = bool(conf.power.driver)
        seconds = conf.metrics.database_seconds if has_power else None
        metrics = HostMetrics(parts.registry, database, seconds)
        yield HostRefresher(conf, database, cloud)
        yield SharedHostReturner(database, cloud)
        yield HostDrainer(conf, database, cloud)
        yield HostWatch(conf, database, cloud, parts.plugins, parts.calendar, metrics)
        if has_power:
            yield HostPower(conf, database, drivers.load_driver(conf), cloud)

    def add_import_commands(self, subparsers: Any) -> None:
        from climate_hosts.blazar import command

        command.add_command(subparsers)

    def list_pool_checks(self) -> Iterable[PoolCheck]:
        from climate_hosts.watch import isolation

        return (isolation.HostCheck(),)

    def find_orphans(
        self, database: 'Database', cloud: 'Cloud', unseen: dict[str, str]
    ) -> Iterable[tuple[str, str, str]]:
        from climate_hosts.watch import repair

        return repair.find_orphans(database, cloud, unseen)

    def repair(
        self, database: 'Database', cloud: 'Cloud', yes: bool, unseen: dict[str, str]
    ) -> Iterable['RepairResult']:
        from climate_hosts.watch import repair

        return repair.repair(database, cloud, yes, unseen)

    def list_unit_tables(self) -> Iterable['UnitTable[Any]']:
        from climate_hosts.db import hosts

        return (hosts.HOSTS,)

    def read_timeline(
        self,
        session: 'orm.Session',
        since: datetime.datetime,
        until: datetime.datetime,
        marker: int,
        limit: int,
    ) -> tuple[Sequence[dict[str, Any]], bool]:
        from climate_hosts.api import hosts

        return hosts.read_timeline(session, since, until, marker, limit)

    def list_unit_calls(self) -> Iterable['UnitCalls[Any]']:
        from climate_hosts.api import hosts

        return (hosts.CALLS,)

    def create_operations(
        self, conf: cfg.ConfigOpts, database: 'Database', cloud: 'Cloud'
    ) -> Iterable[object]:
        from climate_hosts.operations.hosts import HostOperations

        return (HostOperations(conf, database, cloud),)
