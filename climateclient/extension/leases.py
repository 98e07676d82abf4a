# SPDX-License-Identifier: Apache-2.0
"""The calls of the lease service by a service whose resources it reserves."""

import contextlib
import datetime
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from keystoneauth1 import adapter as ks_adapter
from keystoneauth1 import exceptions as ks_exceptions
from keystoneauth1 import loading, service_token
from oslo_config import cfg

from climateclient import client, exceptions, models
from climateclient.extension import hints, options
from climateclient.extension.errors import LeaseRefused, LeaseUnavailable

LOG = logging.getLogger(__name__)

#: Statuses of a lease that a resource can join.
JOINABLE = ('PENDING', 'STARTING', 'ACTIVE', 'ERROR')
#: Responses after which a request is sent again; every call here may be repeated.
_RETRY_STATUSES = (502, 503, 504)


class LeaseService:
    """The calls of an extension, all idempotent: the extension chooses the ids.

    :param adapter: sends the user's token, and the token of the service
    :param resource_type: the type of the resources of the service
    :param user_id: of the user's token
    """

    def __init__(
        self, adapter: ks_adapter.Adapter, resource_type: str, user_id: str | None
    ) -> None:
        self._leases = client.Client(adapter).leases
        self._type = resource_type
        self._user_id = user_id
        self._as_service = isinstance(adapter.auth, service_token.ServiceTokenAuthWrapper)

    def reserve(
        self, wanted: hints.ReservationHints, resource_id: str, amounts: Mapping[str, int]
    ) -> None:
        """Add a resource to its lease, which is created if it is new.

        :param amounts: what the resource holds, by the units of
            :mod:`climate_common.resource_types`. The lease service accepts them with a service
            token only. Without one it reads the resource: then the caller must not hold a thread
            that this request needs
        :raises LeaseRefused: the lease service refused it
        :raises LeaseUnavailable: it did not answer; it may have done it nevertheless
        """
        item: dict[str, Any] = {'resource_type': self._type, 'resource_id': resource_id}
        if wanted.on_end:
            item['on_end'] = wanted.on_end
        if wanted.join and wanted.stack_id:
            item['stack_id'] = wanted.stack_id
        if wanted.join and wanted.made_for:
            item['made_for'] = wanted.made_for
        with _errors():
            if not self._as_service:
                self._send(wanted, item)
                return
            try:
                self._send(wanted, {**item, 'amounts': dict(amounts)})
            except exceptions.BadRequest as error:
                if (error.field or '').rpartition('.')[2] != 'amounts':
                    raise
                # An older lease service, or a service user without the role service.
                LOG.warning(
                    'The lease service does not accept the amounts of %s: %s', resource_id, error
                )
                self._send(wanted, item)

    def _send(self, wanted: hints.ReservationHints, item: Mapping[str, Any]) -> None:
        if wanted.join:
            self._leases.add_reservation(wanted.lease_id, **item)
            return
        lease = wanted.lease
        self._leases.create(
            lease['name'],
            lease['end_date'],
            lease['start_date'],
            reservations=[item],
            events=lease['events'],
            before_end=lease.get('before_end_date'),
            before_start=lease.get('before_start'),
            start_policy=lease.get('start_policy'),
            id=wanted.lease_id,
        )

    def get(self, lease_id: str) -> models.Lease:
        """Read a lease of the user's project.

        :raises LeaseRefused: there is none
        :raises LeaseUnavailable: the lease service does not answer
        """
        with _errors():
            return self._leases.get(lease_id)

    def check(self, wanted: hints.ReservationHints) -> models.Lease | None:
        """Check the lease of the hints before anything is built.

        :returns: the existing lease: to join, or created by the same hints before; None for a
            new one
        :raises climateclient.extension.errors.BadHint: it cannot be joined, or the id of the new
            lease is that of another; the same request may be repeated
        :raises LeaseUnavailable: the lease service does not answer
        """
        if wanted.join:
            return self._joined(wanted.lease_id)
        if wanted.id_given:
            return self._created_before(wanted)
        return None

    def _joined(self, lease_id: str) -> models.Lease:
        try:
            lease = self.get(lease_id)
        except LeaseRefused as error:
            raise hints.BadHint(hints.LEASE_ID, str(error)) from error
        if lease.status not in JOINABLE:
            raise hints.BadHint(
                hints.LEASE_ID,
                f'must be a lease that can be joined, not one that is {lease.status}',
            )
        if lease.user_id not in (None, self._user_id):
            # With the rights of that user the lease service would wake the resource.
            raise hints.BadHint(
                hints.LEASE_ID, 'must be a lease of yours, not one of another user of the project'
            )
        return lease

    def _created_before(self, wanted: hints.ReservationHints) -> models.Lease | None:
        try:
            lease = self.get(wanted.lease_id)
        except LeaseRefused:
            # It does not exist, or is another project's: the create will show.
            return None
        # What the lease service compares (climate_core/lease/request.py, same).
        dates = [models.time_of(wanted.lease[key]) for key in ('start_date', 'end_date')]
        same = lease.name == wanted.lease['name'] and dates == [lease.start_date, lease.end_date]
        if lease.status not in JOINABLE or not same:
            raise hints.BadHint(
                f'{hints.LEASE_PARAMS}.id',
                f'must be a new id: there is a lease with this one; to join it, give '
                f'{hints.LEASE_ID} instead',
            )
        return lease


