# SPDX-License-Identifier: Apache-2.0
"""``climate-status security check``: find the recommendations that an installation ignores.

:class:`Checks` runs the checks of both commands of ``climate-status``, on any configuration, even
with invalid options. Each check of security is one function of the configuration and one row of
:data:`CHECKS`. It yields a sentence for each recommendation that is not followed. The database is
read, nothing else is sent, and nothing is changed.
"""

import functools
import pathlib
import ssl
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import oslo_messaging as messaging
import sqlalchemy as sa
from keystoneauth1 import exceptions as ksa
from keystoneauth1 import loading as ks_loading
from oslo_config import cfg
from oslo_upgradecheck import upgradecheck
from oslo_utils import strutils

from climate_core import webhooks
from climate_core.cloud.trusts import is_administrative
from climate_core.cmd import console
from climate_core.conf import secrets
from climate_core.conf.delivery import parse_networks
from climate_core.db import migration
from climate_core.db import secrets as db_secrets
from climate_core.db.engine import DATABASE_ERRORS, Database
from climate_core.delivery import http_post

#: Hosts to which nothing is sent over a network.
_LOCAL = frozenset({'localhost', '127.0.0.1', '::1'})
#: Parameters of a URL with which PyMySQL ignores ``ssl_ca``: it reads its own names before those
#: of SQLAlchemy (pymysql/connections.py, sqlalchemy/dialects/mysql/mysqldb.py).
_WITHOUT_CA = frozenset({'ssl', 'ssl_disabled', 'ssl_verify_cert', 'ssl_verify_identity'})
#: The sections of the notifications to which managers listen.
_NOTIFICATION_GROUPS = ('nova_notifications', 'cinder_notifications', 'heat_notifications')
#: The errors of a database that does not answer, or is of another release.
_UNREADABLE: tuple[type[Exception], ...] = (OSError, migration.WrongVersion, *DATABASE_ERRORS)


def check_file_modes(conf: cfg.ConfigOpts) -> Iterator[str]:
    """Find files with secrets or policies that all users of the host read or write."""
    database = sa.make_url(conf.database.connection)
    sqlite = database.database if database.get_backend_name() == 'sqlite' else None
    rules, *more_rules = map(
        conf.find_file, (conf.oslo_policy.policy_file, *conf.oslo_policy.policy_dirs)
    )
    files = console.list_files(conf)
    paths = [pathlib.Path(path) for path in (*files, rules, sqlite) if path]
    for directory in filter(None, more_rules):
        paths += filter(pathlib.Path.is_file, pathlib.Path(directory).glob('*'))
    for path in paths:
        mode = path.stat().st_mode if path.exists() else 0
        if mode & (stat.S_IRWXO | stat.S_IWGRP):
            yield f'{path} has mode {stat.S_IMODE(mode):04o}: set 0640, root:climate.'


def check_authentication(conf: cfg.ConfigOpts) -> Iterator[str]:
    """Find an API that accepts any user."""
    if conf.api.auth_strategy == 'noauth':
        yield '[api] auth_strategy is noauth: the API accepts any user. Set keystone.'


def check_token_cache(conf: cfg.ConfigOpts) -> Iterator[str]:
    """Find a cache of validated tokens that its clients can forge."""
    section = conf.keystone_authtoken
    if section.memcached_servers and section.memcache_security_strategy.upper() == 'NONE':
        yield (
            '[keystone_authtoken] memcached_servers: every client that can write to memcached can '
            'forge tokens. Set memcache_security_strategy = ENCRYPT and memcache_secret_key.'
        )


def check_secret_keys(conf: cfg.ConfigOpts) -> Iterator[str]:
    """Find a database whose secrets are in plain text."""
    secrets.register_keys(conf)
    if not secrets.read_keys(conf):
        yield f'[{secrets.GROUP}] secret_keys is not set: secrets in the database are readable.'


def check_stored_secrets(conf: cfg.ConfigOpts) -> Iterator[str]:
    """Find stored secrets that no key opens, that are in plain text or need to be sealed again."""
    database = Database(conf)
    keys = secrets.read_keys(conf)
    try:
        migration.check_database(database)
        stored = Counter(key for _, key in db_secrets.check_keys(database, keys))
    except _UNREADABLE as exc:
        reason = console.describe_error(conf, exc)
        yield f'The secrets in the database could not be read: {reason}'
        return
    finally:
        database.dispose()
    missing = stored.pop(db_secrets.UNOPENED, 0)
    if missing:
        yield (
            f'The key of {missing} secrets in the database is missing: append it to '
            f'[{secrets.GROUP}] secret_keys of all climate-api and climate-manager. '
            '"climate-manage secrets check" counts the secrets by key.'
        )
    stale = sum(count for key, count in stored.items() if key != 1)
    if keys and stale:
        yield (
            f'{stale} secrets in the database are in plain text or sealed with an older key: run '
            '"climate-manage secrets rotate".'
        )


