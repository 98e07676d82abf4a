# SPDX-License-Identifier: Apache-2.0
"""A database, a cloud with a journal, and the manager processes between them."""

import contextlib
import json
import multiprocessing
import os
import pathlib
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.connection import Connection
from typing import Any

from oslo_config import cfg

from climate_core import conf as configuration
from climate_core.cloud import Cloud as CloudOfConf
from climate_core.db.engine import Database
from climate_core.lease.model import Lease
from climate_core.plugins import loading
from climate_core.plugins.base import ResourcePlugin
from climate_core.repair import reconciliation
from tests.kill import start_manager
from tests.support.fakes import cloud_server, leases, settings
from tests.support.fakes.remote import PATIENCE, Remote

_FORK = multiprocessing.get_context('forkserver')
_FORK.set_forkserver_preload(['tests.kill.preload'])


class Cloud(Remote):
    """The fake cloud as a process of its own."""

    def __init__(self, directory: pathlib.Path) -> None:
        told, tell = _FORK.Pipe(duplex=False)
        self._process = _FORK.Process(
            target=cloud_server.serve, args=(directory / 'journal', tell)
        )
        self._process.start()
        tell.close()
        with told:
            self.url = f'http://127.0.0.1:{told.recv()}'

    def stop(self) -> None:
        self._process.kill()
        self._process.join(PATIENCE)

    def servers(self, count: int, **fields: Any) -> list[str]:
        return self._add('servers', count, fields)

    def volumes(self, count: int, **fields: Any) -> list[str]:
        return self._add('volumes', count, fields)

    def stacks(self, count: int, **fields: Any) -> list[str]:
        return self._add('stacks', count, fields)

    def _add(self, what: str, count: int, fields: Mapping[str, Any]) -> list[str]:
        return [each['id'] for each in self.order(what, [fields] * count)]

    def attach(self, volume_id: str, server_id: str) -> None:
        self.order('attachments', [{'volume_id': volume_id, 'server_id': server_id}])

    def journal(self) -> list[Mapping[str, Any]]:
        found: list[Mapping[str, Any]] = self.call('/fake/journal')[1]
        return found

    def effects(self) -> dict[str, list[str]]:
        """Resource -> what was asked of it and accepted, in order."""
        found: dict[str, list[str]] = {}
        for entry in self.journal():
            found.setdefault(entry['id'], []).append(entry['what'])
        return {key: [e for e in told if not _is_own(e)] for key, told in found.items()}


def _is_own(what: str) -> bool:
    """Tell whether the cloud did something by itself, or for the test."""
    return what in ('trust create', 'image complete') or what.endswith(
        ('server create', 'volume create', 'attachment create', 'stack create', ' is', ' gone')
    )


