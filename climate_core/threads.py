# SPDX-License-Identifier: Apache-2.0
"""Threads of a service: one protocol by which all of them start and stop.

A service is a list of :class:`Background` parts. They start in order; :func:`stop` stops them in
order, with one deadline for all. A deadline is a time of ``time.monotonic``.
"""

import abc
import contextlib
import contextvars
import dataclasses
import functools
import random
import signal
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Sequence
from concurrent import futures
from typing import Any, ClassVar, Final, ParamSpec, Protocol, TypeVar
from wsgiref import simple_server

from oslo_config import cfg
from oslo_log import log


@dataclasses.dataclass(frozen=True, slots=True)
class Backoff:
    """Seconds before the second attempt, doubled with every further one up to a maximum."""

    first: float
    maximum: float

    @classmethod
    def of(cls, conf: cfg.ConfigOpts) -> 'Backoff':
        """Return the backoff of events, from section ``[engine]``."""
        return cls(conf.engine.retry_seconds, conf.engine.retry_max_seconds)

    def delay(self, attempts: int, minimum: float = 0.0) -> float:
        """Return the seconds to wait after a number of failed attempts.

        :param minimum: seconds that the other side asked for, see
            :func:`climate_core.cloud.errors.read_retry_after`
        """
        return min(self.maximum, max(minimum, self.first * 2.0 ** min(attempts, 60)))


LOG = log.getLogger(__name__)

P = ParamSpec('P')
T = TypeVar('T')


class Background(Protocol):
    """A part of a service that works in threads of its own."""

    @property
    def name(self) -> str:
        """Return the name of the part, for the log."""

    def start(self) -> None:
        """Start the threads and return."""

    def stop(self) -> None:
        """Start no more work; do not wait for work in progress."""

    def wait(self, deadline: float) -> bool:
        """Wait for work in progress; return whether it ended before the deadline."""


def stop(parts: Sequence[Background], deadline: float) -> list[str]:
    """Stop parts and wait for them.

    :returns: the names of those that did not end before the deadline
    """
    for part in parts:
        part.stop()
    return [part.name for part in parts if not part.wait(deadline)]


def seconds_left(deadline: float) -> float:
    """Return the seconds until a deadline, at least 0."""
    return max(0.0, deadline - time.monotonic())


class VitalThread(threading.Thread):
    """A thread without which its process is useless, see :func:`stop_on_broken_thread`."""

    def __init__(self, name: str, target: Callable[[], None]) -> None:
        super().__init__(name=name, target=target, daemon=True)

    def wait(self, deadline: float) -> bool:
        """Wait for its end; return whether it ended in time. A thread that never ran has ended."""
        if self.ident is not None:
            self.join(seconds_left(deadline))
        return not self.is_alive()


class Worker(abc.ABC):
    """A thread that polls for work, does it, and sleeps until more is due or it is nudged.

    :param idle_seconds: the longest sleep
    :param first_seconds: the sleep before the first poll
    :param pause: how long to sleep after expected errors
    """

    name: ClassVar[str]
    #: What :meth:`poll` may raise: it is logged with ``failure_message``, and tried again later.
    expected_errors: ClassVar[tuple[type[Exception], ...]] = ()
    failure_message: ClassVar[str] = ''
    #: Seconds after a poll without another one, so that the next poll serves all work of this
    #: time. Later work is polled immediately.
    spacing: ClassVar[float] = 0.0
    #: Whether it is nudged when a nova-compute notifies of a change of its state.
    polls_on_compute_change: ClassVar[bool] = False

    def __init__(
        self,
        idle_seconds: float,
        first_seconds: float = 0.0,
        pause: Backoff = Backoff(2.0, 30.0),
    ) -> None:
        self._idle_seconds = idle_seconds
        self._first_seconds = first_seconds
        self._pause = pause
        self._nudged = False
        #: Whether to start no more work.
        self.stopping = False
        self._changed = threading.Condition()
        self._thread = VitalThread(self.name, self._run)

    @abc.abstractmethod
    def poll(self) -> float | None:
        """Do the work that is due.

        :returns: seconds until more is due; None if that is unknown
        """

    def start(self) -> None:
        self._thread.start()

    def nudge(self) -> None:
        """Make it poll now, or once more if it is polling."""
        with self._changed:
            self._nudged = True
            self._changed.notify_all()

    def stop(self) -> None:
        with self._changed:
            self.stopping = True
            self._changed.notify_all()

    def wait(self, deadline: float) -> bool:
        return self._thread.wait(deadline)

    def _run(self) -> None:
        failures = 0
        self._sleep(self._first_seconds)
        while not self.stopping:
            with self._changed:
                self._nudged = False
            try:
                seconds = self.poll()
                failures = 0
            except self.expected_errors as exc:
                # The lines after the first one are the statement and general advice.
                LOG.exception('%s: %s', self.failure_message, str(exc).partition('\n')[0])
                seconds = self._pause.delay(failures)
                failures += 1
            with self._changed:
                self._changed.wait_for(lambda: self.stopping, self.spacing)
            self._sleep(limit_sleep(seconds, self._idle_seconds))

    def _sleep(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._nudged or self.stopping, seconds)


class PeriodicWorker(Worker):
    """A worker that polls at intervals, at other moments than those of other managers.

    :param interval: seconds between polls, 10 % more or less
    :param within: maximum seconds until the first poll
    """

    def __init__(self, interval: float, within: float) -> None:
        super().__init__(interval * 1.1, random.uniform(0, min(interval, within)))  # nosec B311 # spreads load, no secret
        self._interval = interval

    def next_poll(self) -> float:
        """Return the seconds until the next poll."""
        return float(self._interval * random.uniform(0.9, 1.1))  # nosec B311 # spreads load, no secret


