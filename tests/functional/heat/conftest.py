# SPDX-License-Identifier: Apache-2.0
"""Heat's own fixtures, run by pytest.

``heat.tests.common`` has to be the first part of heat that is imported: it chooses the backend of
oslo.service. What an operator writes into heat.conf has to be there before the first engine
starts, because heat reads its resource types once in a process.
"""

import functools

import heat.tests.common  # noqa: F401
from cinderclient import client

from tests.functional.heat import installed

# It lists every module of the interpreter for each new client.
client.discover_extensions = functools.cache(client.discover_extensions)
installed.configure()
