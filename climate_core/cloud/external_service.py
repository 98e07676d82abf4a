# SPDX-License-Identifier: Apache-2.0
"""The external service of the operator that permits the creation and the changes of leases."""

import collections
import datetime
import http
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import requests
from oslo_config import cfg
from oslo_log import log

from climate_common import resource_types, words
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
#: Maximum bytes of an answer that are read, and characters of a message that users see.
_ANSWER_BYTES: Final = 65_536
_MESSAGE_LENGTH: Final = 1000
_RESOURCE_CLASSES: Final = {
    resource_types.VCPUS: 'VCPU',
    resource_types.MEMORY_MB: 'MEMORY_MB',
    resource_types.DISK_GB: 'DISK_GB',
}
#: What an allocation shows of its unit.
_UNIT_FIELDS: Final = ('hypervisor_hostname', 'vcpus', 'memory_mb', 'local_gb', 'address')


class ExternalService:
    """The external service of the operator that permits leases, if one is configured.

    The same service works with Blazar 18 (openstack/blazar, blazar/enforcement), and with the fork
    that coral-credits (stackhpc/coral-credits) needs. Requests are POSTs with JSON: ``context``,
    ``lease``, and for a change ``current_lease``. 204 permits; 403 with ``{"message": "..."}`` or
    ``{"error": "..."}`` rejects; any other answer is an error. Dates are UTC,
    ``YYYY-MM-DDTHH:MM:SS``.

    :param conf: with the sections ``[limits]`` and ``[cloud]``
    :param cloud: gives a token of the service user, if one is sent, and the URL of Keystone
    :param describe: adds the facts of units to the allocations of a lease
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        cloud: Cloud,
        describe: Callable[[model.Lease], model.Lease] = lambda lease: lease,
    ) -> None:
        self._conf = conf
        self._cloud = cloud
        self._describe = describe

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
        if self._handles(lease):
            self._check('check_create', self._body(lease))

    def check_update(self, before: model.Lease, after: model.Lease) -> None:
        """Check that the service permits a change; raise as :meth:`check_create` does.

        A lease of which the service handles nothing before the change is new to it.
        """
        if not self._handles(before):
            self.check_create(after)
            return
        current = to_body(self._describe(before))
        self._check('check_update', {**self._body(after), 'current_lease': current})

    def commit(self, before: model.Lease | None, after: model.Lease) -> None:
        """Notify the service, once, that a lease was created or changed; failures are logged.

        :param before: the lease before the change; None: it is new
        """
        is_new = before is None or not self._handles(before)
        url = self._conf[limits_conf.GROUP]['external_create' if is_new else 'external_update']
        if url is None or not self._handles(after):
            return
        try:
            body = self._body(after)
            if before is not None and not is_new:
                body['current_lease'] = to_body(self._describe(before))
            status = self._post(str(url), body).status_code
        except Exception:
            # The lease is saved: its user must not receive an error.
            LOG.exception('Could not send lease %s to %s; it is not sent again', after.id, url)
            return
        if status >= http.HTTPStatus.MULTIPLE_CHOICES:
            LOG.error(
                'Could not send lease %s to %s: it answered %d; the lease is not sent again',
                after.id,
                url,
                status,
            )

    def notify_end(self, lease: model.Lease) -> None:
        """Notify the service that a lease has ended, at least once.

        :raises climate_core.exceptions.Transient: another attempt may succeed
        :raises climate_core.exceptions.Permanent: the service rejects the notification
        """
        url = self._url('on_end')
        if url is None or not self._handles(lease):
            return
        try:
            response = self._post(url, self._body(lease))
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
            message = _read_message(response)
        if message is None:
            LOG.error('%s answered %s, not 204 or 403 with a message', url, response.status_code)
            raise exceptions.ServiceUnavailable(f'{_EXTERNAL} gave an invalid answer.')
        raise exceptions.LeaseNotPermitted(message)

    def _handles(self, lease: model.Lease) -> bool:
        types = self._conf[limits_conf.GROUP].external_resource_types
        return not types or any(_type_name(each) in types for each in _counted(lease))

    def _post(self, url: str, body: dict[str, Any]) -> requests.Response:
        try:
            with requests.post(
                url,
                json=body,
                headers=self._headers(),
                timeout=self._conf[limits_conf.GROUP].external_timeout,
                allow_redirects=False,
                stream=True,
            ) as response:
                return _bounded(response)
        except requests.RequestException as exc:
            LOG.error('%s cannot be reached: %s', url, exc)
            raise exceptions.ServiceUnavailable(
                f'{_EXTERNAL} does not answer. Try again.'
            ) from exc

    def _headers(self) -> dict[str, str]:
        section = self._conf[limits_conf.GROUP]
        token = section.external_token
        if not token and section.external_bearer_token:
            return {'Authorization': f'Bearer {section.external_bearer_token}'}
        if not token and section.external_keystone_token:
            with errors.for_user():
                token = self._cloud.service_token()
        return {'X-Auth-Token': token} if token else {}

    def _url(self, question: str) -> str | None:
        section = self._conf[limits_conf.GROUP]
        own = section[f'external_{question}']
        if own or not section.external_endpoint:
            return str(own) if own else None
        return f'{section.external_endpoint.rstrip("/")}/{_EXTERNAL_PATHS[question]}'

    def _body(self, lease: model.Lease) -> dict[str, Any]:
        return {'context': self._context(lease), 'lease': to_body(self._describe(lease))}

    def _context(self, lease: model.Lease) -> dict[str, Any]:
        with errors.for_user():
            auth_url = self._cloud.auth_url()
        return {
            'user_id': lease.user_id,
            'project_id': lease.project_id,
            'auth_url': auth_url,
            'region_name': self._conf.cloud.region_name,
        }


def _bounded(response: requests.Response) -> requests.Response:
    """Return a response with the start of its body, which is read here."""
    content = b''
    for part in response.iter_content(_ANSWER_BYTES):
        content += part
        if len(content) >= _ANSWER_BYTES:
            break
    bounded = requests.Response()
    bounded.status_code, bounded.reason = response.status_code, response.reason
    bounded.headers, bounded.raw = response.headers, io.BytesIO(content)
    return bounded


def _read_message(response: requests.Response) -> str | None:
    """Return the reason of a rejection as one line for users; None: it has none."""
    try:
        body = response.json()
    except ValueError:
        return None
    given = [body.get(name) for name in ('message', 'error')] if isinstance(body, dict) else ()
    text = next((each for each in given if isinstance(each, str) and each.strip()), '')
    return ' '.join(words.escape(errors.redact(text)).split())[:_MESSAGE_LENGTH] or None


def to_body(lease: model.Lease) -> dict[str, Any]:
    """Return a lease in the format of the external service."""
    before_end, counted = lease.before_end_date, _counted(lease)
    return {
        'id': lease.id,
        'name': lease.name,
        'user_id': lease.user_id,
        'project_id': lease.project_id,
        'start_date': _format_date(lease.start_date),
        'end_date': _format_date(lease.end_date),
        'before_end_date': None if before_end is None else _format_date(before_end),
        'reservations': [_reservation_body(reservation) for reservation in counted],
        'resource_requests': _sum_classes(counted),
    }


def _counted(lease: model.Lease) -> Sequence[model.Reservation]:
    """Return the live reservations; of a lease that has ended those that it had at its end."""
    removed = {each.reservation_id for each in lease.events_of(model.END_RESERVATION)}
    had = (r for r in lease.reservations if not r.given_up and r.id not in removed)
    return lease.live or tuple(had)


def _sum_classes(reservations: Sequence[model.Reservation]) -> dict[str, int]:
    """Return the amounts of reservations by resource classes, without zeros.

    Those of whole hosts are those of the allocated hosts. coral-credits rejects zeros of a new
    lease, but needs all classes at the end, also of hosts that were released before the start.
    """
    total = collections.Counter[str]()
    for each in reservations:
        whole = each.resource_type == resource_types.HOST
        units = [allocation.unit for allocation in each.allocations] or [{}]
        for amounts in units if whole else [_amounts(each)]:
            for unit, name in _RESOURCE_CLASSES.items():
                number = int(amounts.get(unit) or 0)
                if number or (whole and not each.live):
                    total[name] += number
    return dict(total)


def _amounts(reservation: model.Reservation) -> Mapping[str, int]:
    return reservation.amounts or reservation.params.get(model.HOLDS) or {}


def _type_name(reservation: model.Reservation) -> str:
    return resource_types.api_name(reservation.resource_type)


def _reservation_body(reservation: model.Reservation) -> dict[str, Any]:
    return {
        **views.visible_params(reservation),
        **_typed_fields(reservation),
        'id': reservation.id,
        'resource_type': _type_name(reservation),
        'resource_id': reservation.resource_id,
        'amounts': dict(reservation.amounts),
        'allocations': _allocations(reservation) if reservation.live else [],
    }


def _typed_fields(reservation: model.Reservation) -> dict[str, Any]:
    """Return the fields that a type has in Blazar, with the types that coral-credits accepts.

    It accepts no booleans as affinity, and of ``virtual:instance`` neither null as affinity nor
    empty ``resource_properties``.
    """
    params = reservation.params
    affinity = None if params.get('affinity') is None else str(params['affinity'])
    match reservation.resource_type:
        case resource_types.HOST:
            names = ('hypervisor_properties', 'resource_properties')
            return {name: params.get(name) or '' for name in names}
        case resource_types.CAPACITY:
            return {'affinity': affinity, 'flavor_id': str(params.get('flavor_id'))}
        case resource_types.SERVER | resource_types.SIZES:
            amounts = _amounts(reservation)
            return {
                'amount': params.get('amount', 1),
                **{unit: params.get(unit, amounts.get(unit, 0)) for unit in _RESOURCE_CLASSES},
                'affinity': affinity or '',
                'resource_properties': params.get('resource_properties') or None,
            }
    return {}


def _allocations(reservation: model.Reservation) -> list[dict[str, Any]]:
    """Return an allocation for each piece of the units of the calendar."""
    return [
        {'id': str(each.unit_id)}
        | {name: each.unit[name] for name in _UNIT_FIELDS if name in each.unit}
        for each in reservation.allocations
        for _ in range(each.pieces)
    ]


def _format_date(time: datetime.datetime) -> str:
    return time.astimezone(datetime.UTC).strftime('%Y-%m-%dT%H:%M:%S')
