# SPDX-License-Identifier: Apache-2.0
"""What an operator gets from the wheel alone, without this checkout."""

import configparser
import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope='module')
def wheel(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    target = tmp_path_factory.mktemp('wheel')
    # setuptools leaves build/ in the tree it works in, and packs it again the next time.
    source = target / 'source'
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns('.*', 'build', '*.egg-info'))
    subprocess.run(
        [sys.executable, '-m', 'uv', 'build', '--wheel', '--out-dir', target, source], check=True
    )
    [path] = target.glob('*.whl')
    return path


@pytest.fixture(scope='module')
def installed(wheel: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Return the bin directory of a clean environment with the wheel's lease service in it."""
    venv = tmp_path_factory.mktemp('clean') / 'venv'
    uv = [sys.executable, '-m', 'uv']
    lock = ROOT / 'devstack' / 'local' / 'requirements.lock'
    subprocess.run([*uv, 'venv', '--python', sys.executable, venv], check=True)
    install = [*uv, 'pip', 'install', '--python', venv / 'bin' / 'python', '--constraint', lock]
    subprocess.run([*install, f'openstack-climate[service] @ {wheel.as_uri()}'], check=True)
    return venv / 'bin'


def names(wheel: pathlib.Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def entry_points(wheel: pathlib.Path) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(delimiters=('=',))
    parser.optionxform = str  # type: ignore[assignment]
    with zipfile.ZipFile(wheel) as archive:
        [name] = [n for n in archive.namelist() if n.endswith('entry_points.txt')]
        parser.read_string(archive.read(name).decode())
    return parser


def test_wheel_holds_the_packages_and_no_tests(wheel: pathlib.Path) -> None:
    tops = {name.split('/')[0] for name in names(wheel)}
    tops = {top for top in tops if not top.endswith(('.dist-info', '.data'))}
    extensions = {'nova_ext', 'cinder_ext', 'heat_ext', 'climate_dashboard'}
    assert (
        tops
        == {
            'climate_common',
            'climate_core',
            'climate_hosts',
            'climate_networks',
            'climateclient',
            'migrations',
        }
        | extensions
    )


def test_wheel_holds_the_migrations(wheel: pathlib.Path) -> None:
    assert any(name.startswith('migrations/versions/') for name in names(wheel))


def test_wheel_holds_what_heat_loads(wheel: pathlib.Path) -> None:
    loaded = {'heat_ext/plugins/climate.py', 'heat_ext/environment.d/climate.yaml'}
    assert loaded <= set(names(wheel))
    assert (
        entry_points(wheel)['heat.clients']['climate']
        == 'heat_ext.service.client:ClimateClientPlugin'
    )


def test_wheel_holds_all_files_of_the_dashboard(wheel: pathlib.Path) -> None:
    files = {path for path in (ROOT / 'climate_dashboard').rglob('*') if path.is_file()}
    kept = {str(path.relative_to(ROOT)) for path in files if '__pycache__' not in path.parts}
    assert kept <= set(names(wheel))


def test_wheel_holds_the_sample_files(wheel: pathlib.Path) -> None:
    assert any(name.endswith('etc/climate/config-generator.conf') for name in names(wheel))


def test_every_entry_point_names_a_module_of_the_wheel(wheel: pathlib.Path) -> None:
    files = set(names(wheel))
    for section in entry_points(wheel).sections():
        for name, target in entry_points(wheel).items(section):
            path = target.partition(':')[0].replace('.', '/')
            assert {f'{path}.py', f'{path}/__init__.py'} & files, (section, name, target)


def test_database_is_made_from_the_wheel_alone(
    installed: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    conf = tmp_path / 'climate.conf'
    conf.write_text(f'[database]\nconnection = sqlite:///{tmp_path}/climate.sqlite\n')
    environment = {'PATH': os.environ['PATH'], 'HOME': str(tmp_path)}
    for command in (['db', 'upgrade'], ['db', 'version']):
        done = subprocess.run(
            [installed / 'climate-manage', '--config-file', conf, *command],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


@pytest.mark.parametrize('command', ['climate-manager', 'climate-status', 'climate-manage'])
def test_command_of_the_wheel_shows_its_help(installed: pathlib.Path, command: str) -> None:
    done = subprocess.run(
        [installed / command, '--help'], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert 'usage' in done.stdout.lower()


def test_no_database_driver_comes_uninvited(installed: pathlib.Path) -> None:
    probe = (
        'import importlib.util as u; print([n for n in ("pymysql","psycopg2") if u.find_spec(n)])'
    )
    done = subprocess.run([installed / 'python', '-c', probe], capture_output=True, text=True)
    assert done.stdout.strip() == '[]'
