# SPDX-License-Identifier: Apache-2.0
"""RabbitMQ as an ordinary process, with its own Erlang port mapper."""

import base64
import functools
import hashlib
import json
import os
from typing import Final, NamedTuple

import amqp

from climate_cloud.processes import Service
from climate_cloud.settings import Settings

#: The administrator: the checks of this cloud, and what listens.
USER: Final = 'cloud'
#: The user that the services other than Climate share.
SERVICES: Final = 'openstack'
#: The vhosts besides that of the services: the RPC of Climate, and what all notify.
RPC, NOTIFICATIONS = 'climate', 'notifications'


class Rights(NamedTuple):
    """What a user of RabbitMQ may configure, write and read in a vhost."""

    vhost: str
    configure: str = '.*'
    write: str = '.*'
    read: str = '.*'


def _notifies(exchange: str, topics: str = 'notifications') -> Rights:
    own = f'^({exchange}|{topics}\\..*)$'
    return Rights(NOTIFICATIONS, own, own, f'^{exchange}$')


#: As the installation guide has them, and the other services.
USERS: Final = {
    SERVICES: Rights('/'),
    'climate': Rights(RPC),
    'nova-notify': _notifies('nova', '(versioned_)?notifications'),
    'cinder-notify': _notifies('openstack'),
    'heat-notify': _notifies('heat'),
    'climate-notify': Rights(
        NOTIFICATIONS,
        '^(nova|openstack|heat|climate(-cinder|-heat)?|notifications\\..*)$',
        '^(climate(-cinder|-heat)?|notifications\\..*)$',
        '^(nova|openstack|heat|climate(-cinder|-heat)?)$',
    ),
}

_CONFIG = """\
listeners.tcp.1 = {host}:{port}
load_definitions = {etc}/definitions.json
vm_memory_high_watermark.absolute = 2GB
disk_free_limit.absolute = 50MB
log.console = true
log.console.level = warning
log.file = false
"""


