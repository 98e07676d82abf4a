# SPDX-License-Identifier: Apache-2.0
"""Reach the lease service from cinder-api.

Requests carry the user's token, so that the lease is the user's, and cinder's service token if
``[service_user] send_service_user_token`` is on: a token that expires during the request then
stays valid, and the lease service believes that a volume which is ``creating`` is being reserved.
"""

from typing import Any

from cinder import service_auth
from keystoneauth1 import loading
from oslo_config import cfg

from climate_common import resource_types
from climateclient.extension import leases, options

RESOURCE_TYPE = resource_types.VOLUME


def service(context: Any) -> leases.LeaseService:
    """Return a client of the lease service with the rights of a user.

    :param context: cinder's RequestContext of the user
    :raises climateclient.extension.errors.LeaseUnavailable: it is not known where it is
    """
    adapter = leases.adapter(
        cfg.CONF,
        session=loading.load_session_from_conf_options(cfg.CONF, options.GROUP),
        auth=service_auth.get_auth_plugin(context),
        service_auth=service_auth.get_service_auth_plugin(),
        global_request_id=context.global_id,
    )
    return leases.LeaseService(adapter, RESOURCE_TYPE, context.user_id)
