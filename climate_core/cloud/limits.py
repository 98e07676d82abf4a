# SPDX-License-Identifier: Apache-2.0
"""The limits of projects, and the external service that permits the creation of leases.

The limits are those registered in Keystone, read through oslo.limit, and the options.

oslo.limit 2.12 (``oslo_limit/limit.py``) reads two of its globals when it creates an ``Enforcer``:
the configuration, and one connection for the whole process. Both are replaced for that moment,
under a lock, so every service of a process has its own.

Its enforcers send another request for every name without a limit of the project. For all names
together they send two: for the limits of the project, and for the default limits. These took a
third of the time of a create, so the limits are cached for a short time.
"""

import contextlib
import datetime
import http
import threading
from collections.abc import Iterator, Mapping
from typing import Any, Final

import requests
from keystoneauth1 import exceptions as ksa
from keystoneauth1 import loading
from oslo_config import cfg
from oslo_log import log

from climate_common import resource_types
from climate_core import exceptions
from climate_core.cloud import errors
from climate_core.cloud.connections import Cloud
from climate_core.cloud.services import Service
from climate_core.concurrency import RecentCache
from climate_core.conf import cloud as cloud_conf
from climate_core.conf import limits as limits_conf
from climate_core.db.project_limits import NAMES, UNLIMITED
from climate_core.lease import model, views

LOG = log.getLogger(__name__)

#: Seconds for which a lowered limit may still have its old value.
RECENT_SECONDS: Final = 10.0

#: Number of seconds until a newly registered limit may be used, if none was registered before.
REGISTERED_SECONDS: Final = 300.0

_KEYSTONE = Service('Keystone', 'identity', '3')
_ROWS = 'registered_limits'
_PATH = f'/{_ROWS}'
_lock = threading.Lock()


class Limits:
    """The limits of projects. Nothing is sent before the first use.

    :param conf: with the sections ``[limits]``, ``[oslo_limit]`` and ``[cloud]``
    :param cloud: gives the connection of the service user
    """

    def __init__(self, conf: cfg.ConfigOpts, cloud: Cloud) -> None:
        self._conf = conf
        self._cloud = cloud
        self._enforcer: Any = None
        size = conf.cloud.owner_cache_size
        self._recent: RecentCache[dict[str, int]] = RecentCache(size, RECENT_SECONDS)
        self._registered: RecentCache[bool] = RecentCache(1, REGISTERED_SECONDS)

    @property
    def is_on(self) -> bool:
        """Return whether projects may have limits."""
        return str(self._conf.limits.driver) != 'none'

    def read_limits(self, project_id: str) -> Mapping[str, int] | None:
        """Return the limits of a project by name, where -1 is unlimited; None: no limits.

        :raises climate_core.exceptions.ServiceUnavailable: Keystone does not answer, or the
            configuration of the limits is invalid
        """
        if not self.is_on:
            return None
        if not self._has_registered():
            return self._configured()
        with _translated():
            enforcer = self._enforcer = self._enforcer or self._create_enforcer()
            registered: dict[str, int] = dict(enforcer.get_registered_limits(None))
            registered |= dict(enforcer.get_project_limits(project_id, None))
        project_limits = self._options() | {
            name: int(registered[name]) for name in NAMES if name in registered
        }
        self._recent.put(project_id, project_limits)
        return project_limits

    def recent(self, project_id: str) -> Mapping[str, int] | None:
        """Return the limits of a project, at most :data:`RECENT_SECONDS` old.

        Call :meth:`read_limits` before a lease is rejected for them.

        :raises climate_core.exceptions.ServiceUnavailable: as of :meth:`read_limits`
        """
        return self._recent.find(project_id) or self.read_limits(project_id)

    def _options(self) -> dict[str, int]:
        return {name: self._conf.limits[name] for name in NAMES}

    def _configured(self) -> dict[str, int] | None:
        options = self._options()
        return options if set(options.values()) != {UNLIMITED} else None

    def _has_registered(self) -> bool:
        """Return whether oslo.limit has limits for Climate.

        It has if an identity is configured in ``[oslo_limit]``. Otherwise one request checks
        whether any limit of Climate is registered, and the answer is cached for
        :data:`REGISTERED_SECONDS`. Any user may list the registered limits, but only some may list
        the endpoints, which oslo.limit requests.
        """
        if self._conf.limits.driver != 'keystone':
            return False
        if _has_identity(self._conf[cloud_conf.OSLO_LIMIT_GROUP]):
            return True
        if not _has_identity(self._conf[cloud_conf.GROUP]):
            return False
        return self._registered.get('', self._list_registered)

    def _list_registered(self) -> bool:
        try:
            rows = list(_KEYSTONE.read(self._cloud.service(), _PATH, _ROWS))
        except (errors.Gone, exceptions.Permanent) as exc:
            LOG.warning('Registered limits are not readable, [limits] applies instead: %s', exc)
            return False
        except exceptions.Transient as exc:
            raise _unavailable(exc) from exc
        return any(row.get('resource_name') in NAMES for row in rows)

    def _create_enforcer(self) -> Any:
        # The library registers options on the global configuration when it is imported.
        from oslo_limit import limit

        with _lock, _replaced_globals(limit, self._conf):
            return limit.Enforcer(_count_nothing, cache=False)