def check_external(conf: cfg.ConfigOpts) -> Iterator[str]:
    """Find an external service that accepts all callers, or receives a Keystone token."""
    section = conf.limits
    if section.external_token or section.external_bearer_token:
        return
    if section.external_keystone_token:
        yield (
            '[limits] external_keystone_token gives the external service the rights of '
            "Climate's user: set external_token instead."
        )
    elif section.external_endpoint:
        yield '[limits] external_token is not set: the external service accepts all callers.'


def check_webhooks(conf: cfg.ConfigOpts) -> Iterator[str]:
    """Find private networks that webhooks reach."""
    if conf.webhooks.enabled:
        allowed = parse_networks(conf.webhooks.allowed_networks)
        opened = ', '.join(
            str(network) for network in allowed if webhooks.overlaps_private(network)
        )
        if opened:
            yield f'[webhooks] allowed_networks opens private networks to all users: {opened}.'


def check_transport(conf: cfg.ConfigOpts) -> Iterator[str]:
    """Find message buses that others read or that need no credentials of Climate's own."""
    urls = {'transport_url': conf.transport_url}
    for group in ('oslo_messaging_notifications', *_NOTIFICATION_GROUPS):
        urls[f'[{group}] transport_url'] = conf[group].transport_url
    for name, text in urls.items():
        if text and text.startswith('rabbit'):
            yield from _check_url(conf, name, parse_transport(conf, name, text))


def _check_url(conf: cfg.ConfigOpts, name: str, url: messaging.TransportURL) -> Iterator[str]:
    tls = read_tls_options(conf, url)
    if not _LOCAL.issuperset(host.hostname for host in url.hosts):
        if tls is None:
            yield f'{name} has no TLS: set [oslo_messaging_rabbit] ssl = true.'
        elif 'ca_certs' not in tls:
            yield (
                f'{name} accepts the certificate of any host: set [oslo_messaging_rabbit] '
                'ssl_ca_file.'
            )
    if not url.hosts or any(host.username in (None, 'guest') for host in url.hosts):
        yield f'{name} has the user guest: give Climate a user of its own.'
    if url.virtual_host in (None, '', '/'):
        yield f'{name} has the virtual host /: give Climate one of its own.'


def read_tls_options(
    conf: cfg.ConfigOpts, url: messaging.TransportURL, hostname: str | None = None
) -> dict[str, Any] | None:
    """Return the options of kombu for TLS with a broker of RabbitMQ; None: it has no TLS.

    Options in the query of the URL come before those of [oslo_messaging_rabbit]
    (oslo_messaging/_drivers/common.py ``ConfigOptsProxy``). Without ssl_ca_file oslo.messaging
    does not verify the name of the broker (_drivers/impl_rabbit.py ``_fetch_ssl_params``).

    :param hostname: the broker that its certificate must name
    """
    section = conf.oslo_messaging_rabbit
    if not strutils.bool_from_string(url.query.get('ssl', section.ssl)):
        return None
    names = {'ca_certs': 'ssl_ca_file', 'keyfile': 'ssl_key_file', 'certfile': 'ssl_cert_file'}
    given = {ours: url.query.get(name, section[name]) for ours, name in names.items()}
    found: dict[str, Any] = {name: path for name, path in given.items() if path}
    if 'ca_certs' in found:
        found['cert_reqs'] = ssl.CERT_REQUIRED
        found['server_hostname'] = hostname
    return found


def check_notifications(conf: cfg.ConfigOpts) -> Iterator[str]:
    """Find notifications on the bus of the RPC, whose readers could call the managers."""
    if conf.oslo_messaging_notifications.transport_url in (None, conf.transport_url):
        yield '[oslo_messaging_notifications] transport_url is that of the RPC: separate them.'
    for group in _NOTIFICATION_GROUPS:
        section = conf[group]
        if section.enabled and section.transport_url in (None, conf.transport_url):
            yield f'[{group}] transport_url is that of the RPC: separate them.'


def check_database(conf: cfg.ConfigOpts) -> Iterator[str]:
    """Find a connection to the database that does not verify the certificate and its host."""
    url = sa.make_url(conf.database.connection)
    if url.get_backend_name() == 'sqlite' or (url.host or 'localhost') in _LOCAL:
        return
    if url.get_backend_name() == 'postgresql':
        is_verified = url.query.get('sslmode') == 'verify-full'
    else:
        by_name = strutils.bool_from_string(url.query.get('ssl_check_hostname'), default=True)
        has_ca = not {'ssl_ca', 'ssl_capath'}.isdisjoint(url.query)
        is_verified = has_ca and by_name and _WITHOUT_CA.isdisjoint(url.query)
    if not is_verified:
        yield (
            '[database] connection does not verify the server: set ssl_ca without ssl_verify_cert '
            '(MySQL) or sslmode=verify-full (PostgreSQL).'
        )


