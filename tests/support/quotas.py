# SPDX-License-Identifier: Apache-2.0
"""Limits and an external service, in place of Keystone and of the operator's own."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from climate_core.context import RequestContext
from climate_core.db import project_limits, tables
from climate_core.lease import model
from climate_core.operations.leases import LeaseOperations
from climate_core.plugins.base import ReservedResource, ResourcePlugin
from tests.support.world import TYPE, Things, World

LATER = '2082-12-01 20:00'


class Servers(Things):
    """Things of two cores each."""

    def reserve(
        self, context: RequestContext, values: Mapping[str, Any], lease_id: str = ''
    ) -> ReservedResource:
        found = super().reserve(context, values, lease_id)
        return dataclasses.replace(
            found, amounts={'servers': 1, 'vcpus': 2, 'memory_mb': 512, 'disk_gb': 1}
        )


class Keystone:
    """Limits of every project, and who asked."""

    is_on = True

    def __init__(self, **most: int) -> None:
        self.most = dict.fromkeys(project_limits.NAMES, -1) | most
        self.remembered: dict[str, int] | None = None
        self.asked: list[str] = []

    def read_limits(self, project_id: str) -> dict[str, int]:
        self.asked.append(project_id)
        return self.most

    def recent(self, project_id: str) -> dict[str, int]:
        return self.read_limits(project_id) if self.remembered is None else self.remembered


class Judge:
    """The external service."""

    def __init__(self) -> None:
        self.on_create = self.on_update = self.on_end = True
        self.creates: list[model.Lease] = []
        self.updates: list[tuple[model.Lease, model.Lease]] = []
        self.commits: list[tuple[model.Lease | None, model.Lease]] = []
        self.answer: Exception | None = None

    def check_create(self, lease: model.Lease) -> None:
        self.creates.append(lease)
        if self.answer:
            raise self.answer

    def commit(self, before: model.Lease | None, after: model.Lease) -> None:
        self.commits.append((before, after))

    def check_update(self, before: model.Lease, after: model.Lease) -> None:
        self.updates.append((before, after))
        if self.answer:
            raise self.answer


def limit(world: World, **most: int) -> Keystone:
    """Turn the limits on."""
    keystone = Keystone(**most)
    world.operations.quota.project_limits = keystone
    replace_plugins(world, {TYPE: Servers()})
    return keystone


def replace_plugins(world: World, plugins: Mapping[str, ResourcePlugin]) -> None:
    """Have the operations use other plugins than the engine."""
    services = dataclasses.replace(world.operations.services, plugins=plugins)
    before = world.operations.quota
    world.operations = LeaseOperations(services)
    world.operations.quota.project_limits, world.operations.quota.external = (
        before.project_limits,
        before.external,
    )


def judge(world: World) -> Judge:
    made = Judge()
    world.operations.quota.external = made
    return made


def nothing_is_left(world: World) -> bool:
    with world.database.engine.connect() as connection:
        rows = connection.execute(tables.LEASES.select()).all()
    return not rows and not world.trusts.present


def used(world: World, project: str = 'project1') -> dict[str, int]:
    return {k: v for k, v in world.database.read(project_limits.count_used, project).items() if v}
