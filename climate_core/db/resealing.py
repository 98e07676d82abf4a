# SPDX-License-Identifier: Apache-2.0
"""Find which key each secret in the database needs, and seal it again with the first.

Each row is changed only if it still is as it was read, so this can be stopped at any time, run
again, and run beside the service.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy import orm

from climate_common import sealing
from climate_core.db import rows, secrets, tables
from climate_core.db.engine import Database
from climate_core.lease import model, webhook

#: Rows of one transaction.
_BATCH: Final = 100

#: Changes one secret: its text, or the values that are not sealed, and its owner.
Change = Callable[[Any, str], Any]


class Secret(NamedTuple):
    """One secret: a sealed text, or values in plain.

    :param key: the place of the key that opens it, from 1 on; 0: none does; None: it is in plain
    :param is_current: the first key opens it, and it is bound to its owner
    """

    key: int | None
    is_current: bool


#: A secret that no key opens.
UNOPENED: Final = Secret(0, False)


class _Column(NamedTuple):
    """A column with secrets.

    :param change: returns the value of a row with other secrets
    """

    column: sa.Column[Any]
    change: Callable[[str, Any, Change], Any]


def _webhook(lease_id: str, value: Mapping[str, Any], change: Change) -> Mapping[str, Any]:
    owner = secrets.webhook_owner(lease_id)
    if secrets.SEALED in value:
        return {**value, secrets.SEALED: change(value[secrets.SEALED], owner)}
    text = change({'url': value['url'], 'secret': value['secret']}, owner)
    return {'events': value.get('events'), secrets.SEALED: text}


def _params(lease_id: str, value: Mapping[str, Any], change: Change) -> Mapping[str, Any]:
    owner = secrets.metadata_owner(lease_id)
    value = secrets.change_metadata(value, lambda metadata: change(metadata, owner))
    if model.SEALED in value:
        group = model.secrets_owner(lease_id, value)
        value = {**value, model.SEALED: change(value[model.SEALED], group)}
    return value


def _url(lease_id: str, value: str, change: Change) -> str:
    sealed = value.startswith(secrets.PREFIX)
    said: Any = value.removeprefix(secrets.PREFIX) if sealed else {'url': value}
    return f'{secrets.PREFIX}{change(said, secrets.webhook_owner(lease_id))}'


def _entry(lease_id: str, value: str, change: Change) -> str:
    # Entries of earlier releases have whole URLs.
    is_origin = value == webhook.url_origin(value)
    return value if is_origin else _url(lease_id, value, change)


def _changes(lease_id: str, value: Mapping[str, Any], change: Change) -> Mapping[str, Any]:
    if 'webhook' in value:
        pair = [each and _entry(lease_id, each, change) for each in value['webhook']]
        value = {**value, 'webhook': pair}
    return secrets.change_history(value, lambda params: _params(lease_id, params, change))


def _call(lease_id: str, value: str, change: Change) -> str:
    # What waits in plain text is gone when it is sent.
    return _url(lease_id, value, change) if value.startswith(secrets.PREFIX) else value


_COLUMNS: Final = {
    'webhooks': _Column(tables.LEASES.c.webhook, _webhook),
    'reservations': _Column(tables.RESERVATIONS.c.params, _params),
    'history': _Column(tables.HISTORY.c.changes, _changes),
    'webhook calls': _Column(tables.DELIVERIES.c.url, _call),
}


def check(database: Database, keys: list[str]) -> Iterator[tuple[str, Secret]]:
    """Return the secrets in the database: what they belong to, and what they need."""
    for name, lease_id, _, text in _all_rows(database):
        yield from ((name, secret) for secret in _find_secrets(name, lease_id, text, keys))


def rotate(database: Database, keys: list[str]) -> Iterator[bool]:
    """Seal with the first key what it does not open, or is in plain, or not bound to its lease.

    :returns: for each row that needs it, whether it was changed: not if no key opens it, or it
        changed meanwhile
    """
    for name, lease_id, row_id, text in _all_rows(database):
        if all(secret.is_current for secret in _find_secrets(name, lease_id, text, keys)):
            continue
        try:
            new = _COLUMNS[name].change(
                lease_id, _read(name, text), lambda said, owner: _resealed(said, owner, keys)
            )
        except sealing.Unreadable:
            yield False
        else:
            yield database.write(_store, _COLUMNS[name].column, row_id, text, new)


def _store(session: orm.Session, column: sa.Column[Any], row_id: Any, old: str, new: Any) -> bool:
    table = column.table
    unchanged = sa.type_coerce(column, sa.Text) == old
    statement = sa.update(table).where(table.c.id == row_id, unchanged)
    return rows.change(session, statement.values({column.name: new})) == 1


def _read(name: str, text: str) -> Any:
    is_json = isinstance(_COLUMNS[name].column.type, tables.Json)
    return json.loads(text) if is_json else text


def _find_secrets(name: str, lease_id: str, text: str, keys: list[str]) -> list[Secret]:
    secrets_found: list[Secret] = []

    def note(said: Any, owner: str) -> Any:
        secrets_found.append(_find_key(said, owner, keys))
        return said

    _COLUMNS[name].change(lease_id, _read(name, text), note)
    return secrets_found


def _find_key(said: Any, owner: str, keys: list[str]) -> Secret:
    if not isinstance(said, str):
        return Secret(None, False)
    for place, key in enumerate(keys, 1):
        try:
            sealing.unseal(said, [key], owner)
        except sealing.Unreadable:
            continue
        return Secret(place, place == 1 and sealing.is_current(said, keys))
    return UNOPENED


def _resealed(said: Any, owner: str, keys: list[str]) -> str:
    values = sealing.unseal(said, keys, owner) if isinstance(said, str) else said
    return sealing.seal(values, keys, owner)


def _all_rows(database: Database) -> Iterator[tuple[str, str, Any, str]]:
    """Read the rows that may have secrets: the name, the lease, the id and the text as stored."""
    for name, each in _COLUMNS.items():
        table, after = each.column.table, None
        lease_id = table.c.get('lease_id', table.c.id)
        text = sa.type_coerce(each.column, sa.Text)
        query = sa.select(lease_id, table.c.id, text).where(each.column.is_not(None))
        query = query.order_by(table.c.id).limit(_BATCH)
        while True:
            page = query if after is None else query.where(table.c.id > after)
            found = database.read(lambda session, page=page: session.execute(page).all())
            yield from ((name, row[0], row[1], row[2]) for row in found)
            if len(found) < _BATCH:
                break
            after = found[-1][1]
