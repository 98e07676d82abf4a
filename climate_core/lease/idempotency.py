# SPDX-License-Identifier: Apache-2.0
"""Idempotency-Key: one key of a project, one request, one lease. Pure."""

import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from climate_common import sealing
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


def digests(values: Mapping[str, Any], lease_id: str | None, keys: Sequence[str]) -> Sequence[str]:
    """Return the digests of a request with an Idempotency-Key; empty without.

    :param lease_id: the id that it chooses
    :param keys: those of the operator, see :func:`climate_common.sealing.digests`
    :returns: the first is stored, all are compared; the last is that of the release before, so
        that a request can be repeated across the upgrade
    """
    if 'idempotency_key' not in values or lease_id is None:
        return ()
    asked = {name: value for name, value in values.items() if name not in _NOT_ASKED}
    text = json.dumps(asked, sort_keys=True, separators=(',', ':'))
    return [*sealing.digests(text, lease_id, keys), hashlib.sha256(text.encode()).hexdigest()]


def check_repeated(present: model.Lease, digests_: Sequence[str]) -> None:
    """Refuse an Idempotency-Key whose lease is deleted or was asked for by another request."""
    if present.deleted_at is not None or present.request_digest not in digests_:
        raise exceptions.IdempotencyConflict(field='Idempotency-Key')
