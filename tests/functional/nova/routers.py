# SPDX-License-Identifier: Apache-2.0
"""Routers of nova's API that are made for the first request.

Nova's own paste file asks for two, below /v2 and /v2.1, with some hundred controllers each, and
few tests use more than one.
"""

from nova.api.openstack import compute


class Later:
    """A WSGI application that is made when it is called first."""

    def __init__(self, make):
        self._make = make
        self._application = None

    def __call__(self, environ, start_response):
        if self._application is None:
            self._application = self._make()
        return self._application(environ, start_response)


def make_later():
    """Have the factory that the paste file names give routers that are made later."""
    make = compute.APIRouterV21.factory
    compute.APIRouterV21.factory = staticmethod(
        lambda *args, **kwargs: Later(lambda: make(*args, **kwargs))
    )
