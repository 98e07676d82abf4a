# SPDX-License-Identifier: Apache-2.0
"""The client ``climate`` of heat's resources: requests of heat-engine to the lease service.

Requests carry the token of the stack's owner, so that the owner's project gets the lease. With
``[service_user]`` they also carry the token of heat's service user: then the owner's token may
expire during the request, and the lease service, nova and cinder know that heat sends it.
"""

import functools
import logging
from typing import Any

from heat.common import exception
from heat.engine.clients import client_plugin
from keystoneauth1 import exceptions as ks_exceptions
from keystoneauth1 import loading, service_token
from keystoneauth1 import session as ks_session
from oslo_config import cfg

from climateclient import client, exceptions, models
from heat_ext.service import conf

LOG = logging.getLogger(__name__)

CLIENT_NAME = 'climate'
_AWAY = 'The lease service does not answer. Try again later.'
#: Answers after which a request is repeated; all requests of heat are idempotent.
_RETRY_STATUSES = (502, 503, 504)


@functools.cache
def service_auth() -> Any:
    """Return the credentials of heat's service user, which cache their token; None without any."""
    conf.register(cfg.CONF)
    return loading.load_auth_from_conf_options(cfg.CONF, conf.SERVICE_GROUP)


def make_auth(context: Any) -> Any:
    """Return the credentials of a request: the user's, together with heat's service user's.

    :param context: heat's RequestContext of the stack's owner
    :returns: a keystoneauth plugin. Requests to nova and cinder use it too: their policies of
        wake_up require both tokens
    """
    service = service_auth()
    if service is None:
        return context.auth_plugin
    return service_token.ServiceTokenAuthWrapper(
        user_auth=context.auth_plugin, service_auth=service
    )


class Session(ks_session.Session):
    """Sends requests, of which errors have no URL: heat shows them to the owner of a stack."""

    def request(self, *args: Any, **kwargs: Any) -> Any:
        """Send a request as keystoneauth does."""
        try:
            return super().request(*args, **kwargs)
        except ks_exceptions.HttpError:
            raise
        except ks_exceptions.ClientException as error:
            LOG.warning('The lease service does not answer: %s', error)
            # The class decides what its callers do.
            error.message = _AWAY
            error.args = (_AWAY,)
            raise


class _SessionLoader(loading.session.Session):
    @property
    def plugin_class(self) -> type[ks_session.Session]:
        return Session


class ClimateClientPlugin(client_plugin.ClientPlugin):
    """Creates clients of the lease service, and classifies their errors."""

    exceptions_module = exceptions
    service_types = [RESERVATION] = ['reservation']

    def _create(self, version: str | None = None) -> client.Client:  # noqa: ARG002
        conf.register(cfg.CONF)
        section = cfg.CONF[conf.GROUP]
        adapter = loading.load_adapter_from_conf_options(
            cfg.CONF,
            conf.GROUP,
            session=self._session(section),
            auth=make_auth(self.context),
            region_name=section.region_name or self._get_region_name(),
            global_request_id=self.context.global_id,
            retriable_status_codes=_RETRY_STATUSES,
        )
        return client.Client(adapter)

    def _session(self, section: Any) -> ks_session.Session:
        """Return a session with the timeout of ``[climate]``; heat's own has no timeout.

        The certificates are heat's, unless that section sets its own.
        """
        session = _SessionLoader().load_from_conf_options(cfg.CONF, conf.GROUP)
        if not (section.cafile or section.insecure):
            session.verify = self.context.keystone_session.verify
        if not section.certfile:
            session.cert = self.context.keystone_session.cert
        return session

    def is_not_found(self, ex: Exception) -> bool:
        """Return whether an error says that the project has no such lease."""
        return isinstance(ex, exceptions.NotFound)

    def is_conflict(self, ex: Exception) -> bool:
        """Return whether an error says that the status of the lease forbids the request."""
        return isinstance(ex, exceptions.Conflict)

    def is_over_limit(self, ex: Exception) -> bool:
        """Return whether an error says that a limit of the project is exceeded."""
        return isinstance(ex, exceptions.Forbidden) and ex.code == 'limits.exceeded'

    def get_lease(self, lease_id: str) -> models.Lease:
        """Return a lease, for the constraint ``climate.lease``.

        :raises heat.common.exception.EntityNotFound: the project has no such lease
        """
        try:
            return self.client().leases.get(lease_id)
        except exceptions.NotFound:
            raise exception.EntityNotFound(entity='Lease', name=lease_id)
