# SPDX-License-Identifier: Apache-2.0
from tests.support.fakes.fixtures import database, fake, stacks, volumes, world

__all__ = ('database', 'fake', 'stacks', 'volumes', 'world')
