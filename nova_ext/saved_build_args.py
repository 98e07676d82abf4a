# SPDX-License-Identifier: Apache-2.0
"""Save the arguments of a build that nova keeps nowhere, from the reservation to the start.

They are the admin password, files to inject, and the requested networks with their tags. They lie
in ``instance_system_metadata`` of the cell: they survive the host and nova-compute, are deleted
with the server, and no API or notification shows them. With a key they are encrypted as a whole;
without one the password is not saved.
"""

import base64
import json
import logging
import zlib
from collections.abc import Mapping, MutableMapping
from typing import Any

from climate_common import sealing

LOG = logging.getLogger(__name__)

PREFIX = 'climate_stash_'
#: Length of ``instance_system_metadata.value``.
_ROW = 255
_SEALED, _OPEN = 'sealed:', 'open:'


class SavedArgsUnreadable(Exception):
    """No key of this nova-compute decrypts the saved arguments."""


def save(metadata: MutableMapping[str, str], values: Mapping[str, Any], keys: list[str]) -> None:
    """Save values.

    :param metadata: ``instance.system_metadata``
    :param values: JSON types; ``password`` is dropped if there is no key
    :param keys: Fernet keys; the first encrypts
    """
    remove(metadata)
    if not keys and values.get('password'):
        LOG.warning('Set [climate] stash_keys to keep the admin password of a reserved server')
        values = {**values, 'password': None}
    if keys:
        text = _SEALED + sealing.seal(values, keys)
    else:
        text = _OPEN + base64.b64encode(zlib.compress(json.dumps(values).encode())).decode()
    for row, begin in enumerate(range(0, len(text), _ROW)):
        metadata[f'{PREFIX}{row:04d}'] = text[begin : begin + _ROW]


def load(metadata: Mapping[str, str], keys: list[str]) -> dict[str, Any]:
    """Return the saved values; empty if there are none.

    :raises SavedArgsUnreadable: none of the keys fits
    """
    text = ''.join(metadata[key] for key in sorted(metadata) if key.startswith(PREFIX))
    if not text:
        return {}
    try:
        if text.startswith(_SEALED):
            return sealing.unseal(text.removeprefix(_SEALED), keys)
        return json.loads(zlib.decompress(base64.b64decode(text.removeprefix(_OPEN))))
    except (ValueError, zlib.error) as error:
        raise SavedArgsUnreadable(
            '[climate] stash_keys must have the key that was its first when the server was '
            'reserved: none of its keys decrypts the saved password and files'
        ) from error


def check_keys(keys: list[str]) -> None:
    """Check the keys of nova.conf: when nova-compute starts, not when a server needs one.

    :raises ValueError: one is no Fernet key
    """
    try:
        sealing.check_keys(keys)
    except ValueError as error:
        raise ValueError(
            f'[climate] stash_keys: each must be 32 bytes in URL-safe base64 ({error})'
        ) from error


def remove(metadata: MutableMapping[str, str]) -> None:
    """Remove the saved values."""
    for key in [key for key in metadata if key.startswith(PREFIX)]:
        del metadata[key]
