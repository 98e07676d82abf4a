# SPDX-License-Identifier: Apache-2.0
from tests.support.fakes.fixtures import fake, world

__all__ = ('fake', 'world')
