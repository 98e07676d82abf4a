# SPDX-License-Identifier: Apache-2.0
"""Idempotency-Key: one key of a project, one request, one lease. Pure."""

import hashlib
import json
import uuid
from collections.abc import Mapping
from typing import Any

from climate_core import exceptions
from climate_core.lease import model

#: Must never change: with another one the keys that were used would name other leases.
_NAMESPACE = uuid.UUID('4d9a5c1e-0c57-4f3b-8a3d-5d1f0b6a9e27')
#: The values that are added to a request and do not count for its equality.
_NOT_ASKED = frozenset({'idempotency_key', 'may_join', 'api_release'})


def lease_id(project_id: str | None, key: str) -> str:
    """Return the id that the lease of this key has."""
    return str(uuid.uuid5(_NAMESPACE, f'{project_id}\n{key}'))


def chosen_id(project_id: str | None, values: Mapping[str, Any]) -> str | None:
    """Return the id that a request chooses for its lease, by ``id`` or by its key; None: none."""
    key = values.get('idempotency_key')
    return values.get('id') if key is None else lease_id(project_id, key)


def digest(values: Mapping[str, Any]) -> str | None:
    """Return a digest of a request with a key, None without; equal requests have equal ones."""
    if 'idempotency_key' not in values:
        return None
    asked = {name: value for name, value in values.items() if name not in _NOT_ASKED}
    text = json.dumps(asked, sort_keys=True, separators=(',', ':'))
    return hashlib.sha256(text.encode()).hexdigest()


def check_repeated(present: model.Lease, digest_: str) -> None:
    """Refuse an Idempotency-Key whose lease is deleted or was asked for by another request."""
    if present.deleted_at is not None or present.request_digest != digest_:
        raise exceptions.IdempotencyConflict(field='Idempotency-Key')
