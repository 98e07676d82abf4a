# SPDX-License-Identifier: Apache-2.0
"""The units of systemd restrict what a compromised service can do, and log no tokens."""

import configparser
import pathlib

import pytest

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
    'SystemCallFilter': '@system-service',
    'StateDirectoryMode': '0750',
}


def read(name: str) -> configparser.SectionProxy:
    unit = configparser.RawConfigParser()
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(UNITS / f'{name}.service')
    return unit['Service']


@pytest.mark.parametrize('name', ['climate-api', 'climate-manager'])
def test_unit_is_hardened(name: str) -> None:
    service = read(name)
    assert {key: service.get(key) for key in RESTRICTIONS} == RESTRICTIONS


def test_unit_of_the_api_logs_no_urls() -> None:
    words = read('climate-api')['ExecStart'].split()
    assert {'--disable-logging', '--ignore-sigpipe', '--ignore-write-errors'} <= set(words)
