# SPDX-License-Identifier: Apache-2.0
"""The external service of the operator that permits the creation and the changes of leases."""

import contextlib
import datetime
import http
from typing import Any, Final

import requests
from oslo_config import cfg
from oslo_log import log

from climate_common import resource_types
from climate_core import exceptions
from climate_core.cloud import errors
from climate_core.cloud.connections import Cloud
from climate_core.conf import limits as limits_conf
from climate_core.lease import model, views

LOG = log.getLogger(__name__)

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
