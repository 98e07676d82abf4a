# SPDX-License-Identifier: Apache-2.0
"""Save the arguments of a build that nova keeps nowhere, from the reservation to the start.

They are the admin password, files to inject, and the requested networks with their tags. They lie
in ``instance_system_metadata`` of the cell: they survive the host and nova-compute, are deleted
with the server, and no API or notification shows them.

nova-compute seals them as a whole with a public key, for this server alone, and cannot open them.
nova-api has the private keys. It opens them at the start of the server, and sends them to the one
nova-compute that builds it, in nova's own message. So nova-compute reads the secrets of the
servers that it was asked to build, as in any nova, and no others. Without a key the password is
not saved, and files are rejected.
"""

import base64
import json
import logging
import zlib
from collections.abc import Mapping, MutableMapping
from typing import Any, Final

from oslo_config import cfg

from climate_common import sealing

LOG = logging.getLogger(__name__)

PREFIX = 'climate_stash_'
#: Length of ``instance_system_metadata.value``.
_ROW = 255
#: What the text begins with.
_BOX: Final = 'box:'
_OPEN: Final = 'open:'


class SavedArgsUnreadable(Exception):
    """No key of nova-api decrypts the saved arguments."""


def save(
    metadata: MutableMapping[str, str], values: Mapping[str, Any], public: str | None, uuid: str
) -> None:
    """Save values; nothing if all are empty.

    :param metadata: ``instance.system_metadata``
    :param values: JSON types; ``password`` is dropped if there is no key
    :param public: the public key that encrypts
    :param uuid: of the server, the only one for which they can be opened
    """
    remove(metadata)
    if not public and values.get('password'):
        LOG.warning('Set [climate] stash_public_key to keep the admin password of server %s', uuid)
        values = {**values, 'password': None}  # nosec B105 # no password
    if not any(values.values()):
        return
    if public:
        text = _BOX + sealing.seal_with_public_key(values, public, uuid)
    else:
        text = _OPEN + base64.b64encode(zlib.compress(json.dumps(values).encode())).decode()
    for row, begin in enumerate(range(0, len(text), _ROW)):
        metadata[f'{PREFIX}{row:04d}'] = text[begin : begin + _ROW]


def load(metadata: Mapping[str, str], keys: list[str], uuid: str) -> dict[str, Any]:
    """Return the saved values; empty if there are none.

    :param keys: private keys, any of which may fit
    :raises SavedArgsUnreadable: none of the keys fits, or they are those of another server
    """
    text = _text(metadata)
    if not text:
        return {}
    try:
        if text.startswith(_BOX):
            return sealing.unseal_with_private_keys(text.removeprefix(_BOX), keys, uuid)
        return json.loads(zlib.decompress(base64.b64decode(text.removeprefix(_OPEN))))
    except (ValueError, zlib.error) as error:
        raise SavedArgsUnreadable(
            f'[climate] stash_keys of nova-api has no key that opens the saved password and files '
            f'of server {uuid}: add the key that nova-compute sealed them with'
        ) from error


def exist(metadata: Mapping[str, str]) -> bool:
    """Return whether there are saved values."""
    return any(key.startswith(PREFIX) for key in metadata)


def is_sealed(metadata: Mapping[str, str]) -> bool:
    """Return whether there are saved values that need a key."""
    return _text(metadata).startswith(_BOX)


def is_current(metadata: Mapping[str, str], key: str, uuid: str) -> bool:
    """Return whether a key opens the saved values, and they are bound to this server."""
    try:
        load(metadata, [key], uuid)
    except SavedArgsUnreadable:
        return False
    return _text(metadata).startswith(_BOX)


def public_key(conf: cfg.ConfigOpts) -> str | None:
    """Return the key with which nova-compute seals; None if it has none.

    :param conf: the section ``[climate]`` of nova.conf; where nova-api and nova-compute read the
        same file, the private key is enough
    """
    return conf.stash_public_key or (
        sealing.public_key(conf.stash_keys[0]) if conf.stash_keys else None
    )


def check_keys(conf: cfg.ConfigOpts) -> None:
    """Check the keys of nova.conf: when a service starts, not when a server needs one.

    :param conf: the section ``[climate]`` of nova.conf
    :raises ValueError: one is no key
    """
    for name, keys in (
        ('stash_keys', conf.stash_keys),
        ('stash_public_key', [conf.stash_public_key] if conf.stash_public_key else []),
    ):
        try:
            sealing.check_keys(keys)
        except ValueError as error:
            raise ValueError(
                f'[climate] {name}: each key must be 32 bytes in URL-safe base64 ({error})'
            ) from error


def remove(metadata: MutableMapping[str, str]) -> None:
    """Remove the saved values."""
    for key in [key for key in metadata if key.startswith(PREFIX)]:
        del metadata[key]


def _text(metadata: Mapping[str, str]) -> str:
    return ''.join(metadata[key] for key in sorted(metadata) if key.startswith(PREFIX))
