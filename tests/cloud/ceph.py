# SPDX-License-Identifier: Apache-2.0
"""What is in the pool of cinder's volumes, as Ceph itself says: rbd(8), not Cinder."""

import json
import subprocess
from typing import Any

from tests.cloud.conftest import STATE

CONFIG = STATE / 'etc' / 'ceph' / 'ceph.conf'
POOL = 'volumes'


def image_of(volume_id: str) -> str:
    """Name the image of a volume (cinder's ``volume_name_template``)."""
    return f'volume-{volume_id}'


def images() -> list[str]:
    """Name every image in the pool, those included that only a clone keeps alive."""
    return _rbd('ls', POOL)


def used_bytes(name: str) -> int:
    """Count the bytes that are written of an image, its snapshots left out.

    :param name: one of :func:`images`
    :raises AssertionError: there is no such image
    """
    answer = _rbd('du', '--exact', f'{POOL}/{name}')
    (found,) = [image for image in answer['images'] if 'snapshot' not in image]
    return found['used_size']


def _rbd(*arguments: str) -> Any:
    assert CONFIG.exists(), 'no Ceph here: CLIMATE_CLOUD_CEPH=1 devstack/local/cloud up'
    command = ['rbd', '-c', str(CONFIG), '--id', 'cinder', '--format', 'json', *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
