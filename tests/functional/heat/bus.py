# SPDX-License-Identifier: Apache-2.0
"""The message bus of heat in one process, and the time that its engines wait.

A cast is kept until :meth:`Bus.run` hands it over, one after the other; a call is answered at
once. A thread that waits in heat for something (a task between two looks) lets the next message be
handled meanwhile, so that the other engines and the rest of the world go on, in one thread and
always in the same order. What stops the workers of a stack lets them come to their end, as it
does beside them in an engine.
"""

from types import SimpleNamespace

import greenlet
from heat.common import messaging
from oslo_messaging import JsonPayloadSerializer

from tests.functional import bus
from tests.functional.bus import Killed  # noqa: F401

#: Looks in vain after which nobody believes any more that something will happen.
PATIENCE = 300


class WaitsForEver(BaseException):
    """A thread waits for what does not happen."""


class Bus(bus.Bus):
    """In the place of heat's transport.

    :ivar meanwhile: called at each look of a thread that waits: what the world does beside. What
        goes wrong in it is no failure of heat, which would swallow it: the test fails at its end
    """

    get_server = 'heat.common.messaging.get_rpc_server'

    def _setUp(self):
        super()._setUp()
        self.meanwhile = lambda: None
        self._in_vain, self._asleep, self._faults = 0, [], []
        self.addCleanup(self._tell)
        wait = 'heat.engine.scheduler.TaskRunner._sleep'
        self._replace(wait, lambda task, seconds: self._wait(seconds))
        # It pauses for seconds between two tries to create a resource.
        self._replace('heat.common.timeutils.retry_backoff_delay', lambda *args, **kwargs: 0.01)
        # It gives cancelled workers five seconds, three times.
        self._replace('heat.engine.worker.time', SimpleNamespace(sleep=self._sleep))

    def run(self):
        """Hand over all casts, and those that come of them."""
        self._in_vain = 0
        while self._queue or self._asleep:
            if self._asleep:
                self._wake()
            else:
                self._send(*self._queue.pop(0))

    def beside(self, func, *args, **kwargs):
        """Do what an engine does in a thread of its own: at once, as far as it does not sleep."""
        greenlet.greenlet(lambda: func(*args, **kwargs)).switch()

    def forget(self):
        """Lose all casts that wait."""
        self._queue.clear()

    def _server(self, target, endpoint):
        serializer = messaging.RequestContextSerializer(JsonPayloadSerializer())
        return bus.Server(self, target, [endpoint], serializer)

    def _waits(self, names):
        return True

    def _sleep(self, seconds):
        self._asleep.append(greenlet.getcurrent())
        greenlet.getcurrent().parent.switch()

    def _wake(self):
        """Let those go on that sleep: all others have come to their end."""
        sleepers, self._asleep = self._asleep, []
        for each in sleepers:
            each.parent = greenlet.getcurrent()
            each.switch()

    def _wait(self, seconds):
        # The first sleep of a task is none: it only lets others in.
        if seconds is None:
            return
        try:
            self.meanwhile()
        except Exception as fault:  # noqa: BLE001 - whatever it is, the test shall see it
            self._faults.append(fault)
        if self._queue:
            self._in_vain = 0
            self._send(*self._queue.pop(0))
            return
        self._in_vain += 1
        if self._in_vain > PATIENCE:
            raise WaitsForEver

    def _tell(self):
        for fault in self._faults:
            raise fault
