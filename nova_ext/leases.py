# SPDX-License-Identifier: Apache-2.0
"""The lease service, seen from nova.

Requests carry the user's token, so that the lease is the user's, and nova's service token if
``[service_user] send_service_user_token`` is on, so that a token that runs out meanwhile is
still good.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import nova.conf
from keystoneauth1 import exceptions as ks_exceptions
from keystoneauth1 import loading
from nova import service_auth

from climateclient import client, exceptions, models
from nova_ext import conf, hints
from nova_ext.errors import LeaseRefused, LeaseUnavailable

RESOURCE_TYPE = 'virtual:instance'
#: Answers that say nothing about the request; every call here may be sent again.
_TRY_AGAIN = (502, 503, 504)


class LeaseService:
    """The calls that nova makes. All are idempotent: a lease and a reserved server are known
    by ids that nova chooses.

    :param context: nova's RequestContext of the user
    """

    def __init__(self, context: Any) -> None:
        session = service_auth.get_service_auth_session(conf.GROUP)
        adapter = loading.load_adapter_from_conf_options(
            nova.conf.CONF,
            conf.GROUP,
            session=session,
            auth=service_auth.get_service_user_token_auth_plugin(context),
            endpoint_override=_endpoint(session),
            global_request_id=context.global_id,
            retriable_status_codes=_TRY_AGAIN,
        )
        self._leases = client.Client(adapter).leases

    def reserve(self, wanted: hints.Wanted, server_id: str) -> None:
        """Put a server into its lease, which is made if it is new.

        :raises LeaseRefused: the service says no
        :raises LeaseUnavailable: it could not be asked; it may have done it nevertheless
        """
        on_end = {'on_end': wanted.on_end} if wanted.on_end else {}
        with _errors():
            if wanted.join:
                self._leases.add_reservation(wanted.lease_id, RESOURCE_TYPE, server_id, **on_end)
                return
            server = {'resource_type': RESOURCE_TYPE, 'resource_id': server_id, **on_end}
            lease = wanted.lease
            self._leases.create(
                lease['name'],
                lease['end_date'],
                lease['start_date'],
                reservations=[server],
                events=lease['events'],
                before_end=lease.get('before_end_date'),
                before_start=lease.get('before_start'),
                start_policy=lease.get('start_policy'),
                id=wanted.lease_id,
            )

    def get(self, lease_id: str) -> models.Lease:
        """Read a lease of the user's project.

        :raises LeaseRefused: there is none
        :raises LeaseUnavailable: the service could not be asked
        """
        with _errors():
            return self._leases.get(lease_id)


@contextlib.contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except exceptions.ApiError as error:
        if error.http_status >= 500:
            raise LeaseUnavailable(
                f'The lease service answers {error.http_status}: {error.message}'
            ) from error
        raise LeaseRefused(error.message, error.http_status) from error
    except ks_exceptions.ClientException as error:
        raise LeaseUnavailable(f'The lease service does not answer: {error}') from error


def _endpoint(session: Any) -> str:
    """Find the service: as configured, or in the catalogue of nova's service user.

    The user's catalogue does not have it: nova keeps only the services that nova itself uses
    (nova/context.py).
    """
    section = nova.conf.CONF[conf.GROUP]
    if section.endpoint_override:
        return section.endpoint_override
    auth = service_auth.get_service_auth_plugin(nova.conf.service_token.SERVICE_USER_GROUP)
    url = None
    if auth is not None:
        try:
            url = session.get_endpoint(
                auth,
                service_type=section.service_type,
                service_name=section.service_name,
                interface=section.valid_interfaces,
                region_name=section.region_name,
            )
        except ks_exceptions.ClientException as error:
            raise LeaseUnavailable(f'The lease service cannot be looked up: {error}') from error
    if not url:
        raise LeaseUnavailable(
            'The lease service is not known: set [climate] endpoint_override, or register it in '
            'Keystone and set [service_user]'
        )
    return url
