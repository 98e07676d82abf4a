# SPDX-License-Identifier: Apache-2.0
"""The console script ``climate-status``: ``upgrade check`` and ``security check``."""

import functools
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final

import kombu
from kombu.transport import pyamqp
from oslo_config import cfg
from oslo_policy import policy as oslo_policy
from oslo_upgradecheck import upgradecheck

from climate_core import conf as configuration
from climate_core import packages
from climate_core.api import policy
from climate_core.cloud import Cloud, errors, placement, volumes
from climate_core.cmd import console, security
from climate_core.conf import cloud as cloud_conf
from climate_core.db import migration
from climate_core.db.engine import DATABASE_ERRORS, Database
from climate_core.plugins import loading

#: The errors of a database that does not answer.
_DATABASE_ERRORS: tuple[type[Exception], ...] = (OSError, *DATABASE_ERRORS)
_SUCCESS = upgradecheck.Code.SUCCESS
_WARNING = upgradecheck.Code.WARNING
_FAILURE = upgradecheck.Code.FAILURE
_UNCHECKED_DATABASE = upgradecheck.Result(_WARNING, 'Not checked without the database.')
#: Messages of a queue without a consumer that a policy of RabbitMQ should have dropped.
_MAX_UNREAD: Final = 10_000
#: Seconds to wait for RabbitMQ.
_CONNECT_SECONDS: Final = 10.0
#: The errors of a RabbitMQ that does not answer, or rejects the user or the virtual host. A
#: rejected password is an error of a channel for kombu, as a missing queue is.
_RABBITMQ_ERRORS = (*pyamqp.Transport.connection_errors, *pyamqp.Transport.channel_errors)


