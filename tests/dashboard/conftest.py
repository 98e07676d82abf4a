# SPDX-License-Identifier: Apache-2.0
"""Django and Horizon for the tests of the dashboard, and a lease service that is made up."""

import os
from collections.abc import Iterator

import django
import pytest

os.environ['DJANGO_SETTINGS_MODULE'] = 'tests.dashboard.settings'
django.setup()


def pytest_configure(config: pytest.Config) -> None:
    # Horizon's classes for tests have these marks.
    for mark in ('selenium', 'integration', 'plugin_test'):
        config.addinivalue_line('markers', f'{mark}: of Horizon')


@pytest.fixture(scope='session', autouse=True)
def _django() -> Iterator[None]:
    from django.test import utils

    utils.setup_test_environment()
    databases = utils.setup_databases(verbosity=0, interactive=False)
    yield
    utils.teardown_databases(databases, verbosity=0)
    utils.teardown_test_environment()
