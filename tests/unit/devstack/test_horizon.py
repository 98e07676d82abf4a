# SPDX-License-Identifier: Apache-2.0
import pathlib
from unittest import mock

import pytest
from climate_cloud import horizon
from climate_cloud.cloud import Cloud
from climate_cloud.processes import ServiceFailed
from climate_cloud.settings import Settings


@pytest.fixture
def made(tmp_path: pathlib.Path) -> horizon.Horizon:
    found = horizon.Horizon(Settings(state=tmp_path, horizon=True), 'a secret')
    found.write()
    return found


def done(status: int, text: str = '') -> mock.Mock:
    return mock.Mock(return_value=mock.Mock(returncode=status, stdout=text, stderr=''))


def test_settings_are_of_this_cloud_and_its_own(made: horizon.Horizon) -> None:
    path = made.etc / 'local' / 'local_settings.py'
    text = path.read_text()
    compile(text, str(path), 'exec')
    assert "OPENSTACK_KEYSTONE_URL = 'http://127.0.0.1:21010/v3'" in text
    assert "SECRET_KEY = 'a secret'" in text
    assert path.stat().st_mode & 0o077 == 0


def test_files_are_collected_again_only_after_a_change(made: horizon.Horizon) -> None:
    with mock.patch('subprocess.run', done(0)) as run:
        made.collect()
        made.collect()
        assert run.call_count == 2
        made._secret = 'another one'
        made.write()
        made.collect()
        assert run.call_count == 4


def test_failed_command_of_horizon_is_told_and_done_again(made: horizon.Horizon) -> None:
    with mock.patch('subprocess.run', done(1, 'no such file')):
        for _ in range(2):
            with pytest.raises(ServiceFailed, match='collectstatic failed\nno such file'):
                made.collect()


def test_all_users_of_the_cloud_are_named_when_it_is_up(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cloud = Cloud(Settings(state=tmp_path, horizon=True))
    with (
        mock.patch.multiple(cloud, _check_ports=mock.DEFAULT, _prepare=mock.DEFAULT),
        mock.patch('climate_cloud.steps.run'),
    ):
        cloud.up(0)
    assert '(users: demo, alt and admin; passwords: ' in capsys.readouterr().out


@pytest.mark.parametrize('on', [True, False])
def test_horizon_is_a_process_only_if_it_is_asked_for(tmp_path: pathlib.Path, on: bool) -> None:
    cloud = Cloud(Settings(state=tmp_path, horizon=on))
    assert ('horizon' in cloud.services()) == on
    plan = cloud._steps(0)
    assert ('horizon' in plan) == on
    assert not on or set(plan['horizon'][0]) <= set(plan)
