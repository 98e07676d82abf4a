# SPDX-License-Identifier: Apache-2.0
"""Install what the cloud needs: Debian packages, and one virtual environment from the lock file.

Standard library only; run by the system's Python as ``python -m climate_cloud.install``. A second
run costs nothing: a stamp in the environment says what is in it.
"""

import glob
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import time

from climate_cloud.settings import LOCAL, ROOT, Settings, SettingsError, load

#: Where Debian keeps the modules of its own Python.
DEBIAN_PYTHON = '/usr/lib/python3/dist-packages'
#: Debian package -> files that show that it is there, as patterns.
APT = {
    'mariadb-server': ('/usr/sbin/mariadbd',),
    'rabbitmq-server': ('/usr/lib/rabbitmq/bin/rabbitmq-server',),
    'postgresql': ('/usr/lib/postgresql',),
    'graphviz': ('/usr/bin/dot',),
    'ipmitool': ('/usr/bin/ipmitool',),
    'ca-certificates': ('/etc/ssl/certs/ca-certificates.crt',),
}
#: The same for CLIMATE_CLOUD_CEPH; qemu-img is what cinder writes images to volumes with.
CEPH_APT = {
    'ceph-mon': ('/usr/bin/ceph-mon',),
    'ceph-osd': ('/usr/bin/ceph-osd',),
    'ceph-mgr': ('/usr/bin/ceph-mgr',),
    'ceph-common': ('/usr/bin/ceph', '/usr/bin/rbd'),
    'python3-rados': (f'{DEBIAN_PYTHON}/rados.*.so',),
    'python3-rbd': (f'{DEBIAN_PYTHON}/rbd.*.so',),
    'qemu-utils': ('/usr/bin/qemu-img',),
}
#: The same for CLIMATE_CLOUD_BROWSER, and programs that do as well.
BROWSER = 'chromium'
BROWSERS = (BROWSER, 'chromium-browser', 'google-chrome')
LOCK = LOCAL / 'requirements.lock'


def say(text: str) -> None:
    print(f'  {text}', flush=True)


def run(*command: object, env: dict[str, str] | None = None) -> None:
    """Run a command and show its output; raise CalledProcessError when it fails."""
    subprocess.run([str(word) for word in command], check=True, env={**os.environ, **(env or {})})


def missing_packages(settings: Settings) -> list[str]:
    """Name the Debian packages that are not installed."""
    wanted = APT | (CEPH_APT if settings.ceph else {})
    missing = [
        name for name, files in wanted.items() if not all(glob.glob(file) for file in files)
    ]
    venv_works = subprocess.run(
        [sys.executable, '-c', 'import venv, ensurepip'], capture_output=True, check=False
    )
    if venv_works.returncode:
        missing.append('python3-venv')
    return missing


def install_packages(names: list[str]) -> None:
    if not shutil.which('apt-get'):
        raise SystemExit(f'cloud: no apt-get here; install by hand: {" ".join(names)}')
    sudo = [] if os.getuid() == 0 else ['sudo']
    env = ['env', 'DEBIAN_FRONTEND=noninteractive']
    options = ['-q', '-y', '-o', 'DPkg::Lock::Timeout=600']
    say(f'installing {" ".join(names)}')
    run(*sudo, *env, 'apt-get', *options, 'update')
    run(*sudo, *env, 'apt-get', *options, 'install', '--no-install-recommends', *names)


def install_browser() -> None:
    """Install a browser, if there is none; without one all but its tests can go on."""
    if any(map(shutil.which, BROWSERS)):
        return
    try:
        install_packages([BROWSER])
    except subprocess.CalledProcessError:
        say(f'{BROWSER} cannot be installed: Ubuntu has it as a snap only. Install a Chromium or')
        say(f'a Chrome by hand, as one of {", ".join(BROWSERS)}')


def uv_environment() -> dict[str, str]:
    """Translate the index and the certificates that pip is told to use; uv reads neither."""
    env = {}
    for key in ('PIP_INDEX_URL', 'install.index-url', 'global.index-url'):
        value = os.environ.get(key) if key.isupper() else _pip_config(key)
        if value:
            env['UV_DEFAULT_INDEX'] = value
            break
    if os.environ.get('PIP_CERT') and 'SSL_CERT_FILE' not in os.environ:
        env['SSL_CERT_FILE'] = os.environ['PIP_CERT']
    return env