def _count_nothing(_project_id: str | None, _names: Any) -> dict[str, int]:
    """Raise: only limits are read from oslo.limit, and the transaction of the lease counts."""
    raise NotImplementedError


@contextlib.contextmanager
def _replaced_globals(limit: Any, conf: cfg.ConfigOpts) -> Iterator[None]:
    section = conf[cloud_conf.OSLO_LIMIT_GROUP]
    if not _has_identity(section):
        conf.set_default('auth_section', cloud_conf.GROUP, cloud_conf.OSLO_LIMIT_GROUP)
        # auth_section is about the identity, not about the CA certificates of its Keystone.
        for option in loading.get_session_conf_options():
            conf.set_default(option.dest, conf.cloud[option.dest], cloud_conf.OSLO_LIMIT_GROUP)
    before = limit.CONF, limit._SDK_CONNECTION
    limit.CONF, limit._SDK_CONNECTION = conf, None
    try:
        yield
    finally:
        limit.CONF, limit._SDK_CONNECTION = before


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    """Turn failures to reach Keystone, and invalid configurations, into a 503."""
    # Imported here, as in _create_enforcer: nothing else imports openstacksdk, which takes 11 MiB.
    from openstack import exceptions as sdk
    from oslo_limit import exception

    try:
        yield
    except (ksa.ClientException, sdk.SDKException, exception.SessionInitError, ValueError) as exc:
        raise _unavailable(exc) from exc


def _unavailable(exc: Exception) -> exceptions.ServiceUnavailable:
    LOG.error('The limits of Keystone cannot be read, see [oslo_limit]: %s', exc)
    return exceptions.ServiceUnavailable(
        'The limits of the project cannot be read now. Try again.'
    )


def _has_identity(section: Any) -> bool:
    return section.auth_type is not None or section.auth_section is not None


_EXTERNAL_PATHS = {
    'check_create': 'check-create',
    'check_update': 'check-update',
    'on_end': 'on-end',
}
_EXTERNAL: Final = 'The external service that checks leases'


