# SPDX-License-Identifier: Apache-2.0
"""What one project may hold without any configuration of limits."""

import pathlib
from typing import Any

from climate_core.db.engine import Database
from tests.functional.api import world


def create(application: Any, number: int, status: int) -> Any:
    body = {'name': f'lease {number}', 'start_date': '+1d', 'duration': '1h'}
    return world.ask(application, 'POST', '/v1/leases', body, status=status).json


def test_every_amount_of_a_project_is_limited_by_default(tmp_path: pathlib.Path) -> None:
    conf = world.configure(tmp_path)
    database = Database(conf)
    with world.running(conf, database) as application:
        shown = world.ask(application, 'GET', '/v1/limits', status=200).json['limits']
    assert shown
    assert {name for name, each in shown.items() if each['limit'] < 0} == set()


def test_configured_limit_is_enforced_without_keystone(tmp_path: pathlib.Path) -> None:
    conf = world.configure(tmp_path, ('limits', 'leases', '2'))
    database = Database(conf)
    with world.running(conf, database) as application:
        create(application, 1, 201)
        create(application, 2, 201)
        rejected = create(application, 3, 403)
        others = {'X-Project-Id': 'others'}
        body = {'name': 'l', 'start_date': '+1d', 'duration': '1h'}
        world.ask(application, 'POST', '/v1/leases', body, others, status=201)
    assert (rejected['error_name'], rejected['field']) == ('limits.exceeded', 'leases')