def _pip_config(key: str) -> str:
    answer = subprocess.run(
        [sys.executable, '-m', 'pip', 'config', 'get', key],
        capture_output=True,
        text=True,
        check=False,
    )
    return answer.stdout.strip() if answer.returncode == 0 else ''


def find_uv(settings: Settings) -> pathlib.Path:
    """Return the uv program, installing it into a small environment of its own."""
    bootstrap = settings.state / 'bootstrap'
    uv = bootstrap / 'bin' / 'uv'
    if not uv.exists():
        say('installing uv')
        run(sys.executable, '-m', 'venv', '--clear', bootstrap)
        run(bootstrap / 'bin' / 'python', '-m', 'pip', 'install', '-q', 'uv>=0.8')
    return uv


def fingerprint() -> str:
    """Say what the environment should hold: locked versions and the entry points of ours."""
    digest = hashlib.sha256(str(ROOT).encode())
    for path in (LOCK, ROOT / 'setup.cfg', ROOT / 'pyproject.toml', *_switch_files()):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _switch_files() -> list[pathlib.Path]:
    return [LOCAL / 'switch' / 'pyproject.toml']


def make_venv(settings: Settings) -> None:
    stamp = settings.venv / 'climate-cloud'
    wanted = fingerprint()
    if stamp.exists() and stamp.read_text() == wanted:
        return
    uv = find_uv(settings)
    env = uv_environment()
    python = settings.bin / 'python'
    if not python.exists():
        run(uv, 'venv', '-q', '--allow-existing', '--python', sys.executable, settings.venv)
    say(f'installing the locked versions into {settings.venv}')
    pip = [uv, 'pip', 'install', '-q', '--python', python]
    run(*pip, '--compile-bytecode', '-r', LOCK, env=env)
    ours = ['--no-deps', '--no-build-isolation', '-e', ROOT, '-e', LOCAL / 'switch']
    run(*pip, *ours, env=env)
    stamp.write_text(wanted)


def link_bindings(python: pathlib.Path) -> None:
    """Give the virtual environment librados and librbd as Debian built them; pip has neither.

    :param python: the interpreter of the environment
    :raises SettingsError: they are built for another Python
    """
    ask = 'import sysconfig as s; print(s.get_config_var("EXT_SUFFIX"), s.get_path("platlib"))'
    answer = subprocess.run([python, '-c', ask], capture_output=True, text=True, check=True)
    suffix, _, packages = answer.stdout.strip().partition(' ')
    for module in ('rados', 'rbd'):
        built = pathlib.Path(DEBIAN_PYTHON) / f'{module}{suffix}'
        if not built.exists():
            there = ', '.join(str(path) for path in built.parent.glob(f'{module}.*.so')) or 'none'
            raise SettingsError(
                f'CLIMATE_CLOUD_CEPH needs {built}, and there is {there}: Ceph goes only with the '
                f"distribution's own Python. Remove {python.parents[1]} and set "
                'CLIMATE_CLOUD_PYTHON=/usr/bin/python3, or CLIMATE_CLOUD_CEPH=0'
            )
        link = pathlib.Path(packages) / built.name
        if not link.exists():
            link.unlink(missing_ok=True)
            link.symlink_to(built)


def lock(settings: Settings) -> None:
    """Write requirements.lock anew from requirements.in, with today's releases."""
    options = ['--universal', '--python-version', '3.11', '--upgrade', '--no-annotate']
    options += ['--no-emit-index-url', '--no-header', '-q', '-o', LOCK]
    run(
        find_uv(settings),
        'pip',
        'compile',
        *options,
        LOCAL / 'requirements.in',
        env=uv_environment(),
    )


def main(command: str) -> int:
    started = time.monotonic()
    try:
        settings = load()
        settings.save()
        if missing := missing_packages(settings):
            install_packages(missing)
        if settings.browser:
            install_browser()
        if command == 'lock':
            lock(settings)
        make_venv(settings)
        if settings.ceph:
            link_bindings(settings.bin / 'python')
    except SettingsError as error:
        print(f'cloud: {error}', file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f'cloud: this failed: {" ".join(error.cmd)}', file=sys.stderr)
        return 1
    if (spent := time.monotonic() - started) > 2:
        say(f'installed in {spent:.0f} s')
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1]))
