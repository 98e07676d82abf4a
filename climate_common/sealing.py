# SPDX-License-Identifier: Apache-2.0
"""Encrypt what users entrust to us until it is used, as the admin password of a server."""

import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from cryptography import fernet


class Unreadable(ValueError):
    """None of the keys decrypts it."""


def seal(values: Mapping[str, Any], keys: Sequence[str]) -> str:
    """Return values as a text that says nothing without a key.

    :param values: JSON types
    :param keys: Fernet keys, at least one; the first encrypts
    """
    return _box(keys).encrypt(zlib.compress(json.dumps(values).encode())).decode()


def unseal(text: str, keys: Sequence[str]) -> dict[str, Any]:
    """Return what was sealed.

    :raises Unreadable: none of the keys fits
    """
    try:
        found: dict[str, Any] = json.loads(zlib.decompress(_box(keys).decrypt(text.encode())))
    except (fernet.InvalidToken, ValueError, zlib.error) as error:
        raise Unreadable(str(error) or 'none of the keys decrypts it') from error
    return found


def check_keys(keys: Sequence[str]) -> None:
    """Do nothing if all are Fernet keys.

    :raises ValueError: one is none
    """
    _ = [fernet.Fernet(key) for key in keys]


def _box(keys: Sequence[str]) -> fernet.MultiFernet:
    return fernet.MultiFernet([fernet.Fernet(key) for key in keys])
