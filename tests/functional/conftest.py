# SPDX-License-Identifier: Apache-2.0
"""What Nova, Cinder and Heat do for green threads and forget between two of their APIs."""

import functools
import re

from oslo_db.sqlalchemy import engines
from oslo_policy import policy

#: A sleep(0) at each return of a connection, which on a busy machine waits for a time slice.
engines._thread_yield = lambda *args: None
#: Each test loads an API anew, with some thousand routes: their expressions are compiled once.
re._MAXCACHE = 2**16
#: Each test reads the rules of its API anew, from a file that has the same lines.
policy.parse_file_contents = functools.cache(policy.parse_file_contents)
