# SPDX-License-Identifier: Apache-2.0
"""Who may do what on the message bus of the local cloud."""

import json
import pathlib
import re
from typing import Any

import pytest
from climate_cloud import rabbitmq, secrets
from climate_cloud.settings import Settings

from climate_core import conf as climate_conf
from climate_core.conf.cloud import NOTIFICATION_SECTIONS

EXCHANGES = {'nova', 'openstack', 'heat', 'climate'}


@pytest.fixture
def bus(tmp_path: pathlib.Path) -> rabbitmq.RabbitMQ:
    settings = Settings(state=tmp_path)
    made = rabbitmq.RabbitMQ(settings, secrets.load(settings.data))
    made.prepare()
    return made


@pytest.fixture
def definitions(bus: rabbitmq.RabbitMQ) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = json.loads((bus.etc / 'definitions.json').read_text())
    return found


def test_only_climate_and_the_administrator_may_use_the_vhost_of_its_rpc(
    definitions: dict[str, list[dict[str, Any]]],
) -> None:
    vhosts: dict[str, set[str]] = {}
    for each in definitions['permissions']:
        vhosts.setdefault(each['vhost'], set()).add(each['user'])
    assert vhosts['climate'] == {'climate', 'cloud'}
    assert vhosts['/'] == {'openstack', 'cloud'}
    assert {user['name'] for user in definitions['users'] if user['tags']} == {'cloud'}
    assert len({user['password_hash'] for user in definitions['users']}) == len(rabbitmq.USERS) + 1


@pytest.mark.parametrize(
    ('user', 'published'),
    [
        ('nova-notify', {'nova'}),
        ('cinder-notify', {'openstack'}),
        ('heat-notify', {'heat'}),
        ('climate-notify', {'climate'}),
    ],
)
def test_service_publishes_its_own_notifications_only(
    definitions: dict[str, list[dict[str, Any]]], user: str, published: set[str]
) -> None:
    (rights,) = (each for each in definitions['permissions'] if each['user'] == user)
    assert rights['vhost'] == 'notifications'
    names = EXCHANGES | {'', 'amq.default', 'neutron', 'conductor'}
    assert {each for each in names if re.search(rights['write'], each)} == published
    assert re.search(rights['configure'], 'notifications.info')
    assert not re.search(rights['read'], 'notifications.info')


def test_climate_reads_the_notifications_of_others_and_publishes_only_its_own() -> None:
    _, *patterns = rabbitmq.USERS['climate-notify']
    rights = [re.compile(each) for each in patterns]

    def may(name: str) -> list[bool]:
        """Return whether the user may configure, write and read what has a name."""
        return [bool(each.search(name)) for each in rights]

    options = climate_conf.load([], config_files=[])
    for group in (each.GROUP for each in NOTIFICATION_SECTIONS):
        assert may(options[group].exchange) == [True, False, True]
        assert may(options[group].pool) == [True, True, True]
    for queue in ('notifications.info', 'notifications.error'):
        assert may(queue) == [True, True, False]
    for foreign in ('', 'amq.default', 'conductor', 'nova_fanout', 'climate.manager', 'neutron'):
        assert may(foreign) == [False, False, False]


def test_urls_name_the_vhost_of_their_user(bus: rabbitmq.RabbitMQ) -> None:
    where = f'@{bus.settings.host}:{bus.settings.port("rabbitmq")}/'
    assert bus.url().endswith(where)
    assert bus.url(vhost='notifications').endswith(f'{where}notifications')
    assert bus.url('climate').endswith(f'{where}climate')
    assert bus.url('nova-notify').endswith(f'{where}notifications')
