# SPDX-License-Identifier: Apache-2.0
from tests.support.databases import *  # noqa: F403
from tests.support.fakes.fixtures import database, fake, hosts, stacks, volumes, world

__all__ = ('database', 'fake', 'hosts', 'stacks', 'volumes', 'world')
