# SPDX-License-Identifier: Apache-2.0
"""climate-nova-stash: the keys of what reserved servers need at their start are rotated."""

import contextlib
import io
import subprocess
import sys

import pytest
from cryptography.fernet import Fernet

from climate_common import sealing
from nova_ext import saved_build_args
from nova_ext.cmd import stash
from tests.functional.nova.base import KEY
from tests.functional.nova.woken import WakeUpTest

NEW = Fernet.generate_key().decode()


class TestStash(WakeUpTest):
    def run_command(self, command, keys):
        told = io.StringIO()
        with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
            status = command(keys)
        return status, told.getvalue().splitlines()

    def test_rotation_in_three_steps_reads_all_at_every_step(self):
        servers = [self.reserve(adminPass='correct horse') for _ in range(3)]
        self.boot()
        # 1. The new key is the second of nova-api: it opens, and seals nothing.
        self.flags(stash_keys=[KEY, NEW], group='climate')
        assert self.run_command(stash.check, [KEY, NEW]) == (
            0,
            ['Key 1: 3 servers', 'Key 2: 0 servers'],
        )
        # 2. The computes seal with it, one after the other.
        self.flags(stash_public_key=sealing.public_key(NEW), group='climate')
        servers.append(self.reserve(adminPass='correct horse'))
        self.wake_up(servers.pop(0))
        assert self.spawned.last['password'] == 'correct horse'
        # 3. It is the first.
        self.flags(stash_keys=[NEW, KEY], group='climate')
        assert self.run_command(stash.check, [NEW, KEY]) == (
            1,
            ['Key 1: 1 servers', 'Key 2: 2 servers'],
        )
        assert self.run_command(stash.check, [NEW])[0] == 1
        status, told = self.run_command(stash.rotate, [NEW, KEY])
        assert (status, told[-1]) == (0, '2 servers are sealed with the first key, 0 are left')
        assert self.run_command(stash.rotate, [NEW, KEY])[1][-1].startswith('0 servers')
        # The old key is removed.
        self.flags(stash_keys=[NEW], group='climate')
        assert self.run_command(stash.check, [NEW]) == (0, ['Key 1: 3 servers'])
        for server in servers:
            self.wake_up(server)
            self.assert_status(server, 'ACTIVE')
            assert self.spawned.last['password'] == 'correct horse'

    def test_rotation_leaves_what_no_key_opens_and_what_is_started(self):
        lost, started, other = (self.reserve() for _ in range(3))
        instance = self.instance(lost)
        saved_build_args.save(
            instance.system_metadata, {'password': 'x'}, sealing.public_key(NEW), lost['id']
        )
        instance.save()
        self.write(started, task_state='scheduling')
        another = Fernet.generate_key().decode()
        status, told = self.run_command(stash.rotate, [another, KEY])
        assert status == 1
        assert told[-1] == '1 servers are sealed with the first key, 2 are left'
        assert any(lost['id'] in line for line in told)
        assert any(f'{started["id"]} is changing' in line for line in told)
        assert saved_build_args.is_current(
            self.instance(other).system_metadata, another, other['id']
        )
        status, told = self.run_command(stash.check, [another, KEY])
        assert (status, told[:2]) == (1, ['Key 1: 1 servers', 'Key 2: 1 servers'])
        assert told[2] == f'No key opens the saved arguments of server {lost["id"]}'


@pytest.fixture
def run(tmp_path):
    """Run the command with a nova.conf that has some lines; return what it prints."""

    def run_command(*arguments, lines=''):
        file = tmp_path / 'nova.conf'
        file.write_text(f'[climate]\n{lines}')
        code = 'import sys; from nova_ext.cmd import stash; sys.exit(stash.main())'
        words = [sys.executable, '-c', code, '--config-file', str(file), *arguments]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
        return done.returncode, done.stdout, done.stderr

    return run_command


def test_command_prints_a_key_and_its_public_key(run):
    status, key, _ = run('generate')
    assert status == 0
    sealing.check_keys([key.strip()])
    status, public, trouble = run('public', lines=f'stash_keys = {key}')
    assert (status, public.strip()) == (0, sealing.public_key(key.strip())), trouble


def test_command_without_keys_names_the_option(run):
    for lines in ('', 'stash_keys = secret'):
        status, printed, trouble = run('check', lines=lines)
        assert (status, printed) == (1, '')
        assert 'climate-nova-stash: [climate] stash_keys' in trouble
