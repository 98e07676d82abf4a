# SPDX-License-Identifier: Apache-2.0
from tests.fakes.fixtures import fake, world

__all__ = ('fake', 'world')
