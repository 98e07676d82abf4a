# SPDX-License-Identifier: Apache-2.0
"""The dashboard of the cloud: Horizon with the panels of Climate, as one process of uwsgi.

Nothing is written into Horizon's own folders: its settings are found on the path of modules.
"""

import functools
import hashlib
import subprocess

from climate_cloud.configs import TEMPLATES, Template
from climate_cloud.install import LOCK
from climate_cloud.processes import Service, ServiceFailed, clean_environment
from climate_cloud.services import UWSGI, answers
from climate_cloud.settings import ROOT, Settings

PLUGIN = ROOT / 'climate_dashboard'
_SETTINGS = 'horizon_settings.py'
#: What style sheets and scripts are made of, and how long that may take.
_COMMANDS = (['collectstatic', '--noinput', '-v', '0'], ['compress', '--force', '-v', '0'])
_SECONDS = 300


class Horizon:
    """The dashboard of one cloud.

    :param secret: signs the cookies of its sessions
    """

    def __init__(self, settings: Settings, secret: str) -> None:
        self.settings = settings
        self.etc = settings.etc / 'horizon'
        self.data = settings.data / 'horizon'
        self._secret = secret

    @property
    def url(self) -> str:
        return f'{self.settings.url("horizon")}/'

    def write(self) -> None:
        """Write the settings of Horizon."""
        package = self.etc / 'local'
        package.mkdir(parents=True, exist_ok=True)
        self.data.mkdir(parents=True, exist_ok=True)
        (package / '__init__.py').touch()
        path = package / 'local_settings.py'
        path.touch(mode=0o600)
        values = {
            'host': self.settings.host,
            'secret': self._secret,
            'data': self.data,
            'keystone_url': self.settings.url('keystone'),
        }
        path.write_text(Template((TEMPLATES / _SETTINGS).read_text()).substitute(values))

    def collect(self) -> None:
        """Collect and compress style sheets and scripts, if any has changed since.

        :raises ServiceFailed: one of Horizon's commands failed
        """
        stamp, wanted = self.data / 'collected', self._fingerprint()
        if stamp.exists() and stamp.read_text() == wanted:
            return
        stamp.unlink(missing_ok=True)
        for command in _COMMANDS:
            self._run(command)
        stamp.write_text(wanted)

    def service(self) -> Service:
        socket = f'{self.settings.host}:{self.settings.port("horizon")}'
        command = [self.settings.bin / 'uwsgi', '--http-socket', socket]
        command += ['--module', 'openstack_dashboard.wsgi', '--pyhome', self.settings.venv]
        command += ['--static-map', f'/static={self.data / "static"}', *UWSGI]
        return Service(
            'horizon',
            [str(word) for word in command],
            functools.partial(answers, f'{self.url}auth/login/'),
            environment=self._environment(),
            port='horizon',
        )

    def _environment(self) -> dict[str, str]:
        return {
            'PYTHONPATH': str(self.etc),
            'DJANGO_SETTINGS_MODULE': 'openstack_dashboard.settings',
        }

    def _run(self, command: list[str]) -> None:
        done = subprocess.run(
            [self.settings.bin / 'python', '-W', 'ignore', '-m', 'django', *command],
            env={**clean_environment(), **self._environment()},
            cwd=self.settings.state,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        if done.returncode:
            told = '\n'.join((done.stdout + done.stderr).splitlines()[-20:])
            raise ServiceFailed(f'horizon: django {command[0]} failed\n{told}')

    def _fingerprint(self) -> str:
        digest = hashlib.sha256(LOCK.read_bytes())
        kinds = ('.scss', '.js', '.html', '.py')
        files = [path for path in PLUGIN.rglob('*') if path.suffix in kinds]
        for path in [self.etc / 'local' / 'local_settings.py', *sorted(files)]:
            digest.update(path.read_bytes())
        return digest.hexdigest()