class ExternalService:
    """The external service of the operator that permits leases, if one is configured.

    The same service works with Blazar: paths, bodies and answers are those of its
    ``ExternalServiceFilter`` (openstack/blazar, blazar/enforcement). Requests are POSTs with JSON:
    ``context``, ``lease``, and for a change ``current_lease``. 204 permits; 403 with
    ``{"message": "..."}`` rejects; any other answer is an error. Dates are UTC,
    ``YYYY-MM-DD HH:MM:SS``.

    :param conf: with the sections ``[limits]`` and ``[cloud]``
    :param cloud: gives a token of the service user, if one is sent, and the URL of Keystone
    """

    def __init__(self, conf: cfg.ConfigOpts, cloud: Cloud) -> None:
        self._conf = conf
        self._cloud = cloud

    @property
    def on_create(self) -> bool:
        """Return whether the service checks new leases."""
        return self._url('check_create') is not None

    @property
    def on_update(self) -> bool:
        """Return whether the service checks changes."""
        return self._url('check_update') is not None

    @property
    def on_end(self) -> bool:
        """Return whether the service is notified of ended leases."""
        return self._url('on_end') is not None

    def check_create(self, lease: model.Lease) -> None:
        """Check that the service permits a new lease.

        :raises climate_core.exceptions.LeaseNotPermitted: with the message of the service
        :raises climate_core.exceptions.ServiceUnavailable: the service does not answer, or its
            answer is invalid
        """
        self._check('check_create', {'context': self._context(lease), 'lease': to_body(lease)})

    def check_update(self, before: model.Lease, after: model.Lease) -> None:
        """Check that the service permits a change; raise as :meth:`check_create` does."""
        body = {
            'context': self._context(before),
            'current_lease': to_body(before),
            'lease': to_body(after),
        }
        self._check('check_update', body)

    def notify_end(self, lease: model.Lease) -> None:
        """Notify the service that a lease has ended, at least once.

        :raises climate_core.exceptions.Transient: another attempt may succeed
        :raises climate_core.exceptions.Permanent: the service rejects the notification
        """
        url = self._url('on_end')
        if url is None:
            return
        try:
            response = self._post(url, {'context': self._context(lease), 'lease': to_body(lease)})
        except exceptions.ServiceUnavailable as exc:
            raise exceptions.Transient(str(exc)) from exc
        try:
            errors.check_response(response, _EXTERNAL)
        except errors.Gone as exc:
            raise exceptions.Permanent(str(exc)) from exc
        if response.status_code >= http.HTTPStatus.MULTIPLE_CHOICES:
            raise exceptions.Transient(
                f'{_EXTERNAL} answered {response.status_code}, not 204 or 403.'
            )

    def _check(self, question: str, body: dict[str, Any]) -> None:
        url = self._url(question)
        if url is None:
            return
        response = self._post(url, body)
        if response.status_code == http.HTTPStatus.NO_CONTENT:
            return
        message = None
        if response.status_code == http.HTTPStatus.FORBIDDEN:
            with contextlib.suppress(ValueError, LookupError, TypeError):
                message = errors.redact(str(response.json()['message']))[:1000]
        if message is None:
            LOG.error('%s answered %s, not 204 or 403 with a message', url, response.status_code)
            raise exceptions.ServiceUnavailable(f'{_EXTERNAL} gave an invalid answer.')
        raise exceptions.LeaseNotPermitted(message)

    def _post(self, url: str, body: dict[str, Any]) -> requests.Response:
        section = self._conf[limits_conf.GROUP]
        token = section.external_token
        if not token and section.external_keystone_token:
            with errors.for_user():
                token = self._cloud.service_token()
        try:
            return requests.post(
                url,
                json=body,
                headers={'X-Auth-Token': token} if token else {},
                timeout=section.external_timeout,
                allow_redirects=False,
            )
        except requests.RequestException as exc:
            LOG.error('%s cannot be reached: %s', url, exc)
            raise exceptions.ServiceUnavailable(
                f'{_EXTERNAL} does not answer. Try again.'
            ) from exc

    def _url(self, question: str) -> str | None:
        section = self._conf[limits_conf.GROUP]
        own = section[f'external_{question}']
        if own or not section.external_endpoint:
            return str(own) if own else None
        return f'{section.external_endpoint.rstrip("/")}/{_EXTERNAL_PATHS[question]}'

    def _context(self, lease: model.Lease) -> dict[str, Any]:
        with errors.for_user():
            auth_url = self._cloud.auth_url()
        return {
            'user_id': lease.user_id,
            'project_id': lease.project_id,
            'auth_url': auth_url,
            'region_name': self._conf.cloud.region_name,
        }


def to_body(lease: model.Lease) -> dict[str, Any]:
    """Return a lease in the format of the external service."""
    return {
        'id': lease.id,
        'name': lease.name,
        'user_id': lease.user_id,
        'project_id': lease.project_id,
        'start_date': _format_date(lease.start_date),
        'end_date': _format_date(lease.end_date),
        'reservations': [_reservation_body(reservation) for reservation in lease.reservations],
    }


def _reservation_body(reservation: model.Reservation) -> dict[str, Any]:
    allocation = {'id': reservation.resource_id, **reservation.amounts}
    return {
        **views.visible_params(reservation),
        'id': reservation.id,
        'resource_type': resource_types.api_name(reservation.resource_type),
        'resource_id': reservation.resource_id,
        'amounts': dict(reservation.amounts),
        'allocations': [allocation] if reservation.live else [],
    }


def _format_date(time: datetime.datetime) -> str:
    return time.astimezone(datetime.UTC).strftime('%Y-%m-%d %H:%M:%S')
