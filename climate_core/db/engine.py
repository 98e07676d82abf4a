# SPDX-License-Identifier: Apache-2.0
"""Connect to the database, run transactions, and group the writes of threads.

A writer is one transaction. On SQLite it takes the write lock immediately, so that a reader never
has to become a writer half-way; on the others the first UPDATE or SELECT FOR UPDATE does. SQLite
lets a writer wait for thousands of later ones, so the writers of a process take turns.
"""

import abc
import contextlib
import datetime
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar, cast

import fasteners
import sqlalchemy as sa
from oslo_config import cfg
from oslo_db import api as db_api
from oslo_db import exception as db_exc
from oslo_db import options as db_options
from oslo_db.sqlalchemy import enginefacade
from sqlalchemy import orm

from climate_core import exceptions
from climate_core.concurrency import BatchRunner, ItemResult
from climate_core.conf import secrets as secret_keys

T = TypeVar('T')

#: Held while a file is created, before SQLite opens it in another thread.
_CREATE_LOCK = threading.Lock()

#: All errors of a database. oslo.db translates those of the driver, but not that of an exhausted
#: pool.
DATABASE_ERRORS: tuple[type[Exception], ...] = (db_exc.DBError, sa.exc.SQLAlchemyError)


#: The errors of a database that is unreachable, busy or out of connections.
_OUTAGES = (
    db_exc.DBConnectionError,
    db_exc.DBDeadlock,
    sa.exc.TimeoutError,
    sa.exc.OperationalError,
    sa.exc.InterfaceError,
    sa.exc.InternalError,
)


#: The errors of drivers that cannot connect.
_CONNECT_ERRORS = (sa.exc.OperationalError, sa.exc.InterfaceError)


class Stale(Exception):
    """The lease or the event was changed concurrently; nothing may be committed."""


def error_for_user(exc: Exception) -> exceptions.ClimateError | None:
    """Return the message for users about an error of the database.

    Only errors after which a retry may succeed are 503.

    :returns: None: the error is unexpected, or not an error of the database
    """
    if isinstance(exc, (Stale, db_exc.DBDuplicateEntry, db_exc.DBReferenceError)):
        return exceptions.ServiceUnavailable('The lease is busy. Try again.')
    # oslo.db has a class for some errors of the drivers, and wraps the others.
    cause = getattr(exc, 'inner_exception', exc) if type(exc) is db_exc.DBError else exc
    if isinstance(cause, (db_exc.DBDataError, sa.exc.DataError)):
        return exceptions.BadRequest(
            'The database cannot store a value of this request: it is too large or too long.'
        )
    if isinstance(cause, _OUTAGES):
        return exceptions.ServiceUnavailable('The database does not answer. Try again.')
    return None


def describe_error(exc: Exception) -> str:
    """Describe an error for a log: an error of the database by its kind and its first line."""
    if not isinstance(exc, DATABASE_ERRORS):
        return str(exc) or type(exc).__name__
    cause = getattr(exc, 'inner_exception', None) or exc
    # oslo.db does not translate each error of a driver that cannot connect.
    is_connecting = isinstance(cause, _CONNECT_ERRORS) and cause.statement is None
    if is_connecting or isinstance(exc, (db_exc.DBConnectionError, db_exc.DBNonExistentDatabase)):
        kind = 'the database cannot be reached'
    elif isinstance(exc, sa.exc.TimeoutError):
        kind = 'all connections to the database are in use'
    elif isinstance(exc, db_exc.DBDeadlock):
        kind = 'transactions of the database conflict'
    else:
        kind = 'the database rejected a statement'
    # The lines below the first one are the statement and general advice.
    line, _, _ = str(exc).partition('\n')
    return f'{kind}: {line}'


class TransactionRejected(Exception, abc.ABC):
    """A transaction is rejected; its slow explanation is computed after the rollback.

    :ivar about: the id of the reservation because of which it is rejected, if it is one
    """

    def __init__(self, about: str | None = None) -> None:
        super().__init__(about)
        self.about = about

    @abc.abstractmethod
    def explain(self) -> Exception:
        """Return the exception for the caller of :meth:`Database.write`; without a session."""


