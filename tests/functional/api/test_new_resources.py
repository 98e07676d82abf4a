# SPDX-License-Identifier: Apache-2.0
"""New servers and volumes: what the API accepts, Nova and Cinder accept too."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from climate_core.db.engine import Database
from climate_core.plugins.server.plugin import ServerPlugin
from climate_core.plugins.volume.plugin import VolumePlugin
from tests.functional.api import world
from tests.support.fakes import cloud_server, flavors, settings

SERVER = {'name': 'web', 'flavorRef': 'small', 'block_device_mapping_v2': [{}]}
VOLUME = {'name': 'disk', 'size': 1}
LEASE = {'name': 'lease1', 'start_date': '2099-01-01 10:00', 'end_date': '2099-01-01 12:00'}

Ask = Callable[..., Any]


@pytest.fixture(scope='module')
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[cloud_server.Server]:
    with cloud_server.running(tmp_path_factory.mktemp('cloud') / 'journal') as server:
        flavors.add(server.state, id='small')
        yield server


@pytest.fixture(scope='module')
def application(
    tmp_path_factory: pytest.TempPathFactory, cloud: cloud_server.Server
) -> Iterator[Any]:
    plugins = (ServerPlugin, VolumePlugin)
    options = settings.cloud_options(cloud.url).items()
    directory = tmp_path_factory.mktemp('climate')
    conf = world.configure(directory, *(('cloud', name, value) for name, value in options))
    for plugin in plugins:
        conf.register_opts(plugin.options, group=plugin.resource_type)
    with world.running(conf, Database(conf), *plugins) as application:
        yield application


@pytest.fixture
def ask(application: Any) -> Ask:
    def ask(*reservations: dict[str, Any], dry_run: bool = False, **lease: Any) -> Any:
        body = {**LEASE, **lease, 'reservations': list(reservations)}
        path = '/v1/leases?dry_run=true' if dry_run else '/v1/leases'
        return world.ask(application, 'POST', path, body)

    return ask


def server(**values: Any) -> dict[str, Any]:
    return {'resource_type': 'virtual:instance', 'server': {**SERVER, **values}}


def volume(**values: Any) -> dict[str, Any]:
    return {'resource_type': 'virtual:volume', 'volume': {**VOLUME, **values}}


@pytest.mark.parametrize('dry_run', [True, False])
def test_integers_with_a_fraction_of_zero_are_integers(ask: Ask, dry_run: bool) -> None:
    disks = [{'volume_size': 1.0, 'boot_index': 0.0}]
    wanted = [server(count=2.0, block_device_mapping_v2=disks)]
    if not dry_run:
        # The fake Cinder does not say what room its pools have.
        wanted.append(volume(count=2.0, size=3.0))
    kind = {'kind': 'scheduled'} if dry_run else {'kind': 'retry', 'max_retries': 2.0}
    answer = ask(*wanted, dry_run=dry_run, before_start=[60.0], **kind)
    assert answer.status_code == (200 if dry_run else 201), answer.text
    floats: list[str] = []
    answered = json.loads(answer.text, parse_float=floats.append)
    assert floats == []
    assert dry_run or len(answered['lease']['reservations']) == 4
