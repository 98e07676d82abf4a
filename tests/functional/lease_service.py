# SPDX-License-Identifier: Apache-2.0
"""The lease service as nova and cinder see it: the edge where these tests end.

A WSGI application that keeps leases as the contract of the API says, notes every request, and
can be told to refuse or to be down. Requests reach it through a real HTTP client.
"""

import datetime
import json
import uuid

import fixtures
import webob
import webob.dec
from wsgi_intercept import interceptor


def iso(**later):
    """Return a time from now, as a user writes it."""
    now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    return (now + datetime.timedelta(**later)).isoformat()


class LeaseService(fixtures.Fixture):
    """The service at :attr:`url`.

    :ivar leases: id -> lease
    :ivar requests: every webob.Request, in order
    :ivar answer: a webob.Response to give instead, or None
    :ivar on_post: called with each POST before it is answered
    """

    def _setUp(self):
        self.url = f'http://leases-{uuid.uuid4().hex}:80/v1'
        self.leases = {}
        self.requests = []
        self.answer = None
        self.on_post = lambda request: None
        intercept = interceptor.RequestsInterceptor(lambda: self._app, url=self.url)
        intercept.install_intercept()
        self.addCleanup(intercept.uninstall_intercept)

    def fail_first_request(self):
        """Answer 504 to the first request, and serve the next."""

        def fail(request):
            self.answer = refusal(504, 'late') if len(self.requests) == 1 else None

        self.on_post = fail

    @webob.dec.wsgify
    def _app(self, request):
        self.requests.append(request)
        if request.method == 'POST':
            self.on_post(request)
        if self.answer is not None:
            return self.answer
        path = request.path.split('/')[2:]
        if request.method == 'GET':
            return self._get(path[1])
        return self._join(path[1], request.json) if len(path) == 3 else self._make(request.json)

    def _get(self, lease_id):
        if lease_id not in self.leases:
            return refusal(404, 'There is no such lease')
        return _json(200, {'lease': _shown(self.leases[lease_id])})

    def _make(self, body):
        lease = self.leases.setdefault(
            body['id'], {**body, 'reservations': [], 'status': 'PENDING'}
        )
        if (lease['name'], lease['start_date']) != (body['name'], body['start_date']):
            return refusal(409, 'Another lease has this id')
        for each in body['reservations']:
            self._add(lease, each)
        return _json(201, {'lease': _shown(lease)})

    def _join(self, lease_id, body):
        if lease_id not in self.leases:
            return refusal(404, 'There is no such lease')
        reservation = self._add(self.leases[lease_id], body)
        return _json(201, {'reservation': _with_id(reservation)})

    def _add(self, lease, reservation):
        known = [each['resource_id'] for each in lease['reservations']]
        if reservation['resource_id'] not in known:
            lease['reservations'].append(reservation)
        return reservation

    @property
    def lease(self):
        """Return the only lease there is."""
        (lease,) = self.leases.values()
        return lease


def _shown(lease):
    parts = {key: list(map(_with_id, lease.get(key, ()))) for key in ('reservations', 'events')}
    return lease | parts


def _with_id(part):
    return {'id': str(uuid.uuid4()), **part}


def _json(status, body):
    return webob.Response(
        status=status, body=json.dumps(body).encode(), content_type='application/json'
    )


def refusal(status, message):
    """Return an error as the API writes it."""
    return _json(
        status, {'error_code': status, 'error_message': message, 'error_name': 'lease.error'}
    )