#: Retries a function after a deadlock, a lost connection or a concurrent change. It must open its
#: own writer.
retry = db_api.wrap_db_retry(
    max_retries=10,
    retry_interval=0.02,
    inc_retry_interval=True,
    max_retry_interval=1,
    jitter=True,
    retry_on_deadlock=True,
    retry_on_disconnect=True,
    exception_checker=lambda exc: isinstance(exc, Stale),
)


#: Key of the info of a connection: whether it has executed something that is not committed.
_EXECUTED = 'executed'
#: Key of ``Session.info`` under which the signals of its transaction wait for the commit.
_SIGNALS = 'signals'
#: The same for functions.
_COMMITTED = 'committed'


def signal(session: orm.Session, name: str) -> None:
    """Call the listeners to ``name`` once the work of :meth:`Database.write` is committed."""
    session.info.setdefault(_SIGNALS, {})[name] = None


def after_commit(session: orm.Session, function: Callable[[], None]) -> None:
    """Call a quick function once the work of :meth:`Database.write` is committed."""
    session.info.setdefault(_COMMITTED, []).append(function)


def register_options(conf: cfg.ConfigOpts) -> None:
    """Register ``[database]``; doing it twice is fine."""
    conf.register_opts(db_options.database_opts, 'database')


class Database:
    """A database and its connections.

    :param clock: in tests, a function that returns the time instead of the database's clock
    """

    def __init__(
        self, conf: cfg.ConfigOpts, clock: Callable[[], datetime.datetime] | None = None
    ) -> None:
        register_options(conf)
        secret_keys.register_keys(conf)
        secret_keys.read_keys(conf)
        self.clock = clock
        #: What each session has in its ``info``.
        self.info: dict[str, Any] = {CONF_KEY: conf}
        self._facade = enginefacade.transaction_context()
        # Its sleep(0) at each return of a connection is for green threads, which we are not.
        options = _options(conf)
        self._url = sa.make_url(options['connection'])
        is_sqlite = self._url.get_backend_name() == 'sqlite'
        self._sqlite_turns = fasteners.ReaderWriterLock() if is_sqlite else None
        self._facade.configure(sqlite_fk=True, thread_checkin=False, **options)
        self._ready = False
        self._preparing = threading.Lock()
        self._listeners: dict[str, list[Callable[[], None]]] = {}

    @property
    def engine(self) -> sa.Engine:
        """Return the SQLAlchemy engine of the writers."""
        if not self._ready:
            _create_file(self._url)
        engine: sa.Engine = self._facade.writer.get_engine()
        if not self._ready:
            # The threads of a manager start at the same time. No thread may use the engine before
            # it has its listeners: SQLAlchemy fails if one is added while it calls the others.
            with self._preparing:
                if not self._ready:
                    _prepare(engine)
                    self._ready = True
        return engine

    @contextlib.contextmanager
    def reader(self) -> Iterator[orm.Session]:
        """Open a session that only reads."""
        _ = self.engine
        with self._facade.reader.using(_Scope()) as session:
            self._set_info(session)
            yield session

    @contextlib.contextmanager
    def writer(self) -> Iterator[orm.Session]:
        """Open a session that is committed at the end, or rolled back by an exception."""
        _ = self.engine
        turns = self._sqlite_turns
        turn = turns.write_lock() if turns is not None else contextlib.nullcontext()
        with turn, self._facade.writer.using(_Scope()) as session:
            self._set_info(session)
            session.connection(execution_options={'climate_writes': True})
            yield session

    def write(self, function: Callable[..., T], *args: Any, **kw: Any) -> T:
        """Return ``function(session, ...)`` of one transaction, which is retried after conflicts.

        Its exceptions are raised; instead of :class:`TransactionRejected` its explanation.
        """

        @retry
        def attempt() -> tuple[T, dict[str, Any]]:
            with self.writer() as session:
                return function(session, *args, **kw), session.info

        try:
            result, info = attempt()
        except TransactionRejected as exc:
            raise exc.explain() from None
        for committed in info.get(_COMMITTED, ()):
            committed()
        for name in info.get(_SIGNALS, ()):
            for listener in self._listeners.get(name, ()):
                listener()
        return cast(T, result)

    def listen(self, name: str, listener: Callable[[], None]) -> None:
        """Register ``listener()``, which is called after each transaction with a signal.

        It is called in the thread that has written, so it must be quick, such as a nudge.
        """
        self._listeners.setdefault(name, []).append(listener)

    def read(self, function: Callable[..., T], *args: Any, **kw: Any) -> T:
        """Call ``function(session, ...)`` in a session that only reads."""
        with self.reader() as session:
            return function(session, *args, **kw)

    def dispose(self) -> None:
        """Close the connections that are idle; does not connect."""
        if self._ready:
            self.engine.dispose()

    def _set_info(self, session: orm.Session) -> None:
        session.info.update(self.info)
        if self.clock is not None:
            session.info[CLOCK] = self.clock


