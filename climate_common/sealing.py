# SPDX-License-Identifier: Apache-2.0
"""Encrypt what users entrust to us until it is used, as the admin password of a server."""

import hashlib
import hmac
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


def digests(text: str, lease_id: str, keys: Sequence[str]) -> list[str]:
    """Return digests of what a user says, by which a repeated request is found.

    The text may have passwords, so nobody may check a guess of one against its digest. No API
    returns a digest, but the database and its dumps have it. Only the operator's keys, which are
    in climate.conf, compute it from a guess. Without a key a reader of the database can guess
    short secrets: only hidden parameters of templates, since other secrets need a key.

    :param lease_id: equal texts of two leases have different digests
    :returns: in hexadecimal, one for each key, then the one without a key; the first is stored,
        all are compared, so that keys can be added and rotated
    """
    message = lease_id.encode() + hashlib.sha256(text.encode()).digest()
    return [hmac.new(key.encode(), message, 'sha256').hexdigest() for key in (*keys, '')]


def check_keys(keys: Sequence[str]) -> None:
    """Do nothing if all are Fernet keys.

    :raises ValueError: one is none
    """
    _ = [fernet.Fernet(key) for key in keys]


def _box(keys: Sequence[str]) -> fernet.MultiFernet:
    return fernet.MultiFernet([fernet.Fernet(key) for key in keys])
