# SPDX-License-Identifier: Apache-2.0
"""The passwords and keys of one cloud, made once and kept beside its data."""

import base64
import json
import os
import pathlib
import secrets

from cryptography.fernet import Fernet
from cryptography.hazmat.primitives.asymmetric import x25519

_PASSWORDS = (
    'database',
    'rabbitmq',
    'service',
    'admin',
    'demo',
    'alt',
    'heat_domain',
    'cookie',
    'horizon',
    # Of the users of RabbitMQ besides the administrator.
    'openstack',
    'climate',
    'nova-notify',
    'cinder-notify',
    'heat-notify',
    'climate-notify',
)


def load(data: pathlib.Path) -> dict[str, str]:
    """Return every secret by name, making those that are not there yet.

    :param data: the directory that `down` keeps and `destroy` removes
    """
    path = data / 'secrets.json'
    kept = json.loads(path.read_text()) if path.exists() else {}
    made = {name: secrets.token_hex(16) for name in _PASSWORDS}
    made['heat_key'] = secrets.token_hex(16)
    for name in ('nova_key', 'climate_key'):
        made[name] = Fernet.generate_key().decode()
    values = made | kept
    if values != kept:
        data.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix('.new')
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 'w') as file:
            json.dump(values, file, indent=2)
        draft.rename(path)
    return values


def public_key(key: str) -> str:
    """Return the public key for the computes, as `climate-nova-stash public` prints it."""
    private = x25519.X25519PrivateKey.from_private_bytes(base64.urlsafe_b64decode(key))
    return base64.urlsafe_b64encode(private.public_key().public_bytes_raw()).decode()


def write_keystone_keys(directory: pathlib.Path) -> None:
    """Make a key repository as `keystone-manage fernet_setup` does: 0 is staged, 1 is primary."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    for name in ('0', '1'):
        path = directory / name
        if not path.exists():
            path.write_bytes(Fernet.generate_key())
            path.chmod(0o600)
