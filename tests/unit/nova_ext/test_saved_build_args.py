# SPDX-License-Identifier: Apache-2.0
"""What is kept between the two halves of a build."""

import logging
import os

import pytest
from cryptography.fernet import Fernet

from nova_ext import saved_build_args

OLD, NEW = (Fernet.generate_key().decode() for _ in range(2))
VALUES = {'password': 'secret', 'files': [['/a', 'eA==']], 'networks': None}


def test_saved_args_are_loaded_and_removed():
    metadata = {'other': 'x'}
    saved_build_args.save(metadata, VALUES, [NEW])
    assert saved_build_args.load(metadata, [NEW]) == VALUES
    assert 'secret' not in str(metadata)
    saved_build_args.remove(metadata)
    assert metadata == {'other': 'x'}
    assert saved_build_args.load(metadata, [NEW]) == {}


def test_rows_fit_and_keep_their_order():
    metadata = {}
    files = [['/etc/motd', os.urandom(5000).hex()]]
    saved_build_args.save(metadata, {'files': files}, [NEW])
    assert len(metadata) > 11
    assert max(map(len, metadata.values())) <= 255
    shuffled = dict(reversed(metadata.items()))
    assert saved_build_args.load(shuffled, [NEW])['files'] == files


def test_saving_again_leaves_nothing_of_before():
    metadata = {}
    saved_build_args.save(metadata, {'files': [['a', os.urandom(1000).hex()]]}, [NEW])
    saved_build_args.save(metadata, VALUES, [NEW])
    assert saved_build_args.load(metadata, [NEW]) == VALUES


def test_saved_args_are_read_with_an_older_key():
    metadata = {}
    saved_build_args.save(metadata, VALUES, [OLD])
    assert saved_build_args.load(metadata, [NEW, OLD]) == VALUES
    with pytest.raises(saved_build_args.SavedArgsUnreadable):
        saved_build_args.load(metadata, [NEW])
    with pytest.raises(saved_build_args.SavedArgsUnreadable):
        saved_build_args.load(metadata, [])


def test_without_a_key_all_but_the_password_is_kept(caplog):
    metadata = {}
    with caplog.at_level(logging.WARNING):
        saved_build_args.save(metadata, VALUES, [])
    assert 'stash_keys' in caplog.text
    assert saved_build_args.load(metadata, []) == {**VALUES, 'password': None}


def test_damaged_args_are_refused():
    metadata = {}
    saved_build_args.save(metadata, VALUES, [])
    (row,) = metadata
    metadata[row] = metadata[row][:-8]
    with pytest.raises(saved_build_args.SavedArgsUnreadable):
        saved_build_args.load(metadata, [])


def test_what_is_no_key_is_found_at_the_start():
    saved_build_args.check_keys([OLD, NEW])
    saved_build_args.check_keys([])
    with pytest.raises(ValueError, match='stash_keys'):
        saved_build_args.check_keys([OLD, 'secret'])
