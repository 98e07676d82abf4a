# SPDX-License-Identifier: Apache-2.0
"""Reach the lease service from nova.

Requests carry the user's token, so that the lease is the user's, and nova's service token if
``[service_user] send_service_user_token`` is on, so that a token that expires during the request
stays valid.
"""

from typing import Any

import nova.conf
from nova import service_auth

from climate_common import resource_types
from climateclient.extension import leases, options

RESOURCE_TYPE = resource_types.SERVER


def service(context: Any) -> leases.LeaseService:
    """Return a client of the lease service with the rights of a user.

    :param context: nova's RequestContext of the user
    :raises climateclient.extension.errors.LeaseUnavailable: it is not known where it is
    """
    adapter = leases.adapter(
        nova.conf.CONF,
        session=service_auth.get_service_auth_session(options.GROUP),
        auth=service_auth.get_service_user_token_auth_plugin(context),
        service_auth=service_auth.get_service_auth_plugin(
            nova.conf.service_token.SERVICE_USER_GROUP
        ),
        global_request_id=context.global_id,
    )
    return leases.LeaseService(adapter, RESOURCE_TYPE, context.user_id)