class RabbitMQ:
    """The message bus of one cloud."""

    def __init__(self, settings: Settings, secrets: dict[str, str]) -> None:
        self.settings = settings
        self.passwords = {USER: secrets['rabbitmq'], **{each: secrets[each] for each in USERS}}
        self.cookie = secrets['cookie']
        self.etc = settings.etc / 'rabbitmq'
        self.home = settings.data / 'rabbitmq'

    def url(self, user: str = USER, vhost: str = '') -> str:
        """Return the URL for oslo.messaging.

        :param vhost: of the administrator; others have one
        """
        where = f'{self.settings.host}:{self.settings.port("rabbitmq")}'
        vhost = USERS[user].vhost if user in USERS else vhost
        return f'rabbit://{user}:{self.passwords[user]}@{where}/{vhost}'

    def prepare(self) -> None:
        self.etc.mkdir(parents=True, exist_ok=True)
        self.home.mkdir(parents=True, exist_ok=True)
        host, port = self.settings.host, self.settings.port('rabbitmq')
        config = _CONFIG.format(host=host, port=port, etc=self.etc)
        (self.etc / 'rabbitmq.conf').write_text(config)
        (self.etc / 'advanced.config').write_text('[].\n')
        (self.etc / 'enabled_plugins').write_text('[].\n')
        definitions = self.etc / 'definitions.json'
        definitions.touch(mode=0o600)
        definitions.write_text(json.dumps(self._definitions(), indent=2))
        cookie = self.home / '.erlang.cookie'
        if not cookie.exists():
            cookie.write_text(self.cookie)
            cookie.chmod(0o400)

    def _definitions(self) -> dict[str, list]:
        users = [
            {'name': name, 'password_hash': password_hash(password)}
            | {'hashing_algorithm': 'rabbit_password_hashing_sha256'}
            | {'tags': ['administrator'] if name == USER else []}
            for name, password in self.passwords.items()
        ]
        vhosts = ('/', RPC, NOTIFICATIONS)
        permissions = [(USER, Rights(vhost)) for vhost in vhosts] + list(USERS.items())
        # Nobody reads most notifications here: drop them after ten minutes, and queues of
        # listeners that are gone with them.
        policies = [
            ('notifications', 'notifications', {'message-ttl': 600_000}),
            ('listeners', '^(listener|tests)-', {'expires': 600_000}),
        ]
        return {
            'vhosts': [{'name': vhost} for vhost in vhosts],
            'users': users,
            'permissions': [{'user': user, **right._asdict()} for user, right in permissions],
            'policies': [
                {'vhost': NOTIFICATIONS, 'name': name, 'pattern': pattern, 'apply-to': 'queues'}
                | {'definition': definition, 'priority': 0}
                for name, pattern, definition in policies
            ],
        }

    def _environment(self) -> dict[str, str]:
        loopback = '{' + self.settings.host.replace('.', ',') + '}'
        return {
            'HOME': str(self.home),
            'ERL_EPMD_PORT': str(self.settings.port('epmd')),
            'ERL_EPMD_ADDRESS': self.settings.host,
            'RABBITMQ_NODENAME': f'climate{self.settings.base_port}@localhost',
            'RABBITMQ_NODE_IP_ADDRESS': self.settings.host,
            'RABBITMQ_NODE_PORT': str(self.settings.port('rabbitmq')),
            'RABBITMQ_DIST_PORT': str(self.settings.port('rabbitmq-dist')),
            'RABBITMQ_MNESIA_BASE': str(self.home / 'mnesia'),
            'RABBITMQ_LOG_BASE': str(self.settings.logs),
            'RABBITMQ_CONFIG_FILE': str(self.etc / 'rabbitmq.conf'),
            'RABBITMQ_ADVANCED_CONFIG_FILE': str(self.etc / 'advanced.config'),
            'RABBITMQ_ENABLED_PLUGINS_FILE': str(self.etc / 'enabled_plugins'),
            'RABBITMQ_CONF_ENV_FILE': str(self.etc / 'rabbitmq-env.conf'),
            'RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS': (
                f'-kernel inet_dist_use_interface {loopback} +S 2:2 +sbwt none'
            ),
        }

    def services(self) -> list[Service]:
        """Return the port mapper and the broker, in the order of their start."""
        epmd = Service(
            'epmd',
            ['epmd', '-address', self.settings.host, '-port', str(self.settings.port('epmd'))],
            lambda: True,
        )
        broker = Service(
            'rabbitmq',
            ['/usr/lib/rabbitmq/bin/rabbitmq-server'],
            self.answers,
            environment=self._environment(),
            port='rabbitmq',
            stop_group=True,
        )
        return [epmd, broker]

    def connect(self, vhost: str = '/') -> amqp.Connection:
        connection = amqp.Connection(
            host=f'{self.settings.host}:{self.settings.port("rabbitmq")}',
            userid=USER,
            password=self.passwords[USER],
            virtual_host=vhost,
            connect_timeout=5,
        )
        connection.connect()
        return connection

    def answers(self) -> bool:
        try:
            self.connect().close()
        except (OSError, amqp.exceptions.AMQPError):
            return False
        return True

    def listens(self, queue: str, vhost: str = '/') -> bool:
        """Tell whether the queue has a consumer: a service that serves is one."""
        try:
            with self.connect(vhost) as connection:
                found = connection.channel().queue_declare(queue, passive=True)
        except (OSError, amqp.exceptions.AMQPError):
            return False
        return found.consumer_count > 0

    def listener(self, queue: str, vhost: str = '/'):
        """Return a check for :class:`climate_cloud.processes.Service`."""
        return functools.partial(self.listens, queue, vhost)


def password_hash(password: str) -> str:
    """Hash a password as RabbitMQ keeps it: base64(salt + sha256(salt + password))."""
    salt = os.urandom(4)
    return base64.b64encode(salt + hashlib.sha256(salt + password.encode()).digest()).decode()
