# SPDX-License-Identifier: Apache-2.0
"""What Nova, Cinder and Heat do for green threads, and what each service reads anew."""

import copy
import functools
import os
import re

from oslo_db.sqlalchemy import engines
from oslo_policy import policy

#: A sleep(0) at each return of a connection, which on a busy machine waits for a time slice.
engines._thread_yield = lambda *args: None
#: Each test loads an API anew, with some thousand routes: their expressions are compiled once.
re._MAXCACHE = 2**16
#: Each test reads the rules of its API anew, from a file that has the same lines.
policy.parse_file_contents = functools.cache(policy.parse_file_contents)
#: Each enforcer copies all rules of its API, with the checks in them, which nothing changes.
policy.RuleDefault.__deepcopy__ = lambda rule, memo: copy.copy(rule)
#: Each manager reads the certificates of all authorities, which takes a quarter of a test of the
#: API; nothing here speaks TLS.
os.environ['SSL_CERT_FILE'] = os.devnull