def limit_sleep(seconds: float | None, longest: float) -> float:
    """Return the seconds to sleep: clocks are set and hints get lost, so not for too long."""
    return longest if seconds is None else min(seconds, longest)


#: When the message that a thread handles was received, by the monotonic clock.
_RECEIVED: contextvars.ContextVar[float] = contextvars.ContextVar('received')


def received_at() -> float:
    """Return when the message that this thread handles was received, by ``time.monotonic``."""
    return _RECEIVED.get(time.monotonic())


class _MessageExecutor(futures.ThreadPoolExecutor):
    """Threads that know how long their message has waited for a thread."""

    def submit(
        self, function: Callable[P, T], /, *args: P.args, **kw: P.kwargs
    ) -> 'futures.Future[T]':
        received = time.monotonic()

        def work() -> T:
            _RECEIVED.set(received)
            return function(*args, **kw)

        return super().submit(work)


#: Seconds for what a server need not finish: to connect, or an idle poll of oslo.messaging of up
#: to 5 s (oslo_messaging/_drivers/amqpdriver.py ``ACK_REQUEUE_EVERY_SECONDS_MAX``).
_CLOSE_SECONDS: Final = 0.5


class MessageServer:
    """A server of oslo.messaging, for RPC or for notifications, as a part of a service.

    The methods of oslo.messaging know no deadline: ``start`` waits for a RabbitMQ that may be
    away, ``stop`` and ``wait`` for that and for calls in progress. So they run in threads.

    :param redelivers: whether the bus redelivers messages that this server has not finished
    """

    def __init__(self, name: str, server: Any, redelivers: bool = False) -> None:
        self.name = name
        self._server = server
        self._redelivers = redelivers
        # There is no option for it. The default executor of oslo.messaging (futurist's) wakes its
        # idle threads once a second, which was most of the work of an idle manager.
        pool = functools.partial(_MessageExecutor, thread_name_prefix=name)
        server._executor_cls = pool
        self._opening = VitalThread(f'{name} start', server.start)
        self._closing = threading.Thread(target=self._close, name=f'{name} stop', daemon=True)
        self._stopped_at = 0.0

    def start(self) -> None:
        self._opening.start()

    def stop(self) -> None:
        if self._closing.ident is None:
            self._stopped_at = time.monotonic()
            self._closing.start()

    def wait(self, deadline: float) -> bool:
        soon = min(deadline, self._stopped_at + _CLOSE_SECONDS)
        # A server without a connection has no calls in progress; its threads end with the process.
        if not self._opening.wait(soon):
            return True
        self._closing.join(seconds_left(soon if self._redelivers else deadline))
        return self._redelivers or not self._closing.is_alive()

    @property
    def is_connecting(self) -> bool:
        """Return whether the message bus has not answered yet."""
        return self._opening.is_alive()

    def _close(self) -> None:
        self._server.stop()
        self._server.wait()


class HttpServer:
    """An HTTP server, for the metrics and the all-in-one API, as a part of a service.

    It binds the address immediately, and answers after :meth:`start`. It logs no requests: their
    queries may have tokens, and :mod:`climate_core.api.app` logs those of the API.

    :param port: 0 binds a free port
    :raises OSError: the address cannot be bound
    """

    def __init__(self, name: str, host: str, port: int, application: Any) -> None:
        self.name = name
        family, *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]

        class Server(socketserver.ThreadingMixIn, simple_server.WSGIServer):
            address_family = family
            daemon_threads = True
            request_queue_size = 128

        class Handler(simple_server.WSGIRequestHandler):
            def log_message(self, *_: Any) -> None:
                pass

        self._server = simple_server.make_server(host, port, application, Server, Handler)
        self._thread = VitalThread(name, self._server.serve_forever)

    @property
    def port(self) -> int:
        """Return the port on which it listens."""
        return self._server.server_port

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop answering and free the port."""
        if self._thread.is_alive():
            self._server.shutdown()
        self._server.server_close()

    def wait(self, deadline: float) -> bool:
        return self._thread.wait(deadline)


class Shutdown:
    """Request the stop of a program, and wait for the request.

    No lock, queue or ``threading.Event``: Python runs a signal handler when the first thread runs
    bytecode, and a signal that comes right before that thread blocks, or that the kernel gives to
    another thread, would not wake it. A byte on a socket does, see ``signal.set_wakeup_fd``.
    """

    def __init__(self) -> None:
        self.requested = False
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)

    def on_signals(self) -> None:
        """Stop at SIGTERM and SIGINT; call it in the main thread."""
        signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.set())

    def set(self) -> None:
        """Request the stop, from any thread or from a signal handler."""
        self.requested = True
        with contextlib.suppress(BlockingIOError):
            self._writer.send(b'\0')

    def wait(self) -> None:
        """Wait until the stop is requested."""
        while not self.requested:
            self._reader.recv(1)


def stop_on_broken_thread(stop: Callable[[], None]) -> threading.Event:
    """Stop the process when an exception ends a vital thread.

    Only the program that owns the process may call it: there is one hook for all threads.

    :param stop: called in that thread
    :returns: an event that is set when a vital thread broke
    """
    broken = threading.Event()

    def hook(args: threading.ExceptHookArgs) -> None:
        LOG.critical('A thread broke', exc_info=args.exc_value)
        if isinstance(args.thread, VitalThread):
            broken.set()
            stop()

    threading.excepthook = hook
    return broken
