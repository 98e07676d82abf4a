# SPDX-License-Identifier: Apache-2.0
"""Encrypt secrets of users until they are used, as the admin password of a server.

Climate's database is sealed with a ring of keys. What nova-compute stores is sealed with a public
key, which opens nothing; nova-api has the private one. Either way the text is bound to the object
that it belongs to: copied to another object it does not open.
"""

import base64
import hashlib
import hmac
import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from cryptography import exceptions, fernet
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import x25519
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

#: Bytes of a key.
_SIZE: Final = 32
#: Each text of :func:`seal_with_public_key` has a dedicated key, so the nonce need not differ.
_NONCE: Final = bytes(12)


class Unreadable(ValueError):
    """None of the keys decrypts it, or it was sealed for another object."""


class Unopened(dict[str, Any]):
    """Stand for values that no key opens, where a row is read all the same.

    :param text: the sealed text, which is stored again
    """

    def __init__(self, values: Mapping[str, Any], text: str) -> None:
        super().__init__(values)
        self.text = text


def seal(values: Mapping[str, Any], keys: Sequence[str], owner: str) -> str:
    """Return values as a text that says nothing without a key.

    :param values: JSON types
    :param keys: Fernet keys, at least one; the first encrypts
    :param owner: the object that they belong to
    """
    return _box(keys).encrypt(_pack([owner, values])).decode()


def unseal(text: str, keys: Sequence[str], owner: str) -> dict[str, Any]:
    """Return what was sealed.

    :raises Unreadable: none of the keys decrypts it, or it belongs to another object
    """
    found = _open(text, keys)
    if found[0] != owner:
        raise Unreadable('it was sealed for another object')
    values: dict[str, Any] = found[1]
    return values


def _open(text: str, keys: Sequence[str]) -> Any:
    try:
        return _unpack(_box(keys).decrypt(text.encode()))
    except (fernet.InvalidToken, ValueError, zlib.error) as error:
        raise Unreadable(str(error) or 'none of the keys decrypts it') from error


def public_key(key: str) -> str:
    """Return the public key of a private key: of the same form."""
    return _text(_private(key).public_key().public_bytes_raw())


def seal_with_public_key(values: Mapping[str, Any], public: str, owner: str) -> str:
    """Return values as a text that only the owner of the private key reads.

    :param values: JSON types
    :param public: see :func:`public_key`
    :param owner: the object that they belong to
    """
    once = x25519.X25519PrivateKey.generate()
    ours = once.public_key().public_bytes_raw()
    shared = once.exchange(x25519.X25519PublicKey.from_public_bytes(_bytes(public)))
    box = _box_of(shared, ours + _bytes(public))
    return _text(ours + box.encrypt(_NONCE, _pack(values), owner.encode()))


def unseal_with_private_keys(text: str, keys: Sequence[str], owner: str) -> dict[str, Any]:
    """Return what was sealed with one of the public keys of private keys.

    :raises Unreadable: it was with none of them, or it belongs to another object
    """
    for key in keys:
        try:
            found = base64.urlsafe_b64decode(text)
            theirs, sealed = found[:_SIZE], found[_SIZE:]
            shared = _private(key).exchange(x25519.X25519PublicKey.from_public_bytes(theirs))
            box = _box_of(shared, theirs + _private(key).public_key().public_bytes_raw())
            values: dict[str, Any] = _unpack(box.decrypt(_NONCE, sealed, owner.encode()))
        except (exceptions.InvalidTag, ValueError, zlib.error):
            continue
        return values
    raise Unreadable('none of the keys decrypts it for this object')


def digests(text: str, lease_id: str, keys: Sequence[str]) -> list[str]:
    """Return the digests of a part of a request, by which a repeated request is found.

    The text may have passwords, so no reader may check a guess against a digest. No API
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
    """Check that each text is a key: 32 bytes in URL-safe base64.

    :raises ValueError: a text is no key
    """
    _ = [fernet.Fernet(key) for key in keys]


def _box(keys: Sequence[str]) -> fernet.MultiFernet:
    if not keys:
        raise Unreadable('there is no key')
    return fernet.MultiFernet([fernet.Fernet(key) for key in keys])


def _box_of(shared: bytes, public: bytes) -> ChaCha20Poly1305:
    derived = HKDF(hashes.SHA256(), _SIZE, salt=None, info=b'climate' + public).derive(shared)
    return ChaCha20Poly1305(derived)


def _private(key: str) -> x25519.X25519PrivateKey:
    return x25519.X25519PrivateKey.from_private_bytes(_bytes(key))


def _pack(values: Any) -> bytes:
    return zlib.compress(json.dumps(values).encode())


def _unpack(packed: bytes) -> Any:
    return json.loads(zlib.decompress(packed))


def _bytes(key: str) -> bytes:
    return base64.urlsafe_b64decode(key)


def _text(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).decode()