class Manager:
    """One climate-manager; it is forked from a process that has imported everything already.

    :param target: what it does instead, see :mod:`tests.kill.start_manager`
    """

    def __init__(
        self,
        place: 'Place',
        kill: str | None,
        target: Callable[..., None] = start_manager.run,
        *given: Any,
    ) -> None:
        self._place = place
        told, tell = _FORK.Pipe(duplex=False)
        args = (place.config, kill, place.log_file, tell, *given)
        self._process = _FORK.Process(target=target, args=args)
        self._process.start()
        tell.close()
        self._reader = threading.Thread(target=_pass_on, args=(told, place.reached), daemon=True)
        self._reader.start()

    def dies(self) -> None:
        """Wait until it has died at its point."""
        self._process.join(PATIENCE)
        assert self._process.exitcode == -signal.SIGKILL
        self._reader.join(PATIENCE)

    def ends(self) -> None:
        """Wait until it has done its request."""
        self._process.join(PATIENCE)
        assert self._process.exitcode == 0
        self._reader.join(PATIENCE)

    @property
    def lives(self) -> bool:
        return self._process.exitcode is None

    @property
    def stands_still(self) -> bool:
        """Whether it has reached the point at which it stands still (proc(5), stat)."""
        assert self.lives, self._place.log()
        stat = pathlib.Path(f'/proc/{self._process.pid}/stat').read_text(encoding='utf-8')
        return stat.rpartition(')')[2].split()[0] == 'T'

    def goes_on(self) -> None:
        """Let it go on that stood still."""
        assert self._process.pid
        os.kill(self._process.pid, signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        self._process.join(PATIENCE)
        self._reader.join(PATIENCE)


def _pass_on(told: Connection, queue_: 'queue.SimpleQueue[str]') -> None:
    with told:
        while True:
            try:
                queue_.put(told.recv())
            except EOFError:
                queue_.put('')
                return


class Place:
    """Where one test happens.

    :param url: of an empty database
    """

    def __init__(self, directory: pathlib.Path, url: str, cloud: Cloud) -> None:
        self.directory = directory
        self.cloud = cloud
        self.database: Database = leases.create(url)
        self.config = directory / 'climate.conf'
        self.config.write_text(_config(url, cloud.url, directory), encoding='utf-8')
        self.log_file = directory / 'manager.log'
        self.log_file.touch()
        self.notices = directory / 'notices.log'
        self.notices.touch()
        self.reached: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._managers: list[Manager] = []

    def manager(self, kill: str | None = None, claims_expire: bool = True) -> Manager:
        """Start a manager.

        :param claims_expire: if nobody lives, the claims of the dead have expired when it starts;
            otherwise it has to wait for that
        """
        if claims_expire and self._managers and not any(each.lives for each in self._managers):
            leases.expire_claims(self.database)
        return self._start(kill)

    def notified(self, server: str, kill: str | None = None) -> Manager:
        """Start a manager that Nova tells of a server after each look at its start."""
        return self._start(kill, start_manager.run_notified, server)

    def _start(self, kill: str | None, *does: Any) -> Manager:
        started = Manager(self, kill, *does)
        self._managers.append(started)
        return started

    def survive(self, kill: str) -> None:
        """Let a manager die at a point, and start the next one."""
        self.manager(kill).dies()
        self.manager()

    def request(self, values: Mapping[str, Any], kill: str | None = None) -> Manager:
        """Have the lease of a request of alice made."""
        return self.ask('create_lease', values, kill=kill)

    def ask(self, name: str, *given: Any, kill: str | None = None) -> Manager:
        """Have an operation on leases done for alice."""
        token = self.cloud.token('alice')
        return self._start(kill, start_manager.request, token, name, *given)

    def create_at_once(self, *given: Mapping[str, Any], kill: str | None = None) -> Manager:
        """Have leases of alice made by requests that come at once."""
        token = self.cloud.token('alice')
        return self._start(kill, start_manager.create_at_once, token, *given)

    def operate(self, name: str, *given: Any, kill: str | None = None) -> Manager:
        """Have an operation on hosts done."""
        return self._start(kill, start_manager.operate, name, *given)

    def delete_retired_trusts(self, kill: str | None = None) -> Manager:
        """Look once for trusts that no lease needs."""
        return self._start(kill, start_manager.delete_retired_trusts)

    def kill_all(self) -> None:
        for each in self._managers:
            each.kill()

    def close(self) -> None:
        self.kill_all()
        self.database.dispose()

    def orphans(self, resource_type: str) -> Iterator[str]:
        """Return the resources that wait for a lease that is not there."""
        return reconciliation.find_orphans(self.database, self._plugin(resource_type))

    def undo_locks(self, resource_type: str) -> list[str]:
        """Unlock what leases have left, as the comparison does; return what it was."""
        return list(reconciliation.undo_locks(self.database, self._plugin(resource_type)))

    def discard(self, resource_type: str, resource_id: str) -> None:
        self._plugin(resource_type).discard(resource_id)

    def _plugin(self, resource_type: str) -> ResourcePlugin:
        conf, cloud = self.own()
        return loading.load_plugins(conf, cloud)[resource_type]

    def own(self) -> tuple[cfg.ConfigOpts, CloudOfConf]:
        """Return the configuration of the managers and their way to the cloud, for the test."""
        conf = configuration.load([], [str(self.config)])
        return conf, CloudOfConf(conf)

    def until(self, happened: Callable[[], bool]) -> None:
        """Wait for something; it is looked at again whenever a manager reaches a point.

        What is last may come after the last point (a commit has one before it only): it is looked
        at each second as well.
        """
        last = time.monotonic()
        while not happened():
            with contextlib.suppress(queue.Empty):
                self.reached.get(timeout=1.0)
                last = time.monotonic()
            if time.monotonic() - last > PATIENCE:
                raise AssertionError(self.log())
            while not self.reached.empty():
                self.reached.get()

    def lease(self, lease: Lease) -> Lease:
        return leases.read(self.database, lease.id)

    def is_over(self, lease: Lease) -> bool:
        """Tell whether the lease has ended and nothing is left of its trust."""
        found = self.lease(lease)
        return found.status == 'TERMINATED' and found.trust_id is None

    def images(self) -> int:
        """Return the number of images that were made."""
        return self.made('image create')

    def made(self, what: str) -> int:
        """Count the entries of a kind in the cloud's journal."""
        return [entry['what'] for entry in self.cloud.journal()].count(what)

    def log(self) -> str:
        return self.log_file.read_text(encoding='utf-8')[-5000:]

    def told(self, event_type: str) -> list[Mapping[str, Any]]:
        """Return the payloads of the notifications of a type that were sent, from the log.

        A manager may be writing the last line: what has no end yet is not sent yet.
        """
        found = []
        for line in self.notices.read_text(encoding='utf-8').split('\n')[:-1]:
            _, _, body = line.partition(' ')
            notice = json.loads(body)
            if notice['event_type'] == event_type:
                found.append(notice['payload'])
        return found


_CONFIG = """\
[DEFAULT]
transport_url = fake:/
log_config_append = {directory}/logging.conf
state_path = {directory}
[database]
connection = {database}
[engine]
claim_ttl = 1.0
idle_seconds = 600
[manager]
host = 127.0.0.1
[nova_notifications]
enabled = false
[cinder_notifications]
enabled = false
[heat_notifications]
enabled = false
[webhooks]
timeout_seconds = 1
allowed_networks = 127.0.0.0/8
[reconcile]
interval = 86400
[hosts]
lanes_per_host = 1
enrol_seconds = 0

[queue]
retry_interval = 1
preemption_notice = 0
[physical:host]
prepare_seconds = 7200
[flavor:instance]
prepare_seconds = 7200
[oslo_messaging_notifications]
driver = log
[cloud]
{cloud}
"""

_LOGGING = """\
[loggers]
keys = root, notices
[handlers]
keys = stderr, notices
[formatters]
keys = line
[logger_root]
level = INFO
handlers = stderr
[logger_notices]
level = INFO
handlers = notices
propagate = 0
qualname = oslo.messaging.notification
[handler_stderr]
class = StreamHandler
args = (sys.stderr,)
formatter = line
[handler_notices]
class = FileHandler
args = ('{directory}/notices.log', 'a')
formatter = line
[formatter_line]
format = %(name)s %(message)s
"""


def _config(database: str, cloud: str, directory: pathlib.Path) -> str:
    logging = directory / 'logging.conf'
    logging.write_text(_LOGGING.format(directory=directory), encoding='utf-8')
    options = '\n'.join(f'{k} = {v}' for k, v in settings.cloud_options(cloud).items())
    escaped = database.replace('$', '$$')
    return _CONFIG.format(database=escaped, cloud=options, directory=directory)


@contextlib.contextmanager
def place(directory: pathlib.Path, url: str) -> Iterator[Place]:
    """Make a place and take everything down again."""
    cloud = Cloud(directory)
    try:
        made = Place(directory, url, cloud)
        try:
            yield made
        finally:
            made.close()
    finally:
        cloud.stop()