def check_urls(conf: cfg.ConfigOpts) -> Iterator[str]:
    """Find services that are called without TLS, or whose certificates are not verified."""
    urls = {f'[{group}] auth_url': _auth_url(conf, group) for group in _WITH_KEYSTONE}
    for group in _WITH_KEYSTONE:
        if conf[group].insecure:
            yield f'[{group}] insecure is true: set cafile instead.'
    for group in conf:
        if isinstance(conf[group], Mapping):
            urls |= {f'[{group}] {name}': conf[group][name] for name in _urls_of(conf[group])}
    for name, url in urls.items():
        hosts = http_post.hosts_of(str(url))
        if str(url).startswith('http://') and not _LOCAL.issuperset(hosts):
            yield f'{name} is http: use https.'


_WITH_KEYSTONE = ('cloud', 'keystone_authtoken', 'oslo_limit')


def _urls_of(section: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the options that have the URL of a service."""
    for name in section:
        if name.startswith('external_') or name.endswith(('_uri', '_url', 'endpoint_override')):
            yield name


def _auth_url(conf: cfg.ConfigOpts, group: str) -> str | None:
    try:
        identity: Any = ks_loading.load_auth_from_conf_options(conf, group)
    except (ksa.ClientException, cfg.Error):
        return None
    return getattr(identity, 'auth_url', None)


def check_limits(conf: cfg.ConfigOpts) -> Iterator[str]:
    """Find projects that can reserve the whole cloud."""
    if conf.limits.driver == 'none':
        yield '[limits] driver is none: one project can reserve all that is free.'


def check_trusts(conf: cfg.ConfigOpts) -> Iterator[str]:
    """Find trusts that delegate more than the rights in a project."""
    delegated = [role for role in conf.cloud.trust_roles if is_administrative(role)]
    if delegated:
        yield f'[cloud] trust_roles delegates roles of administrators: {", ".join(delegated)}.'


Check = Callable[[cfg.ConfigOpts], Iterator[str]]
CHECKS: tuple[tuple[str, Check], ...] = (
    ('File modes', check_file_modes),
    ('Authentication', check_authentication),
    ('Token cache', check_token_cache),
    ('Secrets at rest', check_secret_keys),
    ('Stored secrets', check_stored_secrets),
    ('External service', check_external),
    ('Webhooks', check_webhooks),
    ('Message bus', check_transport),
    ('Notifications', check_notifications),
    ('Database', check_database),
    ('TLS', check_urls),
    ('Limits', check_limits),
    ('Trusts', check_trusts),
)


#: The errors for an option with an invalid value.
_INVALID = (cfg.Error, sa.exc.ArgumentError)


class Checks(upgradecheck.UpgradeCommands):
    """Checks of the installation. The first one is that of its configuration files.

    :param conf: the configuration of the services
    :param checks: the name of each check, and a function without parameters that runs it
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        checks: Iterable[tuple[str, Callable[[], upgradecheck.Result]]],
    ) -> None:
        super().__init__()
        self.conf = conf
        rows = (('Configuration files', self._check_files), *checks)
        self._upgrade_checks = tuple(
            (name, (_run_check, {'check': check})) for name, check in rows
        )

    def _check_files(self) -> upgradecheck.Result:
        """Warn if no file was read: then the checks see the defaults."""
        missing = console.describe_missing_file(self.conf)
        if missing:
            return upgradecheck.Result(
                upgradecheck.Code.WARNING, f'{missing} The checks used the defaults.'
            )
        files = ', '.join(console.list_files(self.conf))
        return upgradecheck.Result(upgradecheck.Code.SUCCESS, f'Read: {files}')


def _run_check(checks: Checks, check: Callable[[], upgradecheck.Result]) -> upgradecheck.Result:
    """Return the result of a check: a failure if an option that it needs is invalid."""
    try:
        return check()
    except _INVALID as exc:
        reason = console.describe_error(checks.conf, exc)
        return upgradecheck.Result(upgradecheck.Code.FAILURE, reason)


def parse_transport(conf: cfg.ConfigOpts, option: str, url: str) -> messaging.TransportURL:
    """Parse the URL of a message bus.

    :raises oslo_config.cfg.Error: it is invalid
    """
    try:
        return messaging.TransportURL.parse(conf, url)
    except (ValueError, messaging.InvalidTransportURL) as exc:
        raise cfg.Error(
            f'{option} is invalid ({exc}): must be rabbit://USER:PASSWORD@HOST:PORT/VHOST'
        ) from exc


class SecurityChecks(Checks):
    """Run every check. A check reports warnings; it fails if an option that it reads is invalid.

    :param conf: the configuration of the services
    """

    display_title = 'Security Check Results'

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        table = ((name, functools.partial(self._check, find)) for name, find in CHECKS)
        super().__init__(conf, table)

    def _check(self, find: Check) -> upgradecheck.Result:
        warnings = ' '.join(find(self.conf))
        code = upgradecheck.Code.WARNING if warnings else upgradecheck.Code.SUCCESS
        return upgradecheck.Result(code, warnings or None)
