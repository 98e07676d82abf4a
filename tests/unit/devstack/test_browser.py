# SPDX-License-Identifier: Apache-2.0
"""How the browser of the tests is installed."""

import subprocess
from unittest import mock

import pytest
from climate_cloud import install


@pytest.fixture
def packages() -> mock.Mock:
    with mock.patch.object(install, 'install_packages') as packages:
        yield packages


def test_browser_is_installed_where_there_is_none(packages: mock.Mock) -> None:
    with mock.patch('shutil.which', return_value=None):
        install.install_browser()
    packages.assert_called_once_with(['chromium'])


def test_browser_that_is_there_is_taken(packages: mock.Mock) -> None:
    with mock.patch('shutil.which', lambda name: name == 'google-chrome'):
        install.install_browser()
    assert not packages.called


def test_browser_that_cannot_be_installed_stops_nothing(
    packages: mock.Mock, capsys: pytest.CaptureFixture[str]
) -> None:
    packages.side_effect = subprocess.CalledProcessError(100, ['apt-get'])
    with mock.patch('shutil.which', return_value=None):
        install.install_browser()
    assert 'by hand' in capsys.readouterr().out
