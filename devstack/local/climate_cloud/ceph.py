# SPDX-License-Identifier: Apache-2.0
"""Ceph as ordinary processes: a monitor, one OSD on a sparse file, and a manager that counts.

No kernel module and no device: librbd talks to the OSD, as cinder-volume and qemu do. Options are
those of https://docs.ceph.com/en/pacific/rados/configuration and ``ceph config help``.
"""

import base64
import json
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import time
import uuid

from climate_cloud.processes import Service, ServiceFailed, clean_environment
from climate_cloud.settings import Settings

POOL = 'volumes'
#: The pool of cinder-backup.
BACKUPS = 'backups'
#: The user that cinder-volume and cinder-backup are, without ``client.``.
USER = 'cinder'
#: GiB that the OSD offers; its file is sparse.
SIZE = 10
#: Seconds for one command, the time until the monitor answers included.
COMMAND = 30

_CONFIG = """\
[global]
keyring = {data}/keyring
mon_host = [v2:{host}:{mon}]
public_addr = {host}
cluster_addr = {host}
ms_bind_ipv6 = false
ms_bind_msgr1 = false
# One copy is enough here.
osd_pool_default_size = 1
[client.{user}]
keyring = {data}/{user}.keyring
[mon]
mon_data = {data}/mon
admin_socket = run/ceph-mon.asok
mon_cluster_log_to_file = false
auth_allow_insecure_global_id_reclaim = false
osd_pool_default_pg_autoscale_mode = off
mon_allow_pool_size_one = true
mon_warn_on_pool_no_redundancy = false
mon_data_avail_warn = 2
mon_data_avail_crit = 1
{daemon}
[osd]
osd_data = {data}/osd
admin_socket = run/ceph-osd.asok
osd_objectstore = bluestore
bluestore_block_size = {size}
bluestore_cache_autotune = false
bluestore_cache_size = 33554432
osd_op_queue = wpq
ms_bind_port_min = {osd}
ms_bind_port_max = {last_osd}
{daemon}
[mgr]
mgr_data = {data}/mgr
admin_socket =
# Empty: it counts the bytes of the pools without any module, in an eighth of the memory.
mgr_module_path = {data}/modules
ms_bind_port_min = {mgr}
ms_bind_port_max = {mgr}
{daemon}
"""
# Relative to the state directory, where the processes stay: a socket's name must be short.
_DAEMON = """\
chdir =
run_dir = run
crash_dir = logs
log_to_file = false
log_to_stderr = true
debug_rocksdb = 0"""

_POOLS = ', '.join(f'profile rbd pool={pool}' for pool in (POOL, BACKUPS))
#: Everybody who talks to the cluster, and what each may do (ceph-authtool(8), CAPABILITIES).
CAPABILITIES = {
    'mon.': {'mon': 'allow *'},
    'client.admin': {'mon': 'allow *', 'mgr': 'allow *', 'osd': 'allow *'},
    'osd.0': {'mon': 'allow profile osd', 'mgr': 'allow profile osd', 'osd': 'allow *'},
    'mgr.x': {'mon': 'allow profile mgr', 'osd': 'allow *'},
    f'client.{USER}': {
        'mon': 'profile rbd',
        'mgr': _POOLS,
        'osd': _POOLS,
    },
}


def key() -> str:
    """Make a secret key: base64 of type 1 (AES), seconds, nanoseconds, length, 16 random bytes.

    That is what ``ceph-authtool --gen-print-key`` prints (CryptoKey::encode, src/auth/Crypto.cc).
    """
    header = struct.pack('<HIIH', 1, int(time.time()), 0, 16)
    return base64.b64encode(header + os.urandom(16)).decode()


def keyring(keys: dict[str, str]) -> str:
    """Return the text of a keyring with the capabilities of each.

    :param keys: name of :data:`CAPABILITIES` -> its key
    """
    lines = []
    for name, secret in keys.items():
        lines += [f'[{name}]', f'key = {secret}']
        lines += [f'caps {what} = "{may}"' for what, may in CAPABILITIES[name].items()]
    return '\n'.join([*lines, ''])


