# SPDX-License-Identifier: Apache-2.0
"""The units of systemd restrict what a compromised service can do, and log no tokens."""

import pathlib

import pytest
from oslo_config import cfg

UNITS = pathlib.Path(__file__).parents[2] / 'etc' / 'climate'
RESTRICTIONS = {
    'User': 'climate',
    'NoNewPrivileges': 'yes',
    'CapabilityBoundingSet': '',
    'UMask': '0027',
    'ProtectSystem': 'strict',
    'ProtectHome': 'yes',
    'PrivateDevices': 'yes',
    'PrivateTmp': 'yes',
    'MemoryDenyWriteExecute': 'yes',
    'SystemCallFilter': '@system-service\n~@privileged @resources',
    'StateDirectoryMode': '0750',
}


def read(name: str) -> dict[str, str]:
    """Return the options of a service; the values of one that is repeated are lines."""
    sections: dict[str, dict[str, list[str]]] = {}
    cfg.ConfigParser(str(UNITS / f'{name}.service'), sections).parse()
    return {key: '\n'.join(values) for key, values in sections['Service'].items()}


@pytest.mark.parametrize('name', ['climate-api', 'climate-manager'])
def test_unit_is_hardened(name: str) -> None:
    service = read(name)
    assert {key: service.get(key) for key in RESTRICTIONS} == RESTRICTIONS


def test_unit_of_the_api_logs_no_urls() -> None:
    words = read('climate-api')['ExecStart'].split()
    assert {'--disable-logging', '--ignore-sigpipe', '--ignore-write-errors'} <= set(words)
