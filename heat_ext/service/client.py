# SPDX-License-Identifier: Apache-2.0
"""The lease service, seen from heat-engine: the client ``climate`` of heat's resources.

Requests carry the token of the stack's owner, so that the lease is his, and the one of heat's
service user if ``[service_user]`` is filled in: a token that runs out meanwhile is then still
good, and the lease service, Nova and Cinder know who asks for him.
"""

import functools
from typing import Any

from heat.common import exception
from heat.engine.clients import client_plugin
from keystoneauth1 import loading, service_token
from keystoneauth1 import session as ks_session
from oslo_config import cfg

from climateclient import client, exceptions, models
from heat_ext.service import conf

CLIENT_NAME = 'climate'
#: Answers that say nothing about the request; every call that heat makes may be sent again.
_TRY_AGAIN = (502, 503, 504)


@functools.cache
def service_auth() -> Any:
    """Give the credentials of heat's service user, which keep their token; None without them."""
    conf.register(cfg.CONF)
    return loading.load_auth_from_conf_options(cfg.CONF, conf.SERVICE_GROUP)


def both_tokens(context: Any) -> Any:
    """Give the credentials of a request: those of its user, and of heat's service user.

    :param context: heat's RequestContext of the stack's owner
    :returns: a keystoneauth plugin; for Nova and Cinder too, which let nobody wake up a resource
        without both tokens
    """
    service = service_auth()
    if service is None:
        return context.auth_plugin
    return service_token.ServiceTokenAuthWrapper(
        user_auth=context.auth_plugin, service_auth=service
    )


class ClimateClientPlugin(client_plugin.ClientPlugin):
    """Makes clients of the lease service, and knows their errors."""

    exceptions_module = exceptions
    service_types = [RESERVATION] = ['reservation']

    def _create(self, version: str | None = None) -> client.Client:  # noqa: ARG002
        conf.register(cfg.CONF)
        section = cfg.CONF[conf.GROUP]
        adapter = loading.load_adapter_from_conf_options(
            cfg.CONF,
            conf.GROUP,
            session=self._session(section),
            auth=both_tokens(self.context),
            region_name=section.region_name or self._get_region_name(),
            global_request_id=self.context.global_id,
            retriable_status_codes=_TRY_AGAIN,
        )
        return client.Client(adapter)

    def _session(self, section: Any) -> ks_session.Session:
        """Make a session with the timeout of ``[climate]``: heat's own waits for ever.

        The certificates are heat's unless that section has its own.
        """
        session = loading.load_session_from_conf_options(cfg.CONF, conf.GROUP)
        if not (section.cafile or section.insecure):
            session.verify = self.context.keystone_session.verify
        if not section.certfile:
            session.cert = self.context.keystone_session.cert
        return session

    def is_not_found(self, ex: Exception) -> bool:
        """Whether there is no such lease in the project."""
        return isinstance(ex, exceptions.NotFound)

    def is_conflict(self, ex: Exception) -> bool:
        """Whether the lease is in a state that does not allow it."""
        return isinstance(ex, exceptions.Conflict)

    def is_over_limit(self, ex: Exception) -> bool:
        """Whether a limit of the project does not allow it."""
        return isinstance(ex, exceptions.Forbidden) and ex.code == 'limits.exceeded'

    def get_lease(self, lease_id: str) -> models.Lease:
        """Read a lease, for the constraint ``climate.lease``.

        :raises heat.common.exception.EntityNotFound: there is none in the project
        """
        try:
            return self.client().leases.get(lease_id)
        except exceptions.NotFound:
            raise exception.EntityNotFound(entity='Lease', name=lease_id)