def ask(state: pathlib.Path, daemon: str, command: str) -> dict:
    """Ask a daemon through its admin socket.

    :param state: directory of the cloud
    :param daemon: ``ceph-mon`` or ``ceph-osd``
    :param command: one that answers with a JSON object, such as ``status``
    :raises OSError: it does not answer
    :raises ValueError: it does not know the command yet
    """
    directory = os.open(state, os.O_PATH | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(5)
            client.connect(f'/proc/self/fd/{directory}/run/{daemon}.asok')
            client.sendall(json.dumps({'prefix': command}).encode() + b'\0')
            with client.makefile('rb') as answer:
                length = answer.read(4)
                if len(length) < 4:
                    raise ConnectionError(f'{daemon} hung up')
                return json.loads(answer.read(struct.unpack('>I', length)[0]))
    finally:
        os.close(directory)


class Ceph:
    """The storage cluster of one cloud."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.directory = settings.data / 'ceph'
        self.config = settings.etc / 'ceph' / 'ceph.conf'

    def prepare(self) -> None:
        """Write the configuration, and the empty stores the first time.

        :raises ServiceFailed: a store could not be made
        """
        self.config.parent.mkdir(parents=True, exist_ok=True)
        port = self.settings.port
        self.config.write_text(
            _CONFIG.format(
                data=self.directory,
                host=self.settings.host,
                user=USER,
                size=SIZE * 2**30,
                daemon=_DAEMON,
                mon=port('ceph-mon'),
                osd=port('ceph-osd'),
                last_osd=port('ceph-mgr') - 1,
                mgr=port('ceph-mgr'),
            )
        )
        if not self.directory.exists():
            self._create()
        # The name that os-brick looks for, see cinder-ceph.conf.
        name = self.directory / f'ceph.client.{USER}.keyring'
        if not name.is_symlink():
            name.symlink_to(f'{USER}.keyring')

    def _create(self) -> None:
        # Made beside its place and moved, so that an interrupted try leaves nothing behind.
        draft = pathlib.Path(f'{self.directory}.new')
        shutil.rmtree(draft, ignore_errors=True)
        for name in ('mon', 'osd', 'mgr', 'modules'):
            (draft / name).mkdir(parents=True)
        keys = {name: key() for name in CAPABILITIES}
        _write_private(draft / 'keyring', keyring(keys))
        client = f'client.{USER}'
        _write_private(draft / f'{USER}.keyring', keyring({client: keys[client]}))
        host, port = self.settings.host, self.settings.port('ceph-mon')
        fsid = ['--fsid', str(uuid.uuid4())]
        new = ['--mkfs', *fsid, '--keyring', f'{draft}/keyring']
        monmap = f'{draft}/monmap'
        self._run('monmaptool', '--create', *fsid, '--addv', 'a', f'[v2:{host}:{port}]', monmap)
        self._run('ceph-mon', '-i', 'a', *new, '--monmap', monmap, '--mon-data', f'{draft}/mon')
        osd = ['-i', '0', '--no-mon-config', '--osd-uuid', str(uuid.uuid4())]
        self._run('ceph-osd', *osd, *new, '--osd-data', f'{draft}/osd')
        draft.rename(self.directory)

    def _run(self, program: str, *arguments: str) -> str:
        """Run a program of Ceph and return what it printed.

        :raises ServiceFailed: it failed, or took longer than :data:`COMMAND` seconds
        """
        command = [f'/usr/bin/{program}', '-c', str(self.config), *arguments]
        try:
            done = subprocess.run(
                command,
                check=False,
                capture_output=True,
                text=True,
                timeout=COMMAND,
                cwd=self.settings.state,
                env=clean_environment(),
            )
        except subprocess.TimeoutExpired:
            raise ServiceFailed(f'no answer in {COMMAND} s: {" ".join(command)}') from None
        if done.returncode:
            end = '\n'.join(done.stderr.splitlines()[-20:])
            raise ServiceFailed(f'failed: {" ".join(command)}\n{end}')
        return done.stdout

    def make_pools(self) -> None:
        """Make known the OSD, and make the pools; the monitor must serve. Can be repeated.

        :raises ServiceFailed: the monitor refused
        """
        osd = (self.directory / 'osd' / 'fsid').read_text().strip()
        self._run('ceph', 'osd', 'new', osd, '0')
        for pool in (POOL, BACKUPS):
            self._run('ceph', 'osd', 'pool', 'create', pool, '8')
            self._run('ceph', 'osd', 'pool', 'application', 'enable', pool, 'rbd')
        client = f'client.{USER}'
        caps = [word for what in CAPABILITIES[client].items() for word in what]
        self._run('ceph', 'auth', 'caps', client, *caps)
        # Clones whose origin can be deleted before them, as cinder's driver prefers.
        self._run('ceph', 'osd', 'set-require-min-compat-client', 'mimic')
        # The modules that the manager does without.
        self._run('ceph', 'health', 'mute', 'MGR_MODULE_ERROR', '--sticky')

    def services(self) -> list[Service]:
        """Return the daemons, in the order of their start."""
        return [
            self._daemon('ceph-mon', 'a', self.has_quorum),
            self._daemon('ceph-osd', '0', self.osd_is_active),
            self._daemon('ceph-mgr', 'x', self.has_capacity),
        ]

    def _daemon(self, program: str, identity: str, ready) -> Service:
        command = [f'/usr/bin/{program}', '-c', str(self.config), '-i', identity, '-f']
        return Service(program, command, ready, port=program)

    def has_quorum(self) -> bool:
        """Tell whether the monitor serves."""
        return self._state('ceph-mon', 'mon_status') == 'leader'

    def osd_is_active(self) -> bool:
        """Tell whether the OSD serves."""
        return self._state('ceph-osd', 'status') == 'active'

    def _state(self, daemon: str, command: str) -> str | None:
        try:
            return ask(self.settings.state, daemon, command).get('state')
        except (OSError, ValueError):
            return None

    def has_capacity(self) -> bool:
        """Tell whether the manager has said how much room is in the pool.

        cinder's driver does not start before: it looks for the pool in the answer to ``df``
        (RBDDriver._get_pool_stats).
        """
        if not (self.has_quorum() and self.osd_is_active()):
            return False
        try:
            answer = self._run('ceph', 'df', '--format', 'json')
        except ServiceFailed:
            return False
        return room(json.loads(answer)) > 0


def room(df: dict) -> int:
    """Return the bytes that the pool can take yet, 0 when nobody has counted.

    :param df: the answer to ``ceph df --format json``
    """
    return sum(pool['stats']['max_avail'] for pool in df['pools'] if pool['name'] == POOL)


def _write_private(path: pathlib.Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)
