# SPDX-License-Identifier: Apache-2.0
"""The forms of the panel Hosts."""

from typing import Any

from django.utils.translation import gettext_lazy as _
from horizon import forms, messages

from climate_common import limits
from climate_dashboard import api
from climateclient import exceptions


class AddHostForm(forms.SelfHandlingForm):
    """A host that leases shall have."""

    name = forms.CharField(
        label=_('Host'),
        max_length=limits.NAME_LENGTH,
        help_text=_('The hostname of the hypervisor, as Nova lists it'),
    )
    pool = forms.CharField(
        label=_('Pool'),
        max_length=limits.NAME_LENGTH,
        required=False,
        help_text=_('Empty: the usual one'),
    )
    shared = forms.BooleanField(
        label=_('Ordinary servers may run there until a lease needs it'), required=False
    )
    empty = forms.BooleanField(label=_('Move its servers to other hosts first'), required=False)

    def handle(self, request: Any, data: dict[str, Any]) -> bool:
        details = {name: data[name] for name in ('pool', 'shared', 'empty') if data[name]}
        try:
            api.client(request).hosts.create(data['name'], **details)
        except exceptions.ApiError as error:
            self.api_error(api.error_text(error))
            return False
        messages.success(request, _('The host %s was added.') % data['name'])
        return True


class DisableForm(forms.SelfHandlingForm):
    """The reason why a host takes no new leases."""

    reason = forms.CharField(label=_('Reason'), max_length=limits.NAME_LENGTH)

    def __init__(self, request: Any, *args: Any, host_id: str, **kwargs: Any) -> None:
        super().__init__(request, *args, **kwargs)
        self._host_id = host_id

    def handle(self, request: Any, data: dict[str, Any]) -> bool:
        hosts = api.client(request).hosts
        try:
            host = hosts.update(self._host_id, disabled=True, disabled_reason=data['reason'])
        except exceptions.ApiError as error:
            self.api_error(api.error_text(error))
            return False
        text = _('The host %s takes no new leases.')
        messages.success(request, text % host.hypervisor_hostname)
        return True
