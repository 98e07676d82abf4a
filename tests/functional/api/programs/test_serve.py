# SPDX-License-Identifier: Apache-2.0
"""climate-manage serve: the whole service in one process."""

import pathlib

import pytest
import requests

from climate_core import conf as configuration
from climate_core.cmd import manage
from climate_core.cmd.manage import serve
from tests.support.fakes import settings

NO_IMAGE = '11111111-1111-4111-8111-111111111111'


def test_serve_makes_its_database_and_keeps_it(tmp_path: pathlib.Path) -> None:
    words = ['serve', '--noauth', '--port', '0', '--state-dir', str(tmp_path / 'state')]
    for expected in (0, 1):
        conf = configuration.load(words, [], cli=[manage.command()])
        with serve.serving(conf) as url:
            assert len(requests.get(f'{url}/leases', timeout=60).json()['leases']) == expected
            body = {
                'name': 'kept',
                'end_date': '2099-01-01 10:00',
                'start_date': '2098-01-01 1:00',
            }
            assert requests.post(f'{url}/leases', json=body, timeout=60).status_code == 201
        with pytest.raises(requests.ConnectionError):
            requests.get(url, timeout=60)


def test_serve_shows_an_ipv6_address_in_brackets(tmp_path: pathlib.Path) -> None:
    words = ['serve', '--noauth', '--host', '::1', '--port', '0', '--state-dir', str(tmp_path)]
    with serve.serving(configuration.load(words, [], cli=[manage.command()])) as url:
        assert url.startswith('http://[::1]:')
        assert requests.get(f'{url}/leases', timeout=60).status_code == 200


@pytest.mark.parametrize('name', ['a$b', 'a%41b', 'a#b @:'])
def test_serve_has_its_database_in_any_state_directory(tmp_path: pathlib.Path, name: str) -> None:
    words = ['serve', '--noauth', '--port', '0', '--state-dir', str(tmp_path / name)]
    with serve.serving(configuration.load(words, [], cli=[manage.command()])):
        assert (tmp_path / name / 'climate.sqlite').is_file()


def test_serve_rejects_a_state_directory_that_no_database_url_can_have(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ['serve', '--noauth', '--port', '0', '--state-dir', str(tmp_path / 'a?b')]
    with pytest.raises(SystemExit):
        configuration.load(words, [], cli=[manage.command()])
    assert 'it must be a path without "?"' in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_serve_pretends_to_reserve_servers(tmp_path: pathlib.Path) -> None:
    words = ['serve', '--noauth', '--port', '0', '--state-dir', str(tmp_path)]
    with serve.serving(configuration.load(words, [], cli=[manage.command()])) as url:
        wanted = {
            'resource_type': 'virtual:instance',
            'resource_id': '11111111-1111-4111-8111-111111111111',
            'on_end': 'stop',
        }
        body = {'name': 'n', 'end_date': '2099-01-01 10:00', 'reservations': [wanted]}
        answer = requests.post(f'{url}/leases', json=body, timeout=60)
    assert answer.status_code == 201, answer.text
    shown = answer.json()['lease']['reservations'][0]
    assert {name: shown[name] for name in wanted} == wanted


def test_serve_without_a_cloud_neither_shows_nor_keeps_secrets(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    secrets = {'user_data': 'c2VjcmV0IHVzZXIgZGF0YQ==', 'adminPass': 'secret-password'}
    words = ['serve', '--noauth', '--port', '0', '--state-dir', str(tmp_path)]
    with serve.serving(configuration.load(words, [], cli=[manage.command()])) as url:
        server = {'name': 'web', 'flavorRef': '1', 'imageRef': NO_IMAGE, 'count': 2}
        stack = {
            'name': 'app',
            'template': {'heat_template_version': '2018-08-31', 'resources': {}},
            'parameters': {'password': 'secret-parameter'},
            'environment': {'parameters': {'token': 'secret-environment'}},
            'files': {'start.sh': 'secret-file'},
        }
        reservations = [
            {'resource_type': 'virtual:instance', 'server': {**server, **secrets}},
            {'resource_type': 'virtual:stack', **stack},
        ]
        body = {'name': 'n', 'end_date': '2099-01-01 10:00', 'reservations': reservations}
        made = requests.post(f'{url}/leases', json=body, timeout=60)
        assert made.status_code == 201, made.text
        lease = f'{url}/leases/{made.json()["lease"]["id"]}'
        paths = (lease, f'{lease}/history', f'{url}/leases')
        answers = [made, *(requests.get(each, timeout=60) for each in paths)]
        kept = b''.join(each.read_bytes() for each in tmp_path.iterdir())
    assert {each.status_code for each in answers} == {200, 201}
    assert made.json()['lease']['reservations'][0]['server'] == server
    texts = ' '.join(each.text for each in answers) + caplog.text + kept.decode(errors='replace')
    for secret in (*secrets.values(), 'secret-'):
        assert secret not in texts


def test_serve_without_a_cloud_asks_no_keystone_for_limits(tmp_path: pathlib.Path) -> None:
    """The configuration may be one that has a cloud."""
    file = tmp_path / 'cloud.conf'
    options = settings.cloud_options('http://127.0.0.1:1').items()
    file.write_text('\n'.join(['[cloud]', *(f'{name} = {value}' for name, value in options)]))
    words = ['serve', '--noauth', '--port', '0', '--state-dir', str(tmp_path)]
    with serve.serving(configuration.load(words, [str(file)], cli=[manage.command()])) as url:
        body = {'name': 'n', 'end_date': '2099-01-01 10:00', 'start_date': '2098-01-01 1:00'}
        made = requests.post(f'{url}/leases', json=body, timeout=60)
        shown = requests.get(f'{url}/limits', timeout=60)
    assert (made.status_code, shown.status_code) == (201, 200), made.text
    assert shown.json()['limits']['leases'] == {'limit': 500, 'used': 1}
