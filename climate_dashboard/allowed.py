# SPDX-License-Identifier: Apache-2.0
"""Show pages only to those who may do what they are for."""

from typing import Any, ClassVar

from django.utils.translation import gettext_lazy as _
from horizon import exceptions
from openstack_dashboard import policy

from climateclient.client import SERVICE_TYPE


class AllowedMixin:
    """Views for which the policy of the lease service has a rule."""

    rule: ClassVar[str]

    def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        if not policy.check(((SERVICE_TYPE, self.rule),), request):
            raise exceptions.NotAuthorized(_('Your roles do not allow this.'))
        return super().dispatch(request, *args, **kwargs)  # type: ignore[misc]
