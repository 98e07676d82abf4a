# SPDX-License-Identifier: Apache-2.0
"""What a start sends when its token is there, and what is told of one that will fail."""

import datetime
import pathlib
import re
from collections.abc import Iterator

import pytest

from climate_core.db import listing
from climate_core.engine.start_preparation import StartPreparation
from climate_core.lease import model
from climate_core.lease.events.start import START_FAILED, START_WARNING
from climate_core.plugins.server import ServerPlugin
from tests.conformance.fake_servers import FakeServers
from tests.support.fakes import cloud_server
from tests.support.world import NOON, Time, World

TYPE = ServerPlugin.resource_type


class PreparedWorld(World):
    """A manager with the plugin of servers and a fake Keystone and Nova."""

    def __init__(self, url: str, servers: FakeServers) -> None:
        self.servers = servers
        super().__init__(url, Time(), trusts=servers.trusts)  # type: ignore[arg-type]
        plugin = servers.plugin()
        plugin.now = self.time  # type: ignore[method-assign,assignment]
        self.plugins[TYPE] = plugin

    def wanted(self, thing: str) -> dict[str, str]:
        return {'resource_type': TYPE, 'resource_id': thing}

    def lease_of_server(self) -> str:
        server = self.servers.add()
        return self.create(server['id'], start='2082-12-01 12:00:50', context=self.servers.user())

    def prepare(self) -> None:
        StartPreparation(
            self.database, self.clock, self.servers.cloud, [TYPE], 60.0, 600.0, _now
        ).poll()

    def start(self, lease_id: str, generation: int | None = None) -> list[str]:
        """Let the start come; return what is sent until the server is awake."""
        assert self.time is not None
        self.time.now = NOON + datetime.timedelta(seconds=50)
        with self.servers.counted() as sent:
            while self.lease(lease_id).status in ('PENDING', 'STARTING'):
                self.run()
                self.time.forward(5)
        return sent


def _now() -> float:
    """Return a time at which the first look is due."""
    return 1e9


@pytest.fixture
def manager(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PreparedWorld]:
    monkeypatch.setattr('random.uniform', lambda least, _most: least)
    with cloud_server.running(tmp_path / 'journal') as server:
        made = PreparedWorld(f'sqlite:///{tmp_path}/climate.sqlite', FakeServers(server))
        yield made
        made.database.dispose()


def _kinds(sent: list[str]) -> list[str]:
    """Return the methods and the last parts of the paths, for all servers alike."""
    return [
        f'{each.split()[0]} {re.sub("[0-9a-f-]{36}", "ID", each.rpartition("/")[2])}'
        for each in sent
    ]


def test_start_that_is_prepared_sends_one_request_less(manager: PreparedWorld) -> None:
    unprepared = manager.lease_of_server()
    manager.servers.cloud._owners.drop(manager.lease(unprepared).trust_id or '')
    first = _kinds(manager.start(unprepared))
    assert first[:3] == ['POST tokens', 'POST action', 'GET ID']
    manager.time.now = NOON
    lease_id = manager.lease_of_server()
    manager.prepare()
    assert _kinds(manager.start(lease_id)) == first[1:]


def test_trust_that_is_gone_is_told_before_the_start_fails(manager: PreparedWorld) -> None:
    lease_id = manager.lease_of_server()
    lease = manager.lease(lease_id)
    assert lease.trust_id
    manager.servers.trusts.delete(lease.trust_id)
    manager.prepare()
    manager.prepare()
    told = manager.lease(lease_id)
    assert told.status == 'PENDING'
    assert (told.status_reason or '').startswith('The start will fail: Keystone does not accept')
    assert manager.told().count(START_WARNING) == 1

    manager.start(lease_id)
    failed = manager.lease(lease_id)
    (start,) = failed.events_of(model.START)
    assert (failed.status, start.status) == ('ERROR', 'ERROR')
    assert 'Keystone does not accept the trust' in (failed.status_reason or '')
    assert 'will fail' not in (failed.status_reason or '')
    assert manager.told()[-2:] == [START_WARNING, START_FAILED]
    entries = [each for _, each in manager.database.read(listing.read_history_page, lease_id)[0]]
    assert [each.action for each in entries][:2] == ['lease.create', 'trust.refused']


def test_owner_who_is_enabled_again_starts_as_if_nothing_was(manager: PreparedWorld) -> None:
    lease_id = manager.lease_of_server()
    owner = manager.servers.state.users['alice-id']
    owner['enabled'] = False
    manager.prepare()
    assert 'Trustor is disabled' in (manager.lease(lease_id).status_reason or '')
    owner['enabled'] = True
    manager.prepare()
    assert manager.lease(lease_id).status_reason is None
    manager.start(lease_id)
    assert manager.lease(lease_id).status == 'ACTIVE'
    assert START_FAILED not in manager.told()


def test_start_with_keystone_away_before_is_as_without(manager: PreparedWorld) -> None:
    lease_id = manager.lease_of_server()
    before = manager.lease(lease_id)
    manager.servers.fault('POST', '/auth/tokens', 503)
    manager.prepare()
    assert manager.lease(lease_id) == before
    sent = _kinds(manager.start(lease_id))
    assert sent[0] == 'POST tokens'
    assert manager.lease(lease_id).status == 'ACTIVE'
