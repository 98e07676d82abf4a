# SPDX-License-Identifier: Apache-2.0
"""What is kept between the two halves of a build."""

import logging
import os

import pytest
from cryptography.fernet import Fernet
from oslo_config import cfg

from climate_common import sealing
from nova_ext import conf, saved_build_args

OLD, NEW = (Fernet.generate_key().decode() for _ in range(2))
PUBLIC = sealing.public_key(NEW)
VALUES = {'password': 'secret', 'files': [['/a', 'eA==']], 'networks': None}
UUID = '5b0d3c0e-6d8e-4a57-9f0b-1f1f3d5d9a11'
OTHER = '77d0a3f2-8f2c-4c9b-9a1e-2c5f3f0b6d22'


def test_saved_args_are_loaded_and_removed():
    metadata = {'other': 'x'}
    saved_build_args.save(metadata, VALUES, PUBLIC, UUID)
    assert saved_build_args.load(metadata, [NEW], UUID) == VALUES
    assert 'secret' not in str(metadata)
    saved_build_args.remove(metadata)
    assert metadata == {'other': 'x'}
    assert saved_build_args.load(metadata, [NEW], UUID) == {}


def test_rows_fit_and_keep_their_order():
    metadata = {}
    files = [['/etc/motd', os.urandom(5000).hex()]]
    saved_build_args.save(metadata, {'files': files}, PUBLIC, UUID)
    assert len(metadata) > 11
    assert max(map(len, metadata.values())) <= 255
    shuffled = dict(reversed(metadata.items()))
    assert saved_build_args.load(shuffled, [NEW], UUID)['files'] == files


def test_saving_again_leaves_nothing_of_before():
    metadata = {}
    saved_build_args.save(metadata, {'files': [['a', os.urandom(1000).hex()]]}, PUBLIC, UUID)
    saved_build_args.save(metadata, VALUES, PUBLIC, UUID)
    assert saved_build_args.load(metadata, [NEW], UUID) == VALUES
    saved_build_args.save(metadata, {'password': None, 'files': []}, PUBLIC, UUID)
    assert metadata == {}


def test_any_of_the_keys_opens():
    metadata = {}
    saved_build_args.save(metadata, VALUES, sealing.public_key(OLD), UUID)
    assert saved_build_args.load(metadata, [NEW, OLD], UUID) == VALUES
    assert not saved_build_args.is_current(metadata, NEW, UUID)
    for keys in ([NEW], []):
        with pytest.raises(saved_build_args.SavedArgsUnreadable, match='stash_keys of nova-api'):
            saved_build_args.load(metadata, keys, UUID)


def test_saved_args_do_not_open_for_another_server():
    metadata = {}
    saved_build_args.save(metadata, VALUES, PUBLIC, UUID)
    with pytest.raises(saved_build_args.SavedArgsUnreadable):
        saved_build_args.load(metadata, [NEW], OTHER)


def test_public_key_does_not_open():
    metadata = {}
    saved_build_args.save(metadata, VALUES, PUBLIC, UUID)
    with pytest.raises(saved_build_args.SavedArgsUnreadable):
        saved_build_args.load(metadata, [PUBLIC], UUID)


def test_without_a_key_all_but_the_password_is_kept(caplog):
    metadata = {}
    with caplog.at_level(logging.WARNING):
        saved_build_args.save(metadata, VALUES, None, UUID)
    assert 'stash_public_key' in caplog.text
    assert saved_build_args.load(metadata, [], UUID) == {**VALUES, 'password': None}
    assert not saved_build_args.is_sealed(metadata)


def test_damaged_args_are_refused():
    for public in (None, PUBLIC):
        metadata = {}
        saved_build_args.save(metadata, VALUES, public, UUID)
        metadata['climate_stash_0000'] = metadata['climate_stash_0000'][:-8]
        with pytest.raises(saved_build_args.SavedArgsUnreadable):
            saved_build_args.load(metadata, [NEW], UUID)


def section(**values):
    config = cfg.ConfigOpts()
    conf.register(config)
    config([])
    for name, value in values.items():
        config.set_override(name, value, conf.GROUP)
    return config[conf.GROUP]


def test_what_is_no_key_is_found_at_the_start():
    saved_build_args.check_keys(section())
    saved_build_args.check_keys(section(stash_keys=[OLD, NEW], stash_public_key=PUBLIC))
    with pytest.raises(ValueError, match='stash_keys'):
        saved_build_args.check_keys(section(stash_keys=[OLD, 'secret']))
    with pytest.raises(ValueError, match='stash_public_key'):
        saved_build_args.check_keys(section(stash_public_key='secret'))


def test_public_key_is_that_of_the_first_private_key_by_default():
    assert saved_build_args.public_key(section()) is None
    assert saved_build_args.public_key(section(stash_keys=[NEW, OLD])) == PUBLIC
    other = sealing.public_key(OLD)
    assert saved_build_args.public_key(section(stash_keys=[NEW], stash_public_key=other)) == other