@enginefacade.transaction_context_provider
class _Scope:
    """The object that enginefacade hangs a transaction on; a new one means a new transaction."""


def _options(conf: cfg.ConfigOpts) -> dict[str, Any]:
    options = dict(conf.database)
    # The API reads what it has just written.
    options['synchronous_reader'] = True
    url = sa.make_url(options['connection'])
    if url.get_backend_name() in ('mysql', 'mariadb') and 'charset' not in url.query:
        options['connection_parameters'] = '&'.join(
            filter(None, (options['connection_parameters'], 'charset=utf8mb4'))
        )
    return options


def _create_file(url: sa.URL) -> None:
    """Create the file of an SQLite database for its owner alone; SQLite's others get its mode."""
    path = url.database
    if url.get_backend_name() != 'sqlite' or not path or path.startswith((':memory:', 'file:')):
        return
    # A file that exists is never opened: its close would drop the locks that SQLite holds in this
    # process. If the creation fails, so does SQLite, and says why.
    with _CREATE_LOCK, contextlib.suppress(OSError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def _prepare(engine: sa.Engine) -> None:
    # The parameters have secrets of webhooks, and exceptions are logged.
    engine.hide_parameters = True
    if engine.dialect.name == 'sqlite':
        sa.event.listen(engine, 'connect', _sqlite_connect)
        sa.event.listen(engine, 'before_cursor_execute', _sqlite_begin, retval=True)
    elif engine.dialect.name in ('mysql', 'mariadb'):
        _spare_rollbacks(engine)
        if engine.dialect.driver == 'pymysql':
            install_time_decoder(engine)
    # oslo.db opens a connection when it creates an engine, which would stay in the pool.
    engine.dispose()


def _spare_rollbacks(engine: sa.Engine) -> None:
    """Send no ROLLBACK where nothing was executed since the last COMMIT or ROLLBACK.

    SQLAlchemy sends one whenever a connection goes back to its pool. The drivers of the other
    databases know when there is nothing to roll back.
    """
    dialect = engine.dialect
    commit, roll_back = dialect.do_commit, dialect.do_rollback

    def note(connection: sa.Connection, *_: Any) -> None:
        connection.info[_EXECUTED] = True

    def info_of(connection: Any) -> dict[Any, Any]:
        # Of a connection that is not one of the pool nothing is known: SQLAlchemy prepares the
        # first connection of an engine on such a one.
        with contextlib.suppress(AttributeError, NotImplementedError):
            info: dict[Any, Any] = connection.info
            return info
        return {}

    def do_commit(connection: Any) -> None:
        commit(connection)
        info_of(connection)[_EXECUTED] = False

    def do_rollback(connection: Any) -> None:
        info = info_of(connection)
        if info.get(_EXECUTED, True):
            roll_back(connection)
            info[_EXECUTED] = False

    sa.event.listen(engine, 'before_cursor_execute', note)
    for name, function in (('do_commit', do_commit), ('do_rollback', do_rollback)):
        setattr(dialect, name, function)


def _sqlite_connect(connection: Any, _record: Any) -> None:
    connection.execute('PRAGMA busy_timeout = 30000')
    connection.execute('PRAGMA journal_mode = WAL')
    connection.execute('PRAGMA synchronous = NORMAL')


def _sqlite_begin(
    connection: sa.Connection,
    _cursor: Any,
    statement: str,
    parameters: Any,
    _context: Any,
    _many: bool,
) -> tuple[str, Any]:
    """Take SQLite's write lock with the BEGIN that oslo.db sends for a writer."""
    if statement == 'BEGIN' and connection.get_execution_options().get('climate_writes'):
        statement = 'BEGIN IMMEDIATE'
    return statement, parameters


#: Key of ``Session.info``: the configuration.
CONF_KEY: Final = 'conf'


#: Key of ``Session.info`` under which tests put a clock: a function that returns the time.
CLOCK = 'clock'


def install_time_decoder(engine: sa.Engine) -> None:
    """Let the future connections of an engine decode ``DATETIME`` in C.

    The converter of PyMySQL was a tenth of the cost of a list of leases.
    """
    # The driver is an extra.
    from pymysql import converters
    from pymysql.constants import FIELD_TYPE

    read = {**converters.conversions, FIELD_TYPE.DATETIME: _decode_time}

    def connect(_dialect: Any, _record: Any, _arguments: Any, options: dict[str, Any]) -> None:
        options.setdefault('conv', read)

    sa.event.listen(engine, 'do_connect', connect)


def _decode_time(text: str) -> datetime.datetime | None:
    """Read ``YYYY-MM-DD HH:MM:SS[.ffffff]``; the zero time of MySQL is None."""
    try:
        return datetime.datetime.fromisoformat(text)
    except ValueError:
        return None


R = TypeVar('R')


I = TypeVar('I')  # noqa: E741 - an item


class _WriteSeparately(Exception):
    """An item of a group failed: each item is written in a separate transaction."""


class GroupWriter(BatchRunner[I, R]):
    """Write the items of concurrent threads in one transaction.

    A thread that brings an item while another thread writes waits for it; then one of the waiting
    threads writes the items of all of them. :meth:`run` returns once its item is committed, and
    raises as a transaction of its own would.

    :param most: maximum number of items of a transaction
    """

    def __init__(self, database: Database, most: int) -> None:
        super().__init__(most)
        self._database = database

    @abc.abstractmethod
    def write_one(self, session: orm.Session, item: I) -> R:
        """Write an item in its own transaction; return its result."""

    @abc.abstractmethod
    def write_all(self, session: orm.Session, items: Sequence[I]) -> Sequence[ItemResult[R]]:
        """Write items; return an outcome for each.

        It raises an error that cannot be assigned to an item.
        """

    def run_batch(self, items: Sequence[I]) -> list[ItemResult[R]]:
        """Write items in one transaction, or if that fails each item in a separate transaction.

        :returns: an outcome for each item, in their order
        """
        if len(items) > 1:
            try:
                return list(self._database.write(self._write_all, items))
            except db_exc.DBConnectionError as exc:
                # They may be committed nevertheless.
                return [(None, exc)] * len(items)
            except (_WriteSeparately, db_exc.DBError):
                # The database may reject a single item.
                pass
        return [self._write_alone(item) for item in items]

    def _write_all(self, session: orm.Session, items: Sequence[I]) -> Sequence[ItemResult[R]]:
        try:
            return self.write_all(session, items)
        except db_exc.DBError:
            # All items retry a deadlock together.
            raise
        except Exception as exc:
            raise _WriteSeparately from exc

    def _write_alone(self, item: I) -> ItemResult[R]:
        try:
            return self._database.write(self.write_one, item), None
        except Exception as exc:  # noqa: BLE001 - the caller raises it
            return None, exc
