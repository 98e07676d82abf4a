# SPDX-License-Identifier: Apache-2.0
"""Keystone itself, in a process of its own: its configuration is global, and so are its drivers.

It answers one request at a time: its threads share the rights of a request
(keystone/server/flask/request_processing/middleware/auth_context.py).
"""

import contextlib
import pathlib
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any
from wsgiref import simple_server

from cryptography import fernet
from keystoneauth1 import adapter
from keystoneauth1 import session as ks_session
from keystoneauth1.identity import v3

PASSWORD = 'secret'
#: Options of password plugins that say in which domain the names are.
DOMAINS = {'user_domain_id': 'default', 'project_domain_id': 'default'}
_CONF = """
[DEFAULT]
log_file = {directory}/keystone.log
[database]
connection = sqlite:///{directory}/keystone.sqlite
[fernet_tokens]
key_repository = {directory}/fernet
[fernet_receipts]
key_repository = {directory}/fernet
[credential]
key_repository = {directory}/credential
[identity]
password_hash_rounds = 4
"""


class Keystone:
    """A running Keystone with the domain ``default``.

    :param process: prints the URL of the Identity API v3, and a line for each option that it reads
    """

    def __init__(self, process: 'subprocess.Popen[str]') -> None:
        self._process = process
        self.url = self._read()
        self._admin = self.session('admin')

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def allow(self, group: str, option: str, value: bool) -> None:
        """Set a boolean option of keystone.conf, from the next request on."""
        assert self._process.stdin is not None
        print(group, option, int(value), file=self._process.stdin, flush=True)
        assert self._read() == 'ok'

    def ask(self, method: str, path: str, body: Any = None, session: Any = None) -> Any:
        """Send a request, as the administrator unless a session is given; return the answer."""
        options: dict[str, Any] = {} if body is None else {'json': body}
        sender = adapter.Adapter(session or self._admin, endpoint_override=self.url)
        answer = sender.request(path, method, **options)
        return answer.json() if answer.content else None

    def make(self, noun: str, **values: Any) -> str:
        """Create something; return its id."""
        made = self.ask('POST', f'/{noun}s', {noun: values})[noun]
        return str(made['id'])

    def role(self, name: str) -> str:
        """Return the id of a role that is of no domain."""
        (role,) = self.ask('GET', f'/roles?name={name}')['roles']
        return str(role['id'])

    def user(self, name: str, project: str, *roles: str) -> str:
        """Create a user with roles in a new project; return the id of the user."""
        project_id = self.make('project', name=project, domain_id='default')
        user_id = self.make('user', name=name, password=PASSWORD, domain_id='default')
        for role in roles:
            path = f'/projects/{project_id}/users/{user_id}/roles/{self.role(role)}'
            self.ask('PUT', path)
        return user_id

    def service(self, kind: str, url: str) -> None:
        """Add a service to the catalog."""
        service_id = self.make('service', type=kind, name=kind)
        self.make('endpoint', service_id=service_id, interface='public', url=url)

    def session(self, name: str, trust_id: str | None = None) -> ks_session.Session:
        """Return a session of a user, in the project of that name or by a trust."""
        scope = DOMAINS | {'project_name': name}
        if trust_id is not None:
            scope = {'user_domain_id': 'default', 'trust_id': trust_id}
        auth = v3.Password(self.url, username=name, password=PASSWORD, **scope)
        return ks_session.Session(auth)

    def credential(self, session: ks_session.Session, **values: Any) -> ks_session.Session:
        """Return a session with a new application credential of the user of another session."""
        path = f'/users/{session.get_user_id()}/application_credentials'
        body = {'application_credential': {'name': 'robot', **values}}
        made = self.ask('POST', path, body, session)['application_credential']
        auth = v3.ApplicationCredential(
            self.url,
            application_credential_id=made['id'],
            application_credential_secret=made['secret'],
        )
        return ks_session.Session(auth)


@contextlib.contextmanager
def running(directory: pathlib.Path) -> Iterator[Keystone]:
    """Run Keystone with an administrator ``admin``, in the project of that name."""
    (directory / 'keystone.conf').write_text(_CONF.format(directory=directory))
    command = [sys.executable, '-W', 'ignore', '-m', __name__, str(directory)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            yield Keystone(process)
        finally:
            process.terminate()


def main(directory: pathlib.Path) -> None:
    """Create the tables, the keys and the administrator, and answer until stdin ends."""
    from keystone.cmd import bootstrap
    from keystone.common import sql
    from keystone.server.flask import core

    for name in ('fernet', 'credential'):
        (directory / name).mkdir(mode=0o700)
        (directory / name / '0').write_bytes(fernet.Fernet.generate_key())
    application = core.initialize_application(
        name='public', config_files=[str(directory / 'keystone.conf')]
    )
    with sql.session_for_write() as session:
        sql.ModelBase.metadata.create_all(session.get_bind())

    class Silent(simple_server.WSGIRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    server = simple_server.make_server('127.0.0.1', 0, application, handler_class=Silent)
    url = f'http://127.0.0.1:{server.server_port}/v3'
    # They are loaded, which is possible once.
    bootstrap.backends.load_backends = lambda: None
    maker = bootstrap.Bootstrapper()
    maker.admin_username = maker.admin_role_name = maker.project_name = 'admin'
    maker.admin_password = PASSWORD
    maker.public_url = maker.internal_url = maker.admin_url = url
    maker.service_name = 'keystone'
    maker.bootstrap()
    print(url, flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for line in sys.stdin:
        group, option, value = line.split()
        core.CONF.set_override(option, bool(int(value)), group)
        print('ok', flush=True)


if __name__ == '__main__':
    # Keystone reads the rest of the arguments.
    main(pathlib.Path(sys.argv.pop()))
