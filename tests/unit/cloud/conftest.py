# SPDX-License-Identifier: Apache-2.0
from tests.fakes.fixtures import fake, volumes, world

__all__ = ('fake', 'volumes', 'world')
