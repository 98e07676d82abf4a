# SPDX-License-Identifier: Apache-2.0
"""The free capacity of the shared hosts and storage backends, as their services report it now.

Two calls to Placement return it for all hosts. Hosts of pools are not among them. Three calls to
Cinder return all pools and volume types. A pool is as its cinder-volume last reported it; of the
requirements of a type only ``volume_backend_name`` is checked.
"""

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from climate_common import resource_types
from climate_core import exceptions
from climate_core.cloud import placement, servers, volumes
from climate_core.lease import model
from climate_core.plugins import flavor_demand
from climate_core.plugins.forecast import Forecast, FutureDemand, NotExpected, Nouns
from climate_core.plugins.server_placement import RunningServer, TargetHost

if TYPE_CHECKING:
    from climate_core.cloud import connections

_RESOURCE_CLASSES: Final[Mapping[str, str]] = {
    resource_types.VCPUS: 'VCPU',
    resource_types.MEMORY_MB: 'MEMORY_MB',
    resource_types.DISK_GB: 'DISK_GB',
}


class CommonHostCapacity:
    """The ordinary hosts with their free capacity.

    :param conn: the rights of the service
    :ivar hosts: the hosts
    :ivar places: the host of each server that runs there
    """

    nouns = Nouns()

    def __init__(self, conn: 'connections.Connection') -> None:
        self._conn = conn
        self._flavors: dict[str, dict[str, Any]] | None = None
        up = list_hosts_up(conn)
        self.hosts = list(read_hosts(conn, up))
        self.places = _find_hosts_of_servers(up)

    def demand(
        self, server_id: str, params: Mapping[str, Any], amounts: Mapping[str, int]
    ) -> RunningServer:
        """Return the demand of a server that a reservation or a stack will create.

        :raises climate_core.exceptions.BadRequest: its demand is not known
        """
        if not amounts and model.NEEDS not in params:
            if 'server' not in params:
                raise exceptions.BadRequest('The demand of the server on its host is not known.')
            return dataclasses.replace(self._inside(params), id=server_id)
        needs = params.get(model.NEEDS) or {'amounts': amounts_by_class(amounts)}
        return RunningServer(
            id=server_id,
            amounts=needs['amounts'],
            required=frozenset(needs.get('required', ())),
            forbidden=frozenset(needs.get('forbidden', ())),
            zone=needs.get('zone'),
        )

    def _inside(self, params: Mapping[str, Any]) -> RunningServer:
        if self._flavors is None:
            listed = servers.list_flavors(self._conn)
            by_name = {each['name']: each for each in listed}
            self._flavors = {**by_name, **{each['id']: each for each in listed}}
        spec = params['server']
        flavor = self._flavors.get(str(spec['flavorRef']))
        if flavor is None:
            problem = f'There is no flavor {spec["flavorRef"]}.'
            raise exceptions.BadRequest(problem, field='template')
        try:
            return demand_of_flavor(flavor, spec)
        except exceptions.BadRequest as exc:
            problem = exc.message.removeprefix('flavor_id: ')
            raise exceptions.BadRequest(problem, field='template') from exc

    def released(self, amounts: Mapping[str, int]) -> dict[str, int]:
        """Return what a server with these amounts releases on its host."""
        return amounts_by_class(amounts)


def _find_hosts_of_servers(up: Mapping[str, Any]) -> dict[str, str]:
    """Return the host of each server, except servers that Nova shows at several hosts.

    Nova shows the servers of a nova-compute at each of its nodes.
    """
    found: dict[str, str] = {}
    unclear: set[str] = set()
    for provider_id, each in up.items():
        for server in each.get('servers') or ():
            if found.setdefault(server['uuid'], provider_id) != provider_id:
                unclear.add(server['uuid'])
    return {server: host for server, host in found.items() if server not in unclear}


