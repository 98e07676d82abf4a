# SPDX-License-Identifier: Apache-2.0
import pathlib

from climate_cloud import configs, secrets, services
from climate_cloud.rabbitmq import RabbitMQ
from climate_cloud.settings import Settings

from tests.unit.devstack import venv


def threads(settings: Settings) -> dict[str, int]:
    """Return how many requests each web service of a cloud answers at once."""
    venv.prepare(settings)
    kept = secrets.load(settings.data)
    files = configs.Configs(settings, kept, 'rabbit://{}@bus/'.format, 'mysql://sql/{}'.format)
    table = services.Services(settings, files, RabbitMQ(settings, kept)).table()
    commands = {name: service.command for name, service in table.items()}
    return {
        name: int(command[command.index('--threads') + 1])
        for name, command in commands.items()
        if '--threads' in command
    }


def test_keystone_answers_one_request_at_a_time(tmp_path: pathlib.Path) -> None:
    """Two threads of it share a token, so that one user may act with the rights of another."""
    found = threads(Settings(state=tmp_path))
    assert found.pop('keystone-api') == 1
    assert found.pop('climate-api') == services.CLIMATE_THREADS
    assert set(found) >= {'nova-api', 'heat-api'}
    assert set(found.values()) == {services.THREADS}
