# SPDX-License-Identifier: Apache-2.0
from tests.support.databases import mariadb, new_database, postgresql
from tests.support.fakes.fixtures import database, fake, stacks, volumes, world

__all__ = (
    'database',
    'fake',
    'mariadb',
    'new_database',
    'postgresql',
    'stacks',
    'volumes',
    'world',
)
