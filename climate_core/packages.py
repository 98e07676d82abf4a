# SPDX-License-Identifier: Apache-2.0
"""Reservation packages: what can be reserved beside servers, volumes and stacks.

A package is a class behind the entry point ``climate.packages``. The service knows the interface
and no package; what a package declares is there when it is installed, and its plugins reserve
something when ``[manager] plugins`` names them.
"""

import abc
import dataclasses
import datetime
import functools
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar, NoReturn

import stevedore
from oslo_config import cfg
from oslo_policy import policy

#: The namespace of the entry points.
NAMESPACE = 'climate.packages'


class InvalidConfiguration(Exception):
    """The configuration of a package is invalid: the manager does not start."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ManagerParts:
    """The parts of a manager that background workers of packages use.

    :param registry: of the metrics of the manager
    """

    conf: cfg.ConfigOpts
    database: Any
    cloud: Any
    plugins: Mapping[str, Any]
    calendar: Any
    registry: Any


class PoolCheck(abc.ABC):
    """A check of ``climate-status upgrade check``: that a pool is reserved for leases."""

    title: ClassVar[str]
    #: The message, before the reason, if the check fails.
    unchecked: ClassVar[str]
    #: The message if the pool is empty.
    empty: ClassVar[str]
    #: The message about what the check cannot see, added to every result.
    limits: ClassVar[str]

    @abc.abstractmethod
    def find_problems(self, database: Any, conn: Any) -> list[str] | None:
        """Return sentences about the problems; None if the pool is empty.

        :param conn: with the rights of the service
        :raises climate_core.exceptions.PluginFailure: a service does not answer
        """


class ReservationPackage:
    """Declare what a package adds to the service.

    The methods import what they return when they are called: the API loads no background worker,
    and a manager no handler. Values whose types belong to higher layers are typed as ``Any``; the
    docstrings name the types.
    """

    #: The name of the entry point.
    name: ClassVar[str]
    #: The types whose leases may be of the kind best_effort, see :meth:`create_evacuation`.
    best_effort_types: ClassVar[Collection[str]] = ()
    #: The kinds of the units of the calendar whose allocations :meth:`view_allocations` shows.
    unit_kinds: ClassVar[Collection[str]] = ()
    #: The types of resources whose allocated units the calendar names.
    named_types: ClassVar[Collection[str]] = ()

    def list_options(self) -> Iterable[tuple[str, Sequence[cfg.Opt]]]:
        """Return the options by section of climate.conf, beside those of the plugins."""
        return ()

    def list_policies(self) -> Iterable[policy.RuleDefault]:
        """Return the defaults of the policies."""
        return ()

    def list_routes(self) -> Any:
        """Return the calls of the API, as :data:`climate_core.api.routes.ROUTES` has them."""
        return {}

    def view_allocations(self, reservation: Any) -> Mapping[str, Any]:  # noqa: ARG002
        """Return the allocations of a reservation of one of the ``unit_kinds``, for the API.

        :param reservation: a :class:`climate_core.lease.model.Reservation`, or its summary in a
            list
        """
        return {}

    def name_unit(self, resource_type: str, unit: Mapping[str, Any]) -> str:
        """Return the name of an allocated unit of one of the ``named_types`` that users know.

        :param unit: its properties
        """
        raise NotImplementedError

    def list_notifications(self) -> Iterable[Any]:
        """Return the ``NotificationType`` of each notification."""
        return ()

    def list_companion_plugins(self) -> Mapping[str, Any]:
        """Return the classes of plugins that serve another form of a type, by that type.

        They are enabled with the plugin of the type.
        """
        return {}

    def list_unit_tables(self) -> Iterable[Any]:
        """Return the ``UnitTable`` of each kind of registered units.

        Their import adds all tables of the package to the metadata of the database.
        """
        return ()

    def read_timeline(
        self,
        session: Any,  # noqa: ARG002
        since: datetime.datetime,  # noqa: ARG002
        until: datetime.datetime,  # noqa: ARG002
        marker: int,  # noqa: ARG002
        limit: int,  # noqa: ARG002
    ) -> tuple[Sequence[dict[str, Any]], bool]:
        """Read a page of hosts with their allocations in a period, and whether there are more.

        :param marker: the id of the last host of the previous page
        :returns: hosts as the API shows them in the calendar
        """
        return (), False

    def list_unit_calls(self) -> Iterable[Any]:
        """Return the ``UnitCalls`` of the API about each type of registered units."""
        return ()

    def create_operations(
        self,
        conf: cfg.ConfigOpts,  # noqa: ARG002
        database: Any,  # noqa: ARG002
        cloud: Any,  # noqa: ARG002
    ) -> Iterable[object]:
        """Return objects whose methods with :func:`climate_core.operations.remote` RPC serves."""
        return ()

    def create_evacuation(
        self,
        services: Any,  # noqa: ARG002
        queue: Any,  # noqa: ARG002
    ) -> Any:
        """Return the ``HostEvacuation`` of the kind best_effort; None: it evacuates nothing.

        :param services: the ``Services`` of the operations
        """
        return None

    def create_workers(self, parts: ManagerParts) -> Iterable[Any]:  # noqa: ARG002
        """Create the workers (``threads.Background``) of a manager that watches the cloud.

        :raises InvalidConfiguration: an option is invalid
        """
        return ()

    def add_import_commands(self, subparsers: Any) -> None:
        """Add commands of ``climate-manage import``, each for another reservation service.

        :param subparsers: of the parser of ``import``
        """

    def list_pool_checks(self) -> Iterable[PoolCheck]:
        """Return the checks of ``climate-status upgrade check``."""
        return ()

    def find_orphans(
        self,
        database: Any,  # noqa: ARG002
        cloud: Any,  # noqa: ARG002
        unseen: dict[str, str],  # noqa: ARG002
    ) -> Iterable[tuple[str, str, str]]:
        """Find what reservations have left behind in other services.

        :param unseen: receives the title of what could not be read, and why
        :returns: the type, the id, and the reason of each
        """
        return ()

    def repair(
        self,
        database: Any,  # noqa: ARG002
        cloud: Any,  # noqa: ARG002
        yes: bool,  # noqa: ARG002
        unseen: dict[str, str],  # noqa: ARG002
    ) -> Iterable[Any]:
        """Repair what differs from other services; return a ``RepairResult`` for each.

        :param yes: whether to repair it, not only to report it
        :param unseen: receives the title of what could not be read, and why
        """
        return ()


@functools.cache
def list_packages() -> tuple[ReservationPackage, ...]:
    """Return the installed packages, by name."""
    manager: stevedore.ExtensionManager[ReservationPackage] = stevedore.ExtensionManager(
        NAMESPACE, invoke_on_load=True, on_load_failure_callback=_reject_broken
    )
    packages = [extension.obj for extension in manager if extension.obj is not None]
    return tuple(sorted(packages, key=lambda package: package.name))


@functools.cache
def find_unit_tables() -> Mapping[str, Any]:
    """Return the ``UnitTable`` of each kind of registered units of all packages."""
    return {
        table.kind: table for package in list_packages() for table in package.list_unit_tables()
    }


def _reject_broken(_manager: object, entry_point: object, error: BaseException) -> NoReturn:
    raise InvalidConfiguration(f'{entry_point} cannot be loaded: {error}') from error
