# SPDX-License-Identifier: Apache-2.0
"""The message bus of cinder in one process: a cast is handled in the thread of who sends it."""

from cinder import rpc, service

from tests.functional import bus
from tests.functional.bus import Killed  # noqa: F401


class Bus(bus.Bus):
    """In the place of cinder's transport."""

    get_server = 'cinder.rpc.get_server'

    def _server(self, target, endpoints, serializer=None):
        return Server(self, target, endpoints, rpc.RequestContextSerializer(serializer))


class Server(bus.Server):
    """Remembers who it is while it works."""

    def __init__(self, bus, target, endpoints, serializer):
        super().__init__(bus, target, endpoints, serializer)
        self._manager = endpoints[0]

    def handle(self, context, message):
        # Cinder keeps the id of the service that a process is in its class.
        before = service.Service.service_id
        service.Service.service_id = getattr(self._manager, 'service_id', before)
        try:
            return super().handle(context, message)
        finally:
            service.Service.service_id = before