def amounts_by_class(amounts: Mapping[str, int]) -> dict[str, int]:
    """Return amounts by resource classes; without what Placement does not count, as servers."""
    named = {_RESOURCE_CLASSES.get(name, name): amount for name, amount in amounts.items()}
    return {name: amount for name, amount in named.items() if name.isupper()}


def demand_of_flavor(flavor: Mapping[str, Any], spec: Mapping[str, Any]) -> RunningServer:
    """Return the demand of a server of a flavor, with an empty id.

    :param spec: the rest of the specification, as POST /servers takes it
    :raises climate_core.exceptions.BadRequest: the demand cannot be computed
    """
    if boots_from_volume(spec):
        flavor = {**flavor, 'disk': 0}
    demand = flavor_demand.read_demand(flavor)
    return RunningServer(
        id='',
        amounts=amounts_by_class(demand.piece),
        required=demand.required,
        forbidden=demand.forbidden,
        # Administrators may add a host to it.
        zone=str(spec.get('availability_zone') or '').partition(':')[0] or None,
    )


def boots_from_volume(spec: Mapping[str, Any]) -> bool:
    """Return whether the root disk of a server is not on its host."""
    return 'imageRef' not in spec and 'block_device_mapping_v2' in spec


def describe_needs(flavor: Mapping[str, Any], spec: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the demand of a server as JSON types; None: it cannot be computed."""
    try:
        server = demand_of_flavor(flavor, spec)
    except exceptions.BadRequest:
        return None
    return {
        'amounts': dict(server.amounts),
        'required': sorted(server.required),
        'forbidden': sorted(server.forbidden),
        'zone': server.zone,
    }


def list_hosts_up(conn: 'connections.Connection') -> dict[str, Any]:
    """Return the hosts that take servers by the ids of their providers: ``servers``, ``zone``."""
    services = servers.list_compute_services(conn)
    return {
        each['id']: {**each, 'zone': services.get(each['service']['host'], {}).get('zone')}
        for each in servers.list_hypervisors_with_servers(conn)
        if (each['state'], each['status']) == ('up', 'enabled')
    }


def read_hosts(conn: 'connections.Connection', up: Mapping[str, Any]) -> Iterator[TargetHost]:
    """Return the ordinary hosts with their free capacity.

    :param up: those that take servers
    """
    capacities = placement.read_ordinary_capacities(conn)
    for provider_id in placement.list_ordinary_roots(conn):
        if provider_id not in up:
            continue
        found, zone = capacities.get(provider_id), up[provider_id]['zone']
        if found is None:
            # It has no free memory, so nothing else counts until a lease releases some.
            yield TargetHost(name=provider_id, free={}, zone=zone, traits=None)
            continue
        # No server can use as a whole what several of its providers have.
        whole = found.used.keys() - found.divided
        free = {kind: found.capacity[kind] - found.used[kind] for kind in whole}
        yield TargetHost(name=provider_id, free=free, zone=zone, traits=found.traits)


def describe_shortage(conn: 'connections.Connection', spec: Mapping[str, Any]) -> str:
    """Return which capacity one more server lacks; empty if it is sufficient.

    :param conn: the rights of the service
    :raises climate_core.exceptions.BadRequest: it cannot be computed
    """
    server = demand_of_flavor(servers.get_flavor(conn, spec['flavorRef']), spec)
    forecast = Forecast(read_hosts(conn, list_hosts_up(conn)))
    try:
        forecast.check(FutureDemand(start=0, end=1, servers=[dataclasses.replace(server, id='1')]))
    except NotExpected as exc:
        return str(exc)
    return ''


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
        spec = params['volume']
        backend = self._backends.get(spec.get('volume_type') or self._default_type())
        # Of a name with an operator, as "<or> a <or> b", only Cinder knows what it means.
        required = frozenset({backend} if backend and ' ' not in backend else ())
        return RunningServer(id=volume_id, amounts={_GIB: spec['size']}, required=required)

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
