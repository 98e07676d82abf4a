# SPDX-License-Identifier: Apache-2.0
"""Read the lease that a page is about."""

import functools
from typing import Any, ClassVar, Final

from django import urls
from django.utils.translation import gettext_lazy as _
from horizon import exceptions

from climate_dashboard import api
from climateclient.models import Lease

#: The list of leases.
INDEX: Final = 'horizon:project:climate_leases:index'


class LeaseMixin:
    """Views of one lease; where it cannot be read the list is shown, and why.

    :cvar refusal: says so, with a place for the reason
    """

    refusal: ClassVar[Any] = _('The lease cannot be shown: %s')
    request: Any
    kwargs: dict[str, Any]

    @functools.cached_property
    def lease(self) -> Lease:
        """Return the lease whose id is in the address."""
        try:
            return api.client(self.request).leases.get(self.kwargs['lease_id'])
        except Exception as error:
            text = self.refusal % api.error_text(error)
            exceptions.handle(self.request, text, redirect=urls.reverse(INDEX))
            raise
