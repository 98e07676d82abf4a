# SPDX-License-Identifier: Apache-2.0
"""Check the networks and ports of servers that are created for a lease, by the rules of Nova.

Facts: nova/api/openstack/compute/servers.py ``_get_requested_networks``; nova/network/neutron.py
``validate_networks`` and ``_check_external_network_attach``.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from oslo_config import cfg

from climate_core import exceptions
from climate_core.cloud import errors, neutron

if TYPE_CHECKING:
    from climate_core.cloud import connections

KEY: Final = 'networks'
OPTION: Final = cfg.BoolOpt(
    'external_networks',
    default=False,
    help='Whether the policy network:attach_external_network of Nova lets members attach servers '
    'to external networks that are not shared with their project. Its default does not, and '
    'Climate rejects servers on such networks when their lease is created.',
)


def check(
    conn: 'connections.Connection', wanted: Mapping[str, Any], field: str, allows_external: bool
) -> None:
    """Check the networks with the rights of the user.

    :param wanted: the ``server`` of the request
    :param field: where the networks stand
    :param allows_external: see :data:`OPTION`
    :raises climate_core.exceptions.ClimateError: the user lacks one, or Nova would reject it at
        any time; naming the field
    """
    if wanted.get(KEY) == 'auto':
        with errors.for_user(field):
            neutron.check_default_network(conn)
    for number, interface in enumerate(_listed(wanted)):
        where = f'{field}[{number}]'
        _check_form(interface, where, wanted.get('count', 1))
        if 'port' in interface:
            with errors.for_user(f'{where}.port'):
                neutron.check_port(conn, interface['port'], allows_external)
        else:
            with errors.for_user(f'{where}.uuid'):
                neutron.check_network(conn, interface['uuid'], allows_external)


def check_now(conn: 'connections.Connection', wanted: Mapping[str, Any], field: str) -> None:
    """Check what has to be right when the servers are created; raises as :func:`check`."""
    for where, port_id in list_ports(wanted, field):
        with errors.for_user(where):
            neutron.check_port_unused(conn, port_id)


def _listed(wanted: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    listed = wanted.get(KEY, ())
    return () if isinstance(listed, str) else listed


def list_ports(wanted: Mapping[str, Any], field: str) -> Iterator[tuple[str, str]]:
    """Yield the field and the id of each port."""
    for number, interface in enumerate(_listed(wanted)):
        if 'port' in interface:
            yield f'{field}[{number}].port', interface['port']


def _check_form(interface: Mapping[str, Any], field: str, count: int) -> None:
    """Reject what Nova rejects for any user.

    :param count: number of servers
    """
    if ('uuid' in interface) == ('port' in interface):
        raise exceptions.BadRequest('It must have one of uuid and port.', field=field)
    for name in ('port', 'fixed_ip'):
        if name in interface and count > 1:
            raise exceptions.BadRequest(
                f'Several servers cannot have the same {name}: leave it out, or ask for each '
                'server in a reservation of its own.',
                field=f'{field}.{name}',
            )
    if 'port' in interface and 'fixed_ip' in interface:
        raise exceptions.BadRequest(
            f'{field}.fixed_ip: must be left out with a port, which has addresses of its own.',
            field=f'{field}.fixed_ip',
        )
