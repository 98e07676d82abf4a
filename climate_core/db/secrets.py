# SPDX-License-Identifier: Apache-2.0
"""Seal what is secret in the rows of leases, with ``secret_keys``; other layers see it in plain.

These are the URL and the secret of webhooks, also in the queue of their calls, and the metadata
of servers and volumes that are created for leases, also in the history. Each text is bound to its
lease. Without keys the rows have them in plain text, which is read whether there are keys or not.

What no key opens is empty for its readers, and stored again as it is: a missing key must not keep
a lease from its end.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from sqlalchemy import orm

from climate_common import sealing
from climate_core.conf import secrets
from climate_core.db.engine import CONF_KEY
from climate_core.lease.model import SPECIFICATIONS

LOG = logging.getLogger(__name__)

#: What a sealed URL in the queue begins with, as no URL does.
PREFIX: Final = 'sealed:'
#: Name of what is sealed of a webhook.
SEALED: Final = 'sealed'
_METADATA: Final = 'metadata'
_SPECIFICATIONS: Final = frozenset(SPECIFICATIONS)


def keys_of(session: orm.Session) -> list[str]:
    """Return the keys; none for a session without a configuration."""
    conf = session.info.get(CONF_KEY)
    return [] if conf is None else secrets.read(conf)


def seal_webhook(
    session: orm.Session, lease_id: str, webhook: Mapping[str, Any] | None
) -> Mapping[str, Any] | None:
    """Return what the table keeps of the webhook of a lease."""
    text = None if webhook is None else _seal_call(session, lease_id, webhook)
    if webhook is None or text is None:
        return webhook
    return {'events': webhook.get('events'), SEALED: text}


def open_webhook(
    session: orm.Session, lease_id: str, stored: Mapping[str, Any] | None
) -> Mapping[str, Any] | None:
    """Return the webhook of a lease: ``url``, ``secret`` and ``events``."""
    if stored is None or SEALED not in stored:
        return stored
    events = {'events': stored['events']}
    found = _open(session, stored[SEALED], webhook_owner(lease_id))
    if found is None:
        nothing = {'url': '', 'secret': ''}  # nosec B105 # no password
        return sealing.Unopened({**nothing, **events}, stored[SEALED])
    return {**found, **events}


def seal_call(session: orm.Session, lease_id: str, webhook: Mapping[str, Any]) -> tuple[str, str]:
    """Return URL and secret as the queue of calls keeps them."""
    text = _seal_call(session, lease_id, webhook)
    return (webhook['url'], webhook['secret']) if text is None else (f'{PREFIX}{text}', '')


def open_call(session: orm.Session, lease_id: str, url: str, secret: str) -> tuple[str, str]:
    """Return URL and secret of a call; the URL is empty if no key opens it."""
    if not url.startswith(PREFIX):
        return url, secret
    found = _open(session, url.removeprefix(PREFIX), webhook_owner(lease_id))
    return ('', '') if found is None else (found['url'], found['secret'])


def open_url(session: orm.Session, lease_id: str, stored: str) -> str:
    """Return the URL of a webhook in the history of an earlier release; empty if no key opens it.

    Entries have only its origin now, which is no secret and is not sealed.
    """
    if not stored.startswith(PREFIX):
        return stored
    found = _open(session, stored.removeprefix(PREFIX), webhook_owner(lease_id))
    return '' if found is None else str(found['url'])


def seal_params(
    session: orm.Session, lease_id: str, params: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return what the table keeps of the params of a reservation of a lease."""

    def seal(metadata: Any) -> Any:
        if isinstance(metadata, sealing.Unopened):
            return metadata.text
        return _seal(session, metadata, metadata_owner(lease_id)) or metadata

    return change_metadata(params, seal)


def open_params(
    session: orm.Session, lease_id: str, stored: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the params of a reservation of a lease."""

    def unseal(metadata: Any) -> Any:
        if not isinstance(metadata, str):
            return metadata
        found = _open(session, metadata, metadata_owner(lease_id))
        return sealing.Unopened({}, metadata) if found is None else found

    return change_metadata(stored, unseal)


def change_metadata(params: Mapping[str, Any], change: Callable[[Any], Any]) -> Mapping[str, Any]:
    """Return params with other metadata; the same object if they have none."""
    for name in SPECIFICATIONS:
        said = params.get(name)
        if not isinstance(said, Mapping):
            continue
        metadata = said.get(_METADATA)
        # What no key opens is empty.
        if metadata or isinstance(metadata, sealing.Unopened):
            params = {**params, name: {**said, _METADATA: change(metadata)}}
    return params


def change_history(
    changes: Mapping[str, Any], change: Callable[[Mapping[str, Any]], Mapping[str, Any]]
) -> Mapping[str, Any]:
    """Return the changes of a history entry with other params of the reservations."""
    if 'reservations' not in changes:
        return changes
    reservations = {**changes['reservations']}
    for reservation_id, fields in reservations.items():
        if 'params' in fields:
            pair = [params and change(params) for params in fields['params']]
            reservations[reservation_id] = {**fields, 'params': pair}
    return {**changes, 'reservations': reservations}


def has_metadata(params: Mapping[str, Any]) -> bool:
    """Return whether params may have metadata."""
    return not _SPECIFICATIONS.isdisjoint(params)


def webhook_owner(lease_id: str) -> str:
    """Return the owner of the sealed webhook of a lease."""
    return f'{lease_id}/webhook'


def metadata_owner(lease_id: str) -> str:
    """Return the owner of the sealed metadata of a lease."""
    return f'{lease_id}/metadata'


def _seal_call(session: orm.Session, lease_id: str, webhook: Mapping[str, Any]) -> str | None:
    if isinstance(webhook, sealing.Unopened):
        return webhook.text
    values = {'url': webhook['url'], 'secret': webhook['secret']}
    return _seal(session, values, webhook_owner(lease_id))


def _seal(session: orm.Session, values: Mapping[str, Any], owner: str) -> str | None:
    keys = keys_of(session)
    return sealing.seal(values, keys, owner) if keys else None


def _open(session: orm.Session, text: str, owner: str) -> dict[str, Any] | None:
    try:
        return sealing.unseal(text, keys_of(session), owner)
    except sealing.Unreadable as exc:
        LOG.error(
            '[virtual:instance] secret_keys of climate.conf does not open what is stored for %s '
            '(%s); it is empty until the key is added',
            owner,
            exc,
        )
        return None
