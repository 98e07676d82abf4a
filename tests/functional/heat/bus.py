# SPDX-License-Identifier: Apache-2.0
"""The message bus of one process, and the time that engines wait.

Oslo.messaging's own client and dispatcher with heat's serializers and versions. A cast is kept
until :meth:`Bus.run` hands it over, one after the other; a call is answered at once. Whoever
waits in heat for something (a task between two looks) lets the next message be handled
meanwhile, so that the other engines and the rest of the world go on, in one thread and always in
the same order. What stops the workers of a stack lets them come to their end, as it does beside
them in an engine.
"""

import json
import logging
from types import SimpleNamespace

import fixtures
import greenlet
from heat.common import messaging
from oslo_messaging import JsonPayloadSerializer, MessagingTimeout
from oslo_messaging.rpc import dispatcher

LOG = logging.getLogger(__name__)
#: Looks in vain after which nobody believes any more that something will happen.
PATIENCE = 300


class Killed(BaseException):
    """The engine is gone in the middle."""


class WaitsForEver(BaseException):
    """Somebody waits for what does not happen."""


class Bus(fixtures.Fixture):
    """In the place of a transport.

    :ivar servers: those that listen now
    :ivar casts: methods of all casts, in order
    :ivar lost: methods whose casts go nowhere
    :ivar meanwhile: called at each look of somebody who waits: what the world does beside
    """

    def _setUp(self):
        self.servers, self.casts, self.lost = [], [], set()
        self.meanwhile = lambda: None
        self._queue, self._in_vain, self._asleep = [], 0, []
        context = 'oslo_messaging.rpc.client._BaseCallContext'
        for name, value in [
            ('heat.common.messaging.get_rpc_server', self._server),
            (f'{context}.cast', lambda *args, **kwargs: self._cast(*args, **kwargs)),
            (f'{context}.call', lambda *args, **kwargs: self._call(*args, **kwargs)),
            ('heat.engine.scheduler.TaskRunner._sleep', lambda task, wait: self._wait(wait)),
            # It pauses for seconds between two tries to create a resource.
            ('heat.common.timeutils.retry_backoff_delay', lambda *args, **kwargs: 0.01),
            # It gives cancelled workers five seconds, three times.
            ('heat.engine.worker.time', SimpleNamespace(sleep=self._sleep)),
        ]:
            self.useFixture(fixtures.MonkeyPatch(name, value))

    def run(self):
        """Hand over all casts, and those that come of them."""
        self._in_vain = 0
        while self._queue or self._asleep:
            if self._asleep:
                self._wake()
            else:
                self._deliver()

    def beside(self, func, *args, **kwargs):
        """Do what an engine does in a thread of its own: at once, as far as it does not sleep."""
        greenlet.greenlet(lambda: func(*args, **kwargs)).switch()

    def _sleep(self, seconds):
        self._asleep.append(greenlet.getcurrent())
        greenlet.getcurrent().parent.switch()

    def _wake(self):
        """Let those go on that sleep: all others have come to their end."""
        sleepers, self._asleep = self._asleep, []
        for each in sleepers:
            each.parent = greenlet.getcurrent()
            each.switch()

    def forget(self):
        """Lose all casts that wait."""
        self._queue.clear()

    def _deliver(self):
        target, context, message = self._queue.pop(0)
        for server in self._find(target):
            try:
                server.handle(context, message)
            except Killed:
                LOG.info('The engine died in %s', message['method'])
            except Exception:
                # The receiver of a cast logs it; who sent it never knows.
                LOG.exception('%s failed', message['method'])

    def _wait(self, seconds):
        # The first sleep of a task is none: it only lets others in.
        if seconds is None:
            return
        self.meanwhile()
        if self._queue:
            self._in_vain = 0
            self._deliver()
            return
        self._in_vain += 1
        if self._in_vain > PATIENCE:
            raise WaitsForEver

    def _server(self, target, endpoint):
        return Server(self, target, endpoint)

    def _cast(self, client, context, method, **kwargs):
        self.casts.append(method)
        if method not in self.lost:
            self._queue.append((client.target, *_letter(client, context, method, kwargs)))

    def _call(self, client, context, method, **kwargs):
        letter = _letter(client, context, method, kwargs)
        for server in self._find(client.target):
            return server.handle(*letter)
        raise MessagingTimeout(f'Nobody listens to {client.target}')

    def _find(self, target):
        found = [
            each
            for each in self.servers
            if each.target.topic == target.topic and target.server in (None, each.target.server)
        ]
        return found if target.fanout else found[:1]


class Server:
    """What oslo.messaging's RPC server is to a service."""

    def __init__(self, bus, target, endpoint):
        self.bus, self.target = bus, target
        serializer = messaging.RequestContextSerializer(JsonPayloadSerializer())
        self._dispatcher = dispatcher.RPCDispatcher([endpoint], serializer)

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
    """What goes over the wire, and comes from it."""
    client._check_version_cap(client.target.version)
    message = client._make_message(context, method, kwargs)
    context = client.serializer.serialize_context(context)
    return json.loads(json.dumps(context)), json.loads(json.dumps(message))
