# SPDX-License-Identifier: Apache-2.0
"""What an Idempotency-Key means: one key of a project, one request, one lease. Pure."""

import hashlib
import json
import uuid
from collections.abc import Mapping
from typing import Any

#: Never changes: with it the keys that were used would mean other leases.
_NAMESPACE = uuid.UUID('4d9a5c1e-0c57-4f3b-8a3d-5d1f0b6a9e27')
#: What goes along with a request and is no part of it.
_NOT_ASKED = frozenset({'idempotency_key', 'may_join'})


def lease_id(project_id: str | None, key: str) -> str:
    """Return the id that the lease of this key has."""
    return str(uuid.uuid5(_NAMESPACE, f'{project_id}\n{key}'))


def digest(values: Mapping[str, Any]) -> str:
    """Return a digest of a request; equal requests have equal ones."""
    asked = {name: value for name, value in values.items() if name not in _NOT_ASKED}
    text = json.dumps(asked, sort_keys=True, separators=(',', ':'))
    return hashlib.sha256(text.encode()).hexdigest()
