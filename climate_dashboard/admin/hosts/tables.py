# SPDX-License-Identifier: Apache-2.0
"""The table of the hosts of the pools, and what can be done with them."""

from typing import Any

from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy
from horizon import tables

from climate_dashboard import amounts, api, words
from climate_dashboard.leases.actions import telling
from climateclient.host_models import Host

_UPDATE = (('reservation', 'climate:hosts:update'),)


class AddHost(tables.LinkAction):
    """Open the form that adds a host to a pool."""

    name = 'add'
    verbose_name = _('Add Host')
    url = 'horizon:admin:climate_hosts:add'
    classes = ('ajax-modal',)
    icon = 'plus'
    policy_rules = (('reservation', 'climate:hosts:create'),)


def _is_disabled(host: Host) -> bool:
    # Shared hosts with ordinary servers are not reservable as those of a pool are.
    return bool(host.disabled_reason) or not (host.reservable or host.shared)


class DisableHost(tables.LinkAction):
    """Open the form that says why a host takes no new leases."""

    name = 'disable'
    verbose_name = _('Maintenance')
    url = 'horizon:admin:climate_hosts:disable'
    classes = ('ajax-modal',)
    policy_rules = _UPDATE

    def allowed(self, request: Any, host: Host | None = None) -> bool:
        return host is not None and not _is_disabled(host)


class EnableHost(tables.BatchAction):
    """Include hosts in allocations again."""

    name = 'enable'
    policy_rules = _UPDATE
    help_text = _('New leases can get the host again.')

    @staticmethod
    def action_present(count: int) -> Any:
        return ngettext_lazy('End Maintenance', 'End Maintenance', count)

    @staticmethod
    def action_past(count: int) -> Any:
        return ngettext_lazy('Ended Maintenance of', 'Ended Maintenance of', count)

    def allowed(self, request: Any, host: Host | None = None) -> bool:
        return host is not None and _is_disabled(host)

    @telling
    def action(self, request: Any, host_id: str) -> None:
        api.client(request).hosts.update(host_id, disabled=False)


class RemoveHost(tables.DeleteAction):
    """Remove hosts from their pools."""

    name = 'remove'
    policy_rules = (('reservation', 'climate:hosts:delete'),)
    help_text = _('Nova can place ordinary servers on the host again.')

    @staticmethod
    def action_present(count: int) -> Any:
        return ngettext_lazy('Remove Host', 'Remove Hosts', count)

    @staticmethod
    def action_past(count: int) -> Any:
        return ngettext_lazy('Removed Host', 'Removed Hosts', count)

    @telling
    def delete(self, request: Any, host_id: str) -> None:
        api.client(request).hosts.delete(host_id)


class KeepOn(tables.BatchAction):
    """Keep Climate from powering hosts off."""

    name = 'keep_on'
    policy_rules = _UPDATE
    help_text = _('Climate never powers the host off, and powers it on if it is off.')

    @staticmethod
    def action_present(count: int) -> Any:
        return ngettext_lazy('Keep On', 'Keep On', count)

    @staticmethod
    def action_past(count: int) -> Any:
        return ngettext_lazy('Keeps On', 'Keeps On', count)

    def allowed(self, request: Any, host: Host | None = None) -> bool:
        return host is not None and not host.kept_on

    @telling
    def action(self, request: Any, host_id: str) -> None:
        api.client(request).hosts.update(host_id, kept_on=True)


class AllowPowerOff(tables.BatchAction):
    """Allow Climate to power hosts off while no lease needs them."""

    name = 'allow_power_off'
    policy_rules = _UPDATE
    help_text = _('Climate may power the host off while no lease needs it.')

    @staticmethod
    def action_present(count: int) -> Any:
        return ngettext_lazy('Allow Power Off', 'Allow Power Off', count)

    @staticmethod
    def action_past(count: int) -> Any:
        return ngettext_lazy('Allowed Power Off of', 'Allowed Power Off of', count)

    def allowed(self, request: Any, host: Host | None = None) -> bool:
        return host is not None and host.kept_on

    @telling
    def action(self, request: Any, host_id: str) -> None:
        api.client(request).hosts.update(host_id, kept_on=False)


class HostsTable(tables.DataTable):
    """The hosts of the pools."""

    host = tables.Column('hypervisor_hostname', verbose_name=_('Host'))
    pool = tables.Column('pool', verbose_name=_('Pool'))
    promises = tables.Column(
        lambda host: _('Yes') if host.reservable else host.disabled_reason or _('No'),
        verbose_name=_('New Leases'),
    )
    state = tables.Column(
        lambda host: ', '.join(filter(None, (host.state, host.status))),
        verbose_name=_('Compute Service'),
    )
    power = tables.Column(lambda host: _power(host), verbose_name=_('Power'))
    vcpus = tables.Column('vcpus', verbose_name=_('VCPUs'))
    memory_mb = tables.Column(
        lambda host: amounts.show('memory_mb', host.memory_mb), verbose_name=_('Memory')
    )
    shared = tables.Column(
        lambda host: _('Yes') if host.shared else _('No'), verbose_name=_('Shared')
    )
    zone = tables.Column('availability_zone', verbose_name=_('Availability Zone'))

    class Meta:
        name = 'hosts'
        verbose_name = _('Hosts')
        no_data_message = _(
            'No host is in a pool. Add a host with Add Host: leases can reserve it.'
        )
        table_actions = (AddHost, RemoveHost)
        row_actions = (DisableHost, EnableHost, KeepOn, AllowPowerOff, RemoveHost)

    def get_object_display(self, host: Host) -> str:
        return host.hypervisor_hostname


def _power(host: Host) -> str:
    power = words.word(words.POWERS, host.power)
    return str(_('%s, kept on') % power) if host.kept_on else power
