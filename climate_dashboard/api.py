# SPDX-License-Identifier: Apache-2.0
"""Reach the lease service with the rights of the user who is logged in."""

import logging
from typing import Any, Final

from django.conf import settings
from django.utils.translation import gettext as _
from keystoneauth1 import session, token_endpoint
from openstack_dashboard.api import base

from climateclient import exceptions
from climateclient.client import SERVICE_TYPE, Client

LOG = logging.getLogger(__name__)

#: The permission of a panel that is shown only where the catalogue has the lease service.
PERMISSION: Final = f'openstack.services.{SERVICE_TYPE}'
#: Seconds until an answer of the lease service is given up.
_TIMEOUT: Final = 60


def client(request: Any) -> Client:
    """Return a client of the lease service, which asks Keystone for nothing.

    :param request: of a user who is logged in
    """
    endpoint = base.url_for(request, SERVICE_TYPE)
    auth = token_endpoint.Token(endpoint, request.user.token.id)
    verify = not settings.OPENSTACK_SSL_NO_VERIFY and (settings.OPENSTACK_SSL_CACERT or True)
    return Client(session.Session(auth=auth, verify=verify, timeout=_TIMEOUT))


def error_text(error: Exception) -> str:
    """Return what an error says to a user: the message of the service, and the field it blames."""
    if isinstance(error, exceptions.ApiError):
        return exceptions.blame(error.field, error.message)
    if type(error).__module__ == exceptions.__name__:
        return str(error)
    # Those of keystoneauth have the URL of the service.
    LOG.warning('The lease service cannot be asked: %s', error)
    return _('The lease service does not answer. Try again later.')
