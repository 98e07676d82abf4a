# SPDX-License-Identifier: Apache-2.0
"""A lease service, a Keystone and a Nova at the HTTP edge: everything above is the real thing."""

import logging
import os
import time

import pytest
import requests_mock
from keystoneauth1 import fixture, session, token_endpoint

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


@pytest.fixture
def openstack(http, berlin, capsys, monkeypatch):
    """Runs the ``openstack`` command in this process, and gives (status, stdout, stderr)."""
    from openstackclient import shell
    from osc_lib import clientmanager

    for cached in vars(clientmanager.ClientManager).values():
        if isinstance(cached, clientmanager.ClientCache):  # one per process, not per shell
            monkeypatch.setattr(cached, '_handle', None)
    for name in [name for name in os.environ if name.startswith('OS_')]:
        monkeypatch.delenv(name)
    for name, value in samples.ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    token = fixture.V3Token(user_id='user1', project_id='project1')
    for service_type, url in samples.CATALOGUE.items():
        token.add_service(service_type).add_standard_endpoints(public=url, region='R1')
    http.get(samples.KEYSTONE, json={'version': fixture.V3Discovery(samples.KEYSTONE)})
    http.post(
        f'{samples.KEYSTONE}/auth/tokens', json=token, headers={'X-Subject-Token': 'a-token'}
    )
    http.get(samples.NOVA, json={'version': samples.NOVA_VERSION})

    def run(*argv: str) -> tuple[int, str, str]:
        root = logging.getLogger()
        handlers, level = list(root.handlers), root.level
        try:
            status = shell.OpenStackShell().run(list(argv))
        except SystemExit as stop:  # argparse leaves so
            status = int(stop.code or 0)
        finally:  # the shell expects to be the only one in its process
            root.handlers[:] = handlers
            root.setLevel(level)
        captured = capsys.readouterr()
        return status, captured.out, _without_others(captured.err)

    return run


def _without_others(err: str) -> str:
    """Leave out what the shell says about broken plugins of other projects."""
    lines = err.splitlines(keepends=True)
    return ''.join(line for line in lines if not line.startswith('Could not load '))
