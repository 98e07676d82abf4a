# SPDX-License-Identifier: Apache-2.0
"""Check a request of an operator about a host, beyond its JSON Schema. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from climate_core import exceptions
from climate_core.lease import unit_properties
from climate_core.lease.unit_properties import NODE_FACTS
from climate_hosts.domain.hosts import Host
from climate_hosts.domain.power import PowerState

#: What the API shows of a host, or its clients send, by other means than an extra property.
OWN_FIELDS: Final = frozenset(
    {
        *NODE_FACTS,
        'id',
        'name',
        'pool',
        'reservable',
        'disabled',
        'disabled_reason',
        'capacity',
        'lanes',
        'shared',
        'power',
        'kept_on',
        'empty',
        'cpu_info',
        'status',
        'state',
        'trust_id',
        'created_at',
        'updated_at',
        'values',
    }
)


def check_reason(reason: str | None, available: bool) -> None:
    """Refuse a reason for which a host is disabled if it is not.

    :raises climate_core.exceptions.BadRequest: naming the field
    """
    if available and reason:
        raise exceptions.BadRequest(
            'disabled_reason: goes with disabled: true, or with a host that is disabled.',
            field='disabled_reason',
        )


def check_not_emptied(host: Host) -> None:
    """Refuse to change a host while its servers leave it for a lease.

    :raises climate_core.exceptions.HostChanging: they do
    """
    if host.emptied_for is not None:
        raise exceptions.HostChanging(
            f'Host {host.hypervisor_hostname} is being emptied for lease {host.emptied_for}. Wait '
            'for that, or end the lease.'
        )


def being_emptied(host: Host) -> exceptions.HostChanging:
    """Return the error for a host whose servers leave it so that it is in its pool."""
    return exceptions.HostChanging(
        f'Host {host.hypervisor_hostname} is being emptied, and is enrolled after that. Wait for '
        'it, or delete the host to give it up.'
    )


def check_awake(host: Host) -> None:
    """Refuse to take out a host that sleeps: nobody would switch it on afterwards.

    One that did not wake in time may be taken out.

    :raises climate_core.exceptions.HostChanging: it does
    """
    if host.power is not None and not has_not_woken(host):
        raise exceptions.HostChanging(
            f'Host {host.hypervisor_hostname} is {host.power_state}. Keep it on first with '
            f'"openstack lease host set {host.hypervisor_hostname} --keep-on", and wait until it '
            'is awake.'
        )


def has_not_woken(host: Host) -> bool:
    """Tell whether a host did not wake in time, also one that is being taken out since then."""
    return host.power is PowerState.WAKING and (host.failed or host.is_leaving)


def check_extra(extra: Mapping[str, Any]) -> None:
    """Refuse extra properties whose names are no names, or those of something else.

    :raises climate_core.exceptions.BadRequest: naming the field
    """
    unit_properties.check_extra_names(extra, OWN_FIELDS, 'comes from Nova or Placement')