class UpgradeChecks(security.Checks):
    """Checks of the installation. They change nothing but a provider in Placement, temporarily.

    :param conf: the configuration of the services
    """

    #: Set by the check of the database; None if it is unusable.
    _database: Database | None = None

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__(
            conf,
            (
                ('Database', self._check_database),
                ('Rolling upgrade', self._check_phase),
                ('Plugins', self._check_plugins),
                ('Credentials', self._check_credentials),
                ('Setting transport_url', self._check_transport),
                ('Queues of notifications', self._check_queues),
                ('Placement', self._check_placement),
                ('Volumes of all projects', self._check_volumes),
                *(
                    (check.title, functools.partial(self._check_pool, check))
                    for package in packages.list_packages()
                    for check in package.list_pool_checks()
                ),
                ('Policy', self._check_policy),
            ),
        )

    def check(self) -> upgradecheck.Code:
        """Run all checks with one engine of the database.

        :returns: the worst of their results
        """
        try:
            return super().check()
        finally:
            if self._database is not None:
                self._database.dispose()

    def _check_database(self) -> upgradecheck.Result:
        """Check that the database answers and has what this release needs."""
        database = Database(self.conf)
        try:
            migration.check_database(database)
        except migration.WrongVersion as exc:
            database.dispose()
            return upgradecheck.Result(_FAILURE, str(exc))
        except _DATABASE_ERRORS as exc:
            return self._fail(exc)
        self._database = database
        return upgradecheck.Result(_SUCCESS)

    def _fail(self, exc: Exception) -> upgradecheck.Result:
        problem = f'The database cannot be used: {console.describe_error(self.conf, exc)}'
        return upgradecheck.Result(_FAILURE, problem)

    def _check_phase(self) -> upgradecheck.Result:
        """Check that nothing of the last upgrade is left to do."""
        if self._database is None:
            return _UNCHECKED_DATABASE
        try:
            contracted = migration.is_contracted(self._database)
        except _DATABASE_ERRORS as exc:
            return self._fail(exc)
        if not contracted:
            return upgradecheck.Result(
                _WARNING,
                'The database still has what only the previous release needs. When no service of '
                'that release runs: "climate-manage db contract".',
            )
        cap = self.conf.upgrade_levels.manager
        if cap is not None:
            return upgradecheck.Result(
                _WARNING,
                f'[upgrade_levels] manager is {cap}: calls that need a newer version are '
                'rejected. Remove the option when every manager runs this release.',
            )
        return upgradecheck.Result(_SUCCESS)

    def _check_plugins(self) -> upgradecheck.Result:
        """Check that the plugins of climate.conf are installed and fit together."""
        try:
            found = loading.load_classes(self.conf.manager.plugins)
        except loading.PluginError as exc:
            return upgradecheck.Result(_FAILURE, str(exc))
        if not found:
            return upgradecheck.Result(_WARNING, '[manager] plugins is empty.')
        return upgradecheck.Result(_SUCCESS)

    def _check_credentials(self) -> upgradecheck.Result:
        """Check that the options for the credentials of the service user are set."""
        if self.conf.api.auth_strategy == 'noauth':
            return upgradecheck.Result(_WARNING, '[api] auth_strategy is noauth.')
        missing = [
            f'[{group}] auth_type'
            for group in ('cloud', 'keystone_authtoken')
            if not (self.conf[group].auth_type or self.conf[group].auth_section)
        ]
        if missing:
            return upgradecheck.Result(_FAILURE, f'Not set: {", ".join(missing)}.')
        return upgradecheck.Result(_SUCCESS)

    def _check_transport(self) -> upgradecheck.Result:
        """Check that the API and the managers can share the message bus.

        The check reads only the option: oslo.messaging connects when it sends the first message,
        and the behavior depends on the driver.
        """
        url = self.conf.transport_url
        if url.startswith('fake:'):
            return upgradecheck.Result(
                _WARNING, 'transport_url is fake: only "climate-manage serve" works with it.'
            )
        return upgradecheck.Result(_SUCCESS)

    def _check_queues(self) -> upgradecheck.Result:
        """Check that no queue of notifications grows without a consumer."""
        try:
            unread = [*_unread_queues(self.conf)]
        except _RABBITMQ_ERRORS as exc:
            return upgradecheck.Result(_WARNING, f'RabbitMQ could not be checked: {exc}')
        if unread:
            return upgradecheck.Result(
                _WARNING,
                f'Queues without a consumer grow: {", ".join(unread)}. Set a policy of RabbitMQ '
                "with message-ttl and max-length for them, see Climate's installation guide.",
            )
        return upgradecheck.Result(_SUCCESS)

    def _check_placement(self) -> upgradecheck.Result:
        """Check that Placement does not allocate the same capacity twice."""
        if self._check_credentials().code is not _SUCCESS:
            return upgradecheck.Result(_WARNING, 'Not checked without credentials.')
        try:
            conn = Cloud(self.conf).service()
            if not placement.PLACEMENT.is_offered(conn):
                return upgradecheck.Result(_WARNING, 'Placement has no endpoint.')
            overbooks = placement.overbooks(conn)
        except errors.EXPECTED as exc:
            return upgradecheck.Result(_WARNING, f'Placement could not be checked: {exc}')
        if overbooks:
            return upgradecheck.Result(
                _WARNING,
                'Placement accepts concurrent claims of more than the capacity. Set "[placement] '
                'allocation_conflict_retry_count = 1" in placement.conf and restart it: without '
                'that neither reservations nor ordinary servers are sure to have capacity.',
            )
        return upgradecheck.Result(_SUCCESS)

    def _check_volumes(self) -> upgradecheck.Result:
        """Check that Cinder shows the volumes of all projects to the user of Climate."""
        if self._check_credentials().code is not _SUCCESS:
            return upgradecheck.Result(_WARNING, 'Not checked without credentials.')
        try:
            conn = Cloud(self.conf).service()
            if not volumes.CINDER.is_offered(conn):
                return upgradecheck.Result(_SUCCESS, 'Cinder has no endpoint.')
            hidden = volumes.find_hidden(conn)
        except errors.EXPECTED as exc:
            return upgradecheck.Result(_WARNING, f'The volumes could not be checked: {exc}')
        if hidden is not None:
            return upgradecheck.Result(
                _FAILURE,
                f'Cinder lists volume {hidden} but answers 404 for it: Climate would record '
                'volumes of leases as deleted. Add the rules xena_system_admin_or_project_reader '
                'and xena_system_admin_or_project_member to policy.yaml of Cinder, see the page '
                'Security.',
            )
        return upgradecheck.Result(_SUCCESS)

    def _check_pool(self, check: packages.PoolCheck) -> upgradecheck.Result:
        """Check that the resources that operators added to a pool are reserved for leases."""
        if self._check_credentials().code is not _SUCCESS:
            return upgradecheck.Result(_WARNING, 'Not checked without credentials.')
        if self._database is None:
            return _UNCHECKED_DATABASE
        try:
            problems = check.find_problems(self._database, Cloud(self.conf).service())
        except (*errors.EXPECTED, *_DATABASE_ERRORS) as exc:
            return upgradecheck.Result(_WARNING, f'{check.unchecked}: {exc}')
        if problems is None:
            return upgradecheck.Result(_SUCCESS, check.empty)
        code = _WARNING if problems else _SUCCESS
        return upgradecheck.Result(code, ' '.join([*problems, check.limits]))

    def _check_policy(self) -> upgradecheck.Result:
        """Check that policy.yaml can be read and has no undefined rules."""
        try:
            enforcer = policy.make_enforcer(self.conf)
            enforcer.load_rules()
            enforcer.check_rules(raise_on_violation=True)
        except (oslo_policy.InvalidDefinitionError, cfg.ConfigFilesNotFoundError, ValueError) as e:
            return upgradecheck.Result(_FAILURE, f'The policy cannot be used: {e}')
        return upgradecheck.Result(_SUCCESS)


