# SPDX-License-Identifier: Apache-2.0
"""The lease service, seen from nova.

Requests carry the user's token, so that the lease is the user's, and nova's service token if
``[service_user] send_service_user_token`` is on, so that a token that runs out meanwhile is
still good.
"""

from typing import Any

import nova.conf
from nova import service_auth

from climate_common import resource_types
from climateclient.extension import leases, options

RESOURCE_TYPE = resource_types.SERVER


def service(context: Any) -> leases.LeaseService:
    """Make the lease service as a user sees it.

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
    return leases.LeaseService(adapter, RESOURCE_TYPE)
