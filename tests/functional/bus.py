# SPDX-License-Identifier: Apache-2.0
"""The message bus of one process: a message is handled in the thread of who hands it over.

Oslo.messaging's own client and dispatcher, with the serializers and versions of the service that
is tested, and nothing between them that has to be waited for.
"""

import logging
from types import SimpleNamespace

import fixtures
from oslo_messaging import MessagingTimeout
from oslo_messaging.rpc import dispatcher
from oslo_serialization import jsonutils

LOG = logging.getLogger(__name__)


class Killed(BaseException):
    """The receiver is gone in the middle: no handler of its runs."""


class Bus(fixtures.Fixture):
    """In the place of a transport.

    A subclass says how a server is made (:meth:`_server`) and which casts wait.

    :ivar servers: those that listen now
    :ivar lost: methods whose casts go nowhere; or (service, method), with ``cinder-volume`` for
        the service
    :ivar kept: in the same way, those whose casts wait until :meth:`deliver`
    :ivar casts: (method, topic, server) of every cast, in order
    """

    #: The function that makes a server of the service.
    get_server: str

    def _setUp(self):
        self.servers, self.lost, self.kept = [], set(), set()
        self.casts, self._queue = [], []
        context = 'oslo_messaging.rpc.client._BaseCallContext'
        self._replace(self.get_server, self._server)
        self._replace(f'{context}.cast', lambda *args, **kwargs: self._cast(*args, **kwargs))
        self._replace(f'{context}.call', lambda *args, **kwargs: self._call(*args, **kwargs))

    def _replace(self, name, value):
        self.useFixture(fixtures.MonkeyPatch(name, value))

    def deliver(self, *order):
        """Hand over the casts that were kept.

        :param order: their numbers, to change their order or to hand one over twice
        """
        queue, self._queue[:] = list(self._queue), []
        for number in order or range(len(queue)):
            self._send(*queue[number])

    def _cast(self, client, context, method, **kwargs):
        target = client.target
        self.casts.append((method, target.topic, target.server))
        names = {method, (target.topic.partition('.')[0], method)}
        if names & self.lost:
            return
        letter = (target, *_letter(client, context, method, kwargs))
        if self._waits(names):
            self._queue.append(letter)
        else:
            self._send(*letter)

    def _waits(self, names):
        """Tell whether a cast is kept."""
        return bool(names & self.kept)

    def _send(self, target, context, message):
        for server in self._find(target):
            try:
                server.handle(context, message)
            except Exception:
                # The receiver of a cast logs it; who sent it never knows.
                LOG.exception('%s failed', message['method'])
            except Killed:
                LOG.info('The receiver died in %s', message['method'])

    def _call(self, client, context, method, **kwargs):
        letter = _letter(client, context, method, kwargs)
        for server in self._find(client.target):
            return server.handle(*letter)
        raise MessagingTimeout(f'Nobody listens to {client.target}')

    def _find(self, target):
        """One of those who may take it, or all for a fanout."""
        found = [
            each
            for each in self.servers
            if each.target.topic == target.topic and target.server in (None, each.target.server)
        ]
        return found if target.fanout else found[:1]


class Server:
    """What oslo.messaging's RPC server is to a service."""

    def __init__(self, bus, target, endpoints, serializer):
        self.bus, self.target = bus, target
        self._dispatcher = dispatcher.RPCDispatcher(endpoints, serializer)

    def start(self):
        self.bus.servers.append(self)

    def stop(self):
        if self in self.bus.servers:
            self.bus.servers.remove(self)

    def wait(self):
        """Nothing runs beside."""

    def handle(self, context, message):
        """Do it, and give what is answered."""
        try:
            return self._dispatcher.dispatch(
                SimpleNamespace(ctxt=context, message=message, client_timeout=0)
            )
        except dispatcher.ExpectedException as expected:
            raise expected.exc_info[1] from None


def _letter(client, context, method, kwargs):
    """Return what goes over the wire, and comes from it."""
    client._check_version_cap(client.target.version)
    message = client._make_message(context, method, kwargs)
    context = client.serializer.serialize_context(context)
    context, message = jsonutils.dumps(context), jsonutils.dumps(message)
    return jsonutils.loads(context), jsonutils.loads(message)
