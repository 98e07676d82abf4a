# SPDX-License-Identifier: Apache-2.0
"""What is in the pools of cinder, as Ceph itself says: rbd(8), not Cinder."""

import hashlib
import json
import subprocess
from typing import Any

from tests.cloud.people import STATE

CONFIG = STATE / 'etc' / 'ceph' / 'ceph.conf'
#: Size of the image that the tests fill with bytes.
IMAGE_BYTES = 4 * 2**20
POOL = 'volumes'
BACKUPS = 'backups'


def image_of(volume_id: str) -> str:
    """Name the image of a volume (cinder's ``volume_name_template``)."""
    return f'volume-{volume_id}'


def image_of_backup(backup: Any) -> str:
    """Name the image of a backup (CephBackupDriver._get_backup_base_name)."""
    return f'volume-{backup.volume_id}.backup.{backup.id}'


def images(pool: str = POOL) -> list[str]:
    """Name every image in a pool, those included that only a clone keeps alive."""
    return json.loads(_rbd('--format', 'json', 'ls', pool))


def used_bytes(name: str) -> int:
    """Count the bytes that are written of an image, its snapshots left out.

    :param name: one of :func:`images`
    :raises AssertionError: there is no such image
    """
    answer = json.loads(_rbd('--format', 'json', 'du', '--exact', f'{POOL}/{name}'))
    (found,) = [image for image in answer['images'] if 'snapshot' not in image]
    return found['used_size']


def digest(name: str) -> str:
    """Say what all bytes of an image of a volume are, as SHA-256."""
    with subprocess.Popen(
        [*_command(), 'export', '--no-progress', f'{POOL}/{name}', '-'], stdout=subprocess.PIPE
    ) as export:
        found = hashlib.file_digest(export.stdout, 'sha256').hexdigest()
    assert export.returncode == 0
    return found


def _command() -> list[str]:
    assert CONFIG.exists(), 'no Ceph here: CLIMATE_CLOUD_CEPH=1 devstack/local/cloud up'
    return ['rbd', '-c', str(CONFIG), '--id', 'cinder']


def _rbd(*arguments: str) -> str:
    command = [*_command(), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 0, done.stderr
    return done.stdout