def _unread_queues(conf: cfg.ConfigOpts) -> Iterator[str]:
    """Yield the queues of notifications that have no consumer and many messages.

    oslo.messaging declares a queue for each topic and priority when it sends, whether anybody
    consumes it or not (oslo_messaging/notify/messaging.py, _drivers/impl_rabbit.py notify_send).

    :raises OSError: RabbitMQ does not answer
    :raises amqp.exceptions.AMQPError: it rejects the user or the virtual host
    """
    own = conf.oslo_messaging_notifications
    topics = {(own.transport_url or conf.transport_url, name) for name in own.topics}
    for group in (conf[section.GROUP] for section in cloud_conf.NOTIFICATION_SECTIONS):
        if group.enabled:
            topics |= {(group.transport_url or conf.transport_url, name) for name in group.topics}
    for url, topic in sorted(topics):
        if url.startswith('rabbit'):
            for priority in ('info', 'error'):
                name = f'{topic}.{priority}'
                messages = _count_unread(conf, url, name)
                if messages > _MAX_UNREAD:
                    yield f'{name} ({messages} messages)'


def _count_unread(conf: cfg.ConfigOpts, url: str, queue: str) -> int:
    """Return the number of messages of a queue; 0 if it has a consumer or does not exist."""
    parsed = security.parse_transport(conf, 'transport_url', url)
    for place, host in enumerate(parsed.hosts, 1):
        tls = security.read_tls_options(conf, parsed, host.hostname)
        connection = kombu.Connection(
            hostname=host.hostname,
            port=host.port or 5672,
            userid=host.username,
            password=host.password,
            virtual_host=parsed.virtual_host or '/',
            connect_timeout=_CONNECT_SECONDS,
            ssl=False if tls is None else tls or True,
        )
        with connection:
            try:
                # kombu waits two seconds before it retries by default.
                connection.ensure_connection(
                    max_retries=1, interval_start=0, reraise_as_library_errors=False
                )
            except OSError:
                if place == len(parsed.hosts):
                    raise
                continue
            try:
                declared = connection.channel().queue_declare(queue, passive=True)
            except connection.channel_errors:
                return 0
            return 0 if declared.consumer_count else int(declared.message_count)
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the checks.

    :returns: 0: all is well; 1: warnings; 2: a failure; 255: the checks themselves failed
    """
    conf = cfg.ConfigOpts()
    configuration.register(conf)
    conf.register_cli_opt(_command(conf))
    words = list(sys.argv[1:] if argv is None else argv)
    with console.exit_if_invalid('climate-status'):
        conf(words, project=configuration.PROJECT)
    # A database that does not answer now is a result: oslo.db retries for minutes by default.
    conf.set_override('max_retries', 0, group='database')
    # upgradecheck.main, which supports only one command, does the same for --json.
    upgradecheck.CONF = conf
    return int(upgradecheck.run(conf))


def _command(conf: cfg.ConfigOpts) -> cfg.SubCommandOpt:
    def add_parsers(subparsers: Any) -> None:
        for name, commands, text in (
            ('upgrade', UpgradeChecks(conf), 'check the installation'),
            ('security', security.SecurityChecks(conf), 'check the recommendations for security'),
        ):
            parser = subparsers.add_parser(name, help=text)
            parser.add_argument('check', choices=['check'])
            parser.add_argument('--json', action='store_true', help='print the results as JSON')
            parser.set_defaults(action_fn=commands.check)

    return cfg.SubCommandOpt('command', title='commands', handler=add_parsers)
