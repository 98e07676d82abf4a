# SPDX-License-Identifier: Apache-2.0
from tests.support.fakes.fixtures import fake, stacks, volumes, world

__all__ = ('fake', 'stacks', 'volumes', 'world')
