# SPDX-License-Identifier: Apache-2.0
"""Stand in for the cloud in ``climate-manage serve --noauth``.

Leases start and end, and their events happen; the resources in them are only names.
"""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from oslo_config import cfg
from oslo_log import log

from climate_core.context import RequestContext
from climate_core.lease.model import Lease, Reservation
from climate_core.plugins import base, loading

LOG = log.getLogger(__name__)


class NoTrusts:
    """Stand in for trusts without Keystone: ids that mean nothing."""

    def check(self, context: RequestContext) -> None:
        """Accept every token."""

    def scope(self, context: RequestContext) -> None:
        """Have each lease make its own."""

    def create(self, context: RequestContext, roles: Sequence[str] | None = None) -> str:  # noqa: ARG002
        return uuid.uuid4().hex

    def roles(self, trust_id: str) -> Sequence[str]:  # noqa: ARG002
        return ['member', 'reader']

    def delete(self, trust_id: str) -> None:
        """Do nothing."""


def send(event_type: str, payload: Mapping[str, Any]) -> None:
    """Write a notification to the log."""
    LOG.info('%s: lease %s is %s', event_type, payload.get('lease_id'), payload.get('status'))


def plugins(conf: cfg.ConfigOpts) -> dict[str, base.ResourcePlugin]:
    """Make a stand-in without a cloud for each plugin of climate.conf, with the same schema."""
    return {each.resource_type: _one(each, conf) for each in loading.classes(conf.manager.plugins)}


def _one(plugin: type[base.ResourcePlugin], conf: cfg.ConfigOpts) -> base.ResourcePlugin:
    class NoCloud(base.ResourcePlugin):
        resource_type = plugin.resource_type
        title = plugin.title
        description = plugin.description
        schema = plugin.schema
        required = plugin.required
        reusable = plugin.reusable
        changeable = plugin.changeable
        rank = plugin.rank

        def __init__(self) -> None:
            self.conf = conf

        def reserve(self, context: RequestContext, values: Mapping[str, Any]) -> base.Claimed:  # noqa: ARG002
            params = _shown(values, plugin.schema)
            for each in ('resource_type', 'resource_id'):
                params.pop(each, None)
            return base.Claimed(values.get('resource_id') or str(uuid.uuid4()), params)

        def wake_up(self, lease: Lease, reservation: Reservation) -> None:  # noqa: ARG002
            LOG.info('%s %s starts', reservation.resource_type, reservation.resource_id)

        def end(self, lease: Lease, reservation: Reservation) -> None:  # noqa: ARG002
            LOG.info('%s %s ends', reservation.resource_type, reservation.resource_id)

    return NoCloud()


def _shown(values: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return values without those that their schema says are never shown.

    :param schema: JSON Schema by the names of the values
    """
    shown = {}
    for name, value in values.items():
        own = schema.get(name, {})
        if isinstance(value, Mapping) and 'properties' in own:
            value = _shown(value, own['properties'])
        if not own.get('writeOnly'):
            shown[name] = value
    return shown
