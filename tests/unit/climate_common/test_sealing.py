# SPDX-License-Identifier: Apache-2.0
import pytest
from cryptography.fernet import Fernet

from climate_common import sealing

OLD, NEW = (Fernet.generate_key().decode() for _ in range(2))


def test_unseal_with_a_later_key_returns_the_values() -> None:
    sealed = sealing.seal({'password': 'secret'}, [OLD])
    assert 'secret' not in sealed
    assert sealing.unseal(sealed, [NEW, OLD]) == {'password': 'secret'}


def test_unseal_without_its_key_is_refused() -> None:
    with pytest.raises(sealing.Unreadable):
        sealing.unseal(sealing.seal({}, [OLD]), [NEW])


def test_check_keys_refuses_what_is_no_key() -> None:
    sealing.check_keys([OLD, NEW])
    with pytest.raises(ValueError, match='32 url-safe'):
        sealing.check_keys([OLD, 'secret'])
