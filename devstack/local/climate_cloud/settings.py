# SPDX-License-Identifier: Apache-2.0
"""Settings of the cloud: directories, address, ports, number of compute hosts.

Standard library only: the installer runs it before the virtual environment exists.
``python -m climate_cloud.settings`` prints the path of that environment.
"""

import dataclasses
import json
import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[3]
LOCAL = ROOT / 'devstack' / 'local'

#: Offsets from the base port. Never reorder: endpoints are kept in the databases.
PORTS = {
    'mariadb': 0,
    'rabbitmq': 1,
    'rabbitmq-dist': 2,
    'epmd': 3,
    # The OSD has four, up to the manager's.
    'ceph-mon': 4,
    'ceph-osd': 5,
    'ceph-mgr': 9,
    'keystone': 10,
    'placement': 11,
    'glance': 12,
    'neutron': 13,
    'nova': 14,
    'cinder': 15,
    'heat': 16,
    'climate': 17,
    'climate-metrics': 18,
    'horizon': 19,
}

#: What is on or off.
_SWITCHES = ('stock', 'ceph', 'horizon', 'browser', 'policies')


class SettingsError(Exception):
    """A setting is wrong, or differs from the one the cloud was made with."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """One cloud.

    :param state: directory that holds everything the cloud writes
    :param host: address that every service listens on
    :param base_port: first of 20 ports; see :data:`PORTS`
    :param computes: number of nova-compute hosts for ordinary servers, compute1 ... computeN
    :param pool: number of the hosts after these, which are enrolled for leases; none in stock
    :param stock: leave Climate out, to compare with an OpenStack as it comes
    :param ceph: a second backend of Cinder, on a Ceph of its own
    :param horizon: the dashboard
    :param browser: install the browser in which the tests look at it
    :param policies: the services have Climate's lines in their policy.yaml, and its user has the
        rights of :data:`identity.LEAST`; else they have their own policies, and it is an admin
    """

    state: pathlib.Path
    host: str = '127.0.0.1'
    base_port: int = 21000
    computes: int = 3
    pool: int = 2
    stock: bool = False
    ceph: bool = False
    horizon: bool = False
    browser: bool = False
    policies: bool = True

    @property
    def venv(self) -> pathlib.Path:
        return self.state / 'venv'

    @property
    def bin(self) -> pathlib.Path:
        return self.venv / 'bin'

    @property
    def etc(self) -> pathlib.Path:
        return self.state / 'etc'

    @property
    def logs(self) -> pathlib.Path:
        return self.state / 'logs'

    @property
    def run(self) -> pathlib.Path:
        """Return the folder of the pid files and the lock."""
        return self.state / 'run'

    @property
    def data(self) -> pathlib.Path:
        """Return the folder of the databases, images and keys, which `down` keeps."""
        return self.state / 'data'

    @property
    def compute_names(self) -> list[str]:
        """Return the names of all hosts, those of the pool last."""
        return [f'compute{number}' for number in range(1, self.computes + 1)] + self.pool_names

    @property
    def pool_names(self) -> list[str]:
        last = self.computes if self.stock else self.computes + self.pool
        return [f'compute{number}' for number in range(self.computes + 1, last + 1)]

    def port(self, service: str) -> int:
        return self.base_port + PORTS[service]

    def url(self, service: str) -> str:
        return f'http://{self.host}:{self.port(service)}'

    def save(self) -> None:
        """Keep the settings beside the state, so that later commands need no variables."""
        self.state.mkdir(parents=True, exist_ok=True)
        names = ('host', 'base_port', 'computes', 'pool', *_SWITCHES)
        values = {name: getattr(self, name) for name in names}
        (self.state / 'settings.json').write_text(json.dumps(values, indent=2) + '\n')


def _number(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise SettingsError(f'{name} must be a number, not {text!r}') from None


def load(environ: dict[str, str] | None = None) -> Settings:
    """Read the settings: environment over ``settings.json`` over defaults.

    :param environ: CLIMATE_CLOUD_DIR, CLIMATE_CLOUD_HOST, CLIMATE_CLOUD_BASE_PORT,
        CLIMATE_CLOUD_COMPUTES, CLIMATE_CLOUD_POOL, CLIMATE_CLOUD_STOCK, CLIMATE_CLOUD_CEPH,
        CLIMATE_CLOUD_HORIZON, CLIMATE_CLOUD_BROWSER, CLIMATE_CLOUD_POLICIES; the process
        environment by default
    :raises SettingsError: a value is unusable, or host or ports differ from those of the
        cloud that exists in the directory (its databases hold them)
    """
    env = dict(os.environ if environ is None else environ)
    state = pathlib.Path(env.get('CLIMATE_CLOUD_DIR') or ROOT / '.cloud').absolute()
    kept = {}
    if (state / 'settings.json').exists():
        kept = json.loads((state / 'settings.json').read_text())
    values = dict(kept)
    if env.get('CLIMATE_CLOUD_HOST'):
        values['host'] = env['CLIMATE_CLOUD_HOST']
    for key in ('base_port', 'computes', 'pool'):
        name = f'CLIMATE_CLOUD_{key.upper()}'
        if env.get(name):
            values[key] = _number(name, env[name])
    for key in _SWITCHES:
        name = f'CLIMATE_CLOUD_{key.upper()}'
        if env.get(name):
            values[key] = env[name] not in ('0', 'no', 'false')
    settings = Settings(state=state, **values)
    if not 1 <= settings.computes <= 20:
        raise SettingsError('the number of computes must be between 1 and 20')
    if not 0 <= settings.pool <= 20:
        raise SettingsError('the number of hosts in the pool must be between 0 and 20')
    if not 1024 <= settings.base_port <= 65500:
        raise SettingsError('the base port must be between 1024 and 65500')
    for key in ('host', 'base_port'):
        if (state / 'data').exists() and key in kept and kept[key] != getattr(settings, key):
            raise SettingsError(
                f'the cloud in {state} was made with {key} = {kept[key]}, not '
                f'{getattr(settings, key)}: leave CLIMATE_CLOUD_{key.upper()} out; for another '
                'one run "cloud destroy" first, or choose another CLIMATE_CLOUD_DIR'
            )
    return settings


def main() -> None:
    try:
        print(load().venv)
    except SettingsError as error:
        raise SystemExit(f'cloud: {error}') from None


if __name__ == '__main__':
    main()
