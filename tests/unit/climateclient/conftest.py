# SPDX-License-Identifier: Apache-2.0
"""A lease service at the HTTP edge: everything above it is the real client."""

import time

import pytest
import requests_mock
from keystoneauth1 import session, token_endpoint

from climateclient.client import Client
from tests.unit.climateclient import samples


@pytest.fixture
def http():
    with requests_mock.Mocker() as mocker:
        yield mocker


@pytest.fixture
def client():
    auth = token_endpoint.Token(samples.ENDPOINT, 'a-token')
    return Client(session.Session(auth=auth))


@pytest.fixture
def berlin(monkeypatch):
    """The user sits in Berlin: +01:00 in winter, +02:00 in summer."""
    monkeypatch.setenv('TZ', 'Europe/Berlin')
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()
