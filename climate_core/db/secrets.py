# SPDX-License-Identifier: Apache-2.0
"""Seal what is secret in the rows of leases, with ``secret_keys``; other layers see it in plain.

These are the URL and the secret of webhooks, also in the queue of their calls, and the metadata
of servers and volumes that are created for leases, also in the history. Each text is bound to its
lease. Without keys the rows have them in plain text, which is read whether there are keys or not.

What no key opens is empty for its readers, and stored again as it is: a missing key must not keep
a lease from its end.

:func:`check_keys` finds which key each secret needs, and :func:`rotate_keys` seals it again with
the first. Each row is changed only if it still is as it was read, so this can be stopped at any
time, run again, and run beside the service.
"""

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy import orm

from climate_common import sealing
from climate_core.conf import secrets
from climate_core.db import sql, tables
from climate_core.db.engine import CONF_KEY, Database
from climate_core.lease import model
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
    return [] if conf is None else secrets.read_keys(conf)


def seal_webhook(
    session: orm.Session, lease_id: str, webhook: Mapping[str, Any] | None
) -> Mapping[str, Any] | None:
    """Return the webhook of a lease as its row stores it."""
    text = None if webhook is None else _seal_webhook(session, lease_id, webhook)
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
    """Return URL and secret as the queue of calls stores them."""
    text = _seal_webhook(session, lease_id, webhook)
    return (webhook['url'], webhook['secret']) if text is None else (f'{PREFIX}{text}', '')


def open_call(session: orm.Session, lease_id: str, url: str, secret: str) -> tuple[str, str]:
    """Return URL and secret of a call; the URL is empty if no key opens it."""
    if not url.startswith(PREFIX):
        return url, secret
    found = _open(session, url.removeprefix(PREFIX), webhook_owner(lease_id))
    return ('', '') if found is None else (found['url'], found['secret'])


def seal_params(
    session: orm.Session, lease_id: str, params: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the params of a reservation as its row stores them."""

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


def _seal_webhook(session: orm.Session, lease_id: str, webhook: Mapping[str, Any]) -> str | None:
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


#: Rows of one transaction.
_ROWS_PER_READ: Final = 100

#: Changes one secret: its text, or the values that are not sealed, and its owner.
ChangeSecret = Callable[[Any, str], Any]


#: The place of the key that opens a secret, from 1 on; None: it is in plain text.
Key = int | None

#: The place of the key of a secret that no key opens.
UNOPENED: Final = 0


class _SecretColumn(NamedTuple):
    """A column with secrets.

    :param change: returns the value of a row with other secrets
    """

    column: sa.Column[Any]
    change: Callable[[str, Any, ChangeSecret], Any]


def _change_webhook(
    lease_id: str, value: Mapping[str, Any], change: ChangeSecret
) -> Mapping[str, Any]:
    owner = webhook_owner(lease_id)
    if SEALED in value:
        return {**value, SEALED: change(value[SEALED], owner)}
    text = change({'url': value['url'], 'secret': value['secret']}, owner)
    return {'events': value.get('events'), SEALED: text}


def _change_params(
    lease_id: str, value: Mapping[str, Any], change: ChangeSecret
) -> Mapping[str, Any]:
    owner = metadata_owner(lease_id)
    value = change_metadata(value, lambda metadata: change(metadata, owner))
    if model.SEALED in value:
        group = model.secrets_owner(lease_id, value)
        value = {**value, model.SEALED: change(value[model.SEALED], group)}
    return value


def _change_entries(
    lease_id: str, value: Mapping[str, Any], change: ChangeSecret
) -> Mapping[str, Any]:
    return change_history(value, lambda params: _change_params(lease_id, params, change))


def _change_call(lease_id: str, value: str, change: ChangeSecret) -> str:
    if not value.startswith(PREFIX):
        # A queued call in plain text is deleted when it is sent.
        return value
    return f'{PREFIX}{change(value.removeprefix(PREFIX), webhook_owner(lease_id))}'


_SECRET_COLUMNS: Final = {
    'webhooks': _SecretColumn(tables.LEASES.c.webhook, _change_webhook),
    'reservations': _SecretColumn(tables.RESERVATIONS.c.params, _change_params),
    'history': _SecretColumn(tables.HISTORY.c.changes, _change_entries),
    'webhook calls': _SecretColumn(tables.DELIVERIES.c.url, _change_call),
}


def check_keys(database: Database, keys: list[str]) -> Iterator[tuple[str, Key]]:
    """Return the secrets in the database: what they belong to, and which key they need."""
    for name, lease_id, _, text in _read_texts(database):
        yield from ((name, key) for key in _find_keys(name, lease_id, text, keys))


def rotate_keys(database: Database, keys: list[str]) -> Iterator[bool]:
    """Seal with the first key what it does not open.

    :returns: for each row that needs it, whether it was changed: not if no key opens it, or it was
        changed concurrently
    """
    for name, lease_id, row_id, text in _read_texts(database):
        if all(key == 1 for key in _find_keys(name, lease_id, text, keys)):
            continue
        try:
            new = _SECRET_COLUMNS[name].change(
                lease_id,
                _read_text(name, text),
                lambda said, owner: _seal_again(said, owner, keys),
            )
        except sealing.Unreadable:
            yield False
        else:
            yield database.write(_store_text, _SECRET_COLUMNS[name].column, row_id, text, new)


def _store_text(
    session: orm.Session, column: sa.Column[Any], row_id: Any, old: str, new: Any
) -> bool:
    table = column.table
    unchanged = sa.type_coerce(column, sa.Text) == old
    statement = sa.update(table).where(table.c.id == row_id, unchanged)
    return sql.change(session, statement.values({column.name: new})) == 1


def _read_text(name: str, text: str) -> Any:
    is_json = isinstance(_SECRET_COLUMNS[name].column.type, tables.Json)
    return json.loads(text) if is_json else text


def _find_keys(name: str, lease_id: str, text: str, keys: list[str]) -> list[Key]:
    found: list[Key] = []

    def note(said: Any, owner: str) -> Any:
        found.append(_find_key(said, owner, keys))
        return said

    _SECRET_COLUMNS[name].change(lease_id, _read_text(name, text), note)
    return found


def _find_key(said: Any, owner: str, keys: list[str]) -> Key:
    if not isinstance(said, str):
        return None
    for place, key in enumerate(keys, 1):
        try:
            sealing.unseal(said, [key], owner)
        except sealing.Unreadable:
            continue
        return place
    return UNOPENED


def _seal_again(said: Any, owner: str, keys: list[str]) -> str:
    values = sealing.unseal(said, keys, owner) if isinstance(said, str) else said
    return sealing.seal(values, keys, owner)


def _read_texts(database: Database) -> Iterator[tuple[str, str, Any, str]]:
    """Read the rows that may have secrets: the name, the lease, the id and the text as stored."""
    for name, each in _SECRET_COLUMNS.items():
        table, after = each.column.table, None
        lease_id = table.c.get('lease_id', table.c.id)
        text = sa.type_coerce(each.column, sa.Text)
        query = sa.select(lease_id, table.c.id, text).where(each.column.is_not(None))
        query = query.order_by(table.c.id).limit(_ROWS_PER_READ)
        while True:
            page = query if after is None else query.where(table.c.id > after)
            found = database.read(lambda session, page=page: session.execute(page).all())
            yield from ((name, row[0], row[1], row[2]) for row in found)
            if len(found) < _ROWS_PER_READ:
                break
            after = found[-1][1]
