# SPDX-License-Identifier: Apache-2.0
"""Run ``climate-status upgrade check``, and read what it prints."""

import pathlib

import pytest

from climate_core.cmd import status


def words(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the words of a table whose cells are broken into lines."""
    return capsys.readouterr().out.replace('|', ' ').split()


def check(file: pathlib.Path) -> int:
    return status.main(['--config-file', str(file), 'upgrade', 'check'])


READY = """
[DEFAULT]
transport_url = rabbit://guest:guest@127.0.0.1/
[cloud]
auth_type = password
[keystone_authtoken]
auth_type = password
"""
