# SPDX-License-Identifier: Apache-2.0
"""Limit the requests of each project, as an example of ``[api] middleware``."""

import collections
import threading
import time

import webob
import webob.dec
import webob.exc


class RateLimit:
    """Accept a number of requests of a project in each window of time, in this process."""

    def __init__(self, application, requests, seconds):
        self._application = application
        self._requests, self._seconds = requests, seconds
        self._lock = threading.Lock()
        self._counts = collections.Counter()
        self._end = 0.0

    @webob.dec.wsgify
    def __call__(self, request):
        # Nova, Cinder and Heat send a service token. Limit their users in their own proxies.
        is_service = 'service' in request.headers.get('X-Service-Roles', '').split(',')
        wait = 0 if is_service else self._count(request.headers.get('X-Project-Id', ''))
        if wait:
            raise webob.exc.HTTPTooManyRequests(headers={'Retry-After': str(wait)})
        return request.get_response(self._application)

    def _count(self, project_id):
        """Count a request; return the seconds to wait, 0 if it is accepted."""
        now = time.monotonic()
        with self._lock:
            if now >= self._end:
                self._counts.clear()
                self._end = now + self._seconds
            self._counts[project_id] += 1
            is_over = self._counts[project_id] > self._requests
            return max(1, round(self._end - now)) if is_over else 0


def filter_factory(global_conf, requests='600', seconds='60'):  # noqa: ARG001
    """Return the filter, as Paste Deploy does: all options are texts."""
    return lambda application: RateLimit(application, int(requests), float(seconds))
