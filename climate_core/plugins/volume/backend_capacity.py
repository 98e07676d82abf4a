# SPDX-License-Identifier: Apache-2.0
"""The free capacity of the pools of the storage backends, as Cinder reports it now.

Three calls return all pools and volume types. A pool is as its cinder-volume last reported it. Of
the requirements of a type only ``volume_backend_name`` is checked.
"""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from climate_core.cloud import volumes
from climate_core.plugins.common_pool.forecast import Nouns
from climate_core.plugins.common_pool.server_placement import RunningServer, TargetHost
from climate_core.plugins.volume import plugin

if TYPE_CHECKING:
    from climate_core.cloud import connections

_GIB: Final = 'GiB'
#: GiB of a pool without a limit; no volume is larger (cinder/db/constants.py MAX_INT).
_UNLIMITED: Final = 2**31 - 1
_UNKNOWN_CAPACITIES: Final = ('infinite', 'unknown')
#: Ratio of a pool that computes it and has nothing provisioned (cinder INITIAL_AUTO_MOSR).
_INITIAL_RATIO: Final = 20.0


class BackendCapacity:
    """The pools with their free capacity.

    :param conn: the rights of the service
    """

    nouns = Nouns('storage pool', 'volume', 'do not serve its volume type')

    def __init__(self, conn: 'connections.Connection') -> None:
        self._conn = conn
        self.hosts = [
            TargetHost(
                name=each['name'],
                free={_GIB: count_free_gib(each['capabilities'])},
                traits=frozenset({str(each['capabilities'].get('volume_backend_name'))}),
            )
            for each in volumes.list_pools(conn)
            if each['capabilities'].get('backend_state', 'up') == 'up'
        ]
        types = volumes.list_types(conn)
        self._backends = {
            name: (each.get('extra_specs') or {}).get('volume_backend_name')
            for each in types
            for name in (each['id'], each['name'])
        }
        self._default: str | None = None

    @property
    def places(self) -> Mapping[str, str]:
        """Return nothing: finding the pool of each volume would take a call."""
        return {}

    def demand(
        self, volume_id: str, params: Mapping[str, Any], _amounts: Mapping[str, int]
    ) -> RunningServer:
        """Return the demand of a volume that a reservation or a stack will create."""
        wanted = params[plugin.SPEC_KEY]
        backend = self._backends.get(wanted.get('volume_type') or self._default_type())
        # Of a name with an operator, as "<or> a <or> b", only Cinder knows what it means.
        required = frozenset({backend} if backend and ' ' not in backend else ())
        return RunningServer(id=volume_id, amounts={_GIB: wanted['size']}, required=required)

    def released(self, amounts: Mapping[str, int]) -> dict[str, int]:
        """Return what a volume with these amounts releases in its pool."""
        return {_GIB: amounts.get('gigabytes', 0)}

    def _default_type(self) -> str:
        if self._default is None:
            self._default = volumes.read_default_type(self._conn) or ''
        return self._default


def count_free_gib(capabilities: Mapping[str, Any]) -> int:
    """Return the GiB that a pool has for new volumes, as the CapacityFilter of Cinder counts them.

    Facts: cinder/scheduler/filters/capacity_filter.py, cinder/scheduler/sched_utils.py.
    """
    total, unused = capabilities.get('total_capacity_gb'), capabilities.get('free_capacity_gb')
    reserved = float(capabilities.get('reserved_percentage') or 0) / 100
    if total is None or unused is None:
        return 0
    if unused in _UNKNOWN_CAPACITIES:
        return _UNLIMITED
    if total in _UNKNOWN_CAPACITIES:
        return 0 if reserved else _UNLIMITED
    capacity = float(total) - math.floor(float(total) * reserved)
    allocated = capabilities.get('allocated_capacity_gb', 0)
    provisioned = float(capabilities.get('provisioned_capacity_gb', allocated))
    if not capabilities.get('thin_provisioning_support'):
        return math.floor(min(capacity - provisioned, float(unused)))
    ratio = capabilities.get('max_over_subscription_ratio') or 1.0
    if ratio == 'auto':
        used = float(total) - float(unused)
        ratio = 1 + provisioned / (used + 1) if provisioned else _INITIAL_RATIO
    return math.floor(capacity * float(ratio) - provisioned)
