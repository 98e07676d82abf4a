# SPDX-License-Identifier: Apache-2.0

import pytest
from cryptography.fernet import Fernet

from climate_common import sealing

OLD, NEW = (Fernet.generate_key().decode() for _ in range(2))


def test_unseal_with_a_later_key_returns_the_values() -> None:
    sealed = sealing.seal({'password': 'secret'}, [OLD], 'lease')
    assert 'secret' not in sealed
    assert sealing.unseal(sealed, [NEW, OLD], 'lease') == {'password': 'secret'}


def test_unseal_without_its_key_is_refused() -> None:
    for keys in ([NEW], []):
        with pytest.raises(sealing.Unreadable):
            sealing.unseal(sealing.seal({}, [OLD], 'lease'), keys, 'lease')


def test_unseal_for_another_object_is_rejected() -> None:
    sealed = sealing.seal({'password': 'secret'}, [NEW], 'lease')
    with pytest.raises(sealing.Unreadable, match='another object'):
        sealing.unseal(sealed, [NEW], 'other')


def test_public_key_seals_and_does_not_open() -> None:
    public = sealing.public_key(NEW)
    sealed = sealing.seal_with_public_key({'password': 'secret'}, public, 'server')
    assert sealing.unseal_with_private_keys(sealed, [OLD, NEW], 'server') == {'password': 'secret'}
    assert sealed != sealing.seal_with_public_key({'password': 'secret'}, public, 'server')
    for keys, owner in (([public], 'server'), ([OLD], 'server'), ([NEW], 'other'), ([], 'server')):
        with pytest.raises(sealing.Unreadable):
            sealing.unseal_with_private_keys(sealed, keys, owner)
    for damaged in (sealed[:-4], '', 'AAAA', 'no base64'):
        with pytest.raises(sealing.Unreadable):
            sealing.unseal_with_private_keys(damaged, [NEW], 'server')


def test_check_keys_refuses_what_is_no_key() -> None:
    sealing.check_keys([OLD, NEW])
    with pytest.raises(ValueError, match='32 url-safe'):
        sealing.check_keys([OLD, 'secret'])