def check_hints(
    given: Mapping[str, Any],
    rules: hints.HintRules,
    service: Callable[[], LeaseService],
    check: Callable[[], None] = lambda: None,
) -> tuple[dict[str, Any], hints.ReservationHints | None, models.Lease | None]:
    """Check the hints of a new resource, and the lease that they name, before anything is built.

    :param service: connects to the lease service; called only if they name a lease
    :param check: called before that if they ask for a reservation
    :returns: the hints as later steps read them; their reservation, None without one; its lease,
        None for a new one
    :raises climateclient.extension.errors.BadHint: a hint is wrong, or see
        :meth:`LeaseService.check`
    :raises LeaseUnavailable: the lease service does not answer
    """
    now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    others = {name: value for name, value in given.items() if name not in hints.NAMES}
    wanted = hints.parse(given, now, rules)
    if wanted is None:
        return others, None, None
    check()
    lease = service().check(wanted) if wanted.join or wanted.id_given else None
    return others | wanted.as_hints(), wanted, lease


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
        # The message for users must not have its URL.
        LOG.warning('The lease service does not answer: %s', error)
        raise LeaseUnavailable('The lease service does not answer. Try again later.') from error


def adapter(
    conf: cfg.ConfigOpts, session: Any, auth: Any, service_auth: Any, global_request_id: str | None
) -> ks_adapter.Adapter:
    """Make the adapter for the lease service from the section ``[climate]`` of a service.

    :param session: with the certificates and the timeout of that section
    :param auth: the user's token together with the service's own
    :param service_auth: the service's own credentials, whose catalog has the endpoint of the lease
        service; None if there are none
    :raises LeaseUnavailable: the endpoint of the lease service is not known
    """
    return loading.load_adapter_from_conf_options(
        conf,
        options.GROUP,
        session=session,
        auth=auth,
        endpoint_override=_endpoint(conf, session, service_auth),
        global_request_id=global_request_id,
        retriable_status_codes=_RETRY_STATUSES,
    )


def _endpoint(conf: cfg.ConfigOpts, session: Any, auth: Any) -> str:
    """Return the endpoint: as configured, or from the catalog of the service user.

    The user's catalog, as nova and cinder keep it, has only the services that they call
    themselves (nova/context.py, cinder/context.py).
    """
    section = conf[options.GROUP]
    if section.endpoint_override:
        return str(section.endpoint_override)
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
            LOG.warning('The lease service cannot be looked up: %s', error)
            raise LeaseUnavailable(
                'The lease service cannot be looked up. Try again later.'
            ) from error
    if not url:
        raise LeaseUnavailable(
            'The lease service is not known: set [climate] endpoint_override, or register it in '
            'Keystone and set [service_user]'
        )
    return str(url)
