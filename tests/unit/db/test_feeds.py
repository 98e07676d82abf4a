# SPDX-License-Identifier: Apache-2.0
"""Tokens of feeds."""

import dataclasses
import datetime

import pytest

from climate_core.db import feeds


def of(token):
    time = datetime.datetime(2082, 12, 1, tzinfo=datetime.UTC)
    return feeds.Feed(token.feed_id, 'phone', 'project', 'user', token.digest, 'trust', time)


def test_token_that_is_read_opens_its_feed_alone():
    token, other = feeds.create_token(), feeds.create_token()
    read = feeds.parse_token(str(token))
    assert read == token
    assert read.opens(of(token))
    assert not read.opens(dataclasses.replace(of(token), secret_digest=other.digest))
    assert not read.opens(None)


def test_tokens_differ_and_are_fit_for_a_url():
    texts = {str(feeds.create_token()) for _ in range(100)}
    assert len(texts) == 100
    assert {len(each) for each in texts} == {75}
    assert all(each.replace('-', '').replace('_', '').isalnum() for each in texts)


@pytest.mark.parametrize('change', [str.upper, lambda t: t + 'a', lambda t: t[1:], lambda t: ''])
def test_other_text_is_no_token(change):
    assert feeds.parse_token(change('a' * 32 + 'B' * 43)) is None


def test_secret_is_neither_kept_nor_shown():
    token = feeds.create_token()
    assert token.secret not in repr(token)
    assert token.secret not in repr(of(token))
