# SPDX-License-Identifier: Apache-2.0
"""Count what a service asks of databases and of other services."""

import contextlib

import fixtures
import keystoneauth1.session
import sqlalchemy
from sqlalchemy import event


@contextlib.contextmanager
def counted():
    """Count the statements of all databases and the requests of all sessions."""
    sql, http = [], []
    real = keystoneauth1.session.Session.request

    def note_sql(connection, cursor, statement, *args):
        if statement != 'BEGIN':
            sql.append(statement)

    def note_http(session, url, method, **kwargs):
        http.append((method, url))
        return real(session, url, method, **kwargs)

    patch = fixtures.MonkeyPatch('keystoneauth1.session.Session.request', note_http)
    event.listen(sqlalchemy.Engine, 'before_cursor_execute', note_sql)
    try:
        with patch:
            yield sql, http
    finally:
        event.remove(sqlalchemy.Engine, 'before_cursor_execute', note_sql)
