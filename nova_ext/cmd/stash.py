# SPDX-License-Identifier: Apache-2.0
"""climate-nova-stash: maintain the keys that seal what reserved servers need at their start.

It runs where nova-api runs, with its nova.conf, and reaches the databases of all cells. The steps
of a rotation are in doc/source/admin/keys.rst.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import nova.conf
from cryptography.fernet import Fernet
from nova import config, exception, objects
from nova import context as nova_context
from nova.compute import vm_states

from climate_common import sealing
from nova_ext import conf, saved_build_args, states

#: Servers between two lines that show the progress.
_STEP: Final = 100


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return the exit status.

    :param argv: the command line without the program's name
    """
    parser = argparse.ArgumentParser('climate-nova-stash', description=__doc__)
    parser.add_argument('--config-file', action='append', default=[], help='path of nova.conf')
    commands = parser.add_subparsers(title='commands', required=True)
    for name, (function, text) in _COMMANDS.items():
        commands.add_parser(name, help=text).set_defaults(run=function)
    options = parser.parse_args(argv)
    if options.run is _generate:
        return _generate()
    files = [word for path in options.config_file for word in ('--config-file', path)]
    config.parse_args(['climate-nova-stash', *files])
    conf.register(nova.conf.CONF)
    objects.register_all()
    section = nova.conf.CONF[conf.GROUP]
    try:
        saved_build_args.check_keys(section)
    except ValueError as error:
        sys.exit(f'climate-nova-stash: {error}')
    if not section.stash_keys:
        sys.exit(
            'climate-nova-stash: [climate] stash_keys is not set: name the nova.conf of '
            'nova-api with --config-file'
        )
    return options.run(section.stash_keys)


def _generate() -> int:
    print(Fernet.generate_key().decode())
    return 0


def _public(keys: list[str]) -> int:
    print(sealing.public_key(keys[0]))
    return 0


def check(keys: list[str]) -> int:
    """Report how many servers need which key.

    :returns: 1 if a server needs another key than the first, or a key that is not there
    """
    needed, unreadable = [0] * len(keys), []
    for server in _servers():
        if not saved_build_args.is_sealed(server.system_metadata):
            continue
        for number, key in enumerate(keys):
            try:
                saved_build_args.load(server.system_metadata, [key], server.uuid)
            except saved_build_args.SavedArgsUnreadable:
                continue
            needed[number] += 1
            break
        else:
            unreadable.append(server.uuid)
    for number, count in enumerate(needed, 1):
        print(f'Key {number}: {count} servers')
    for uuid in unreadable:
        print(f'No key opens the saved arguments of server {uuid}')
    return 1 if unreadable or any(needed[1:]) else 0


def rotate(keys: list[str]) -> int:
    """Seal again, with the first key, what an older key sealed; it can be stopped and repeated.

    :returns: 1 if some servers are left
    """
    public, done, left = sealing.public_key(keys[0]), 0, 0
    for server in _servers():
        metadata, uuid = server.system_metadata, server.uuid
        if not saved_build_args.is_sealed(metadata):
            continue
        if saved_build_args.is_current(metadata, keys[0], uuid):
            continue
        try:
            values = saved_build_args.load(metadata, keys, uuid)
            saved_build_args.save(metadata, values, public, uuid)
            # One that is started, or deleted, has been opened already or needs nothing more.
            server.save(expected_vm_state=[states.RESERVED], expected_task_state=[None])
        except saved_build_args.SavedArgsUnreadable as error:
            print(error, file=sys.stderr)
            left += 1
        except (exception.InstanceUpdateConflict, exception.InstanceNotFound) as error:
            print(f'Server {uuid} is changing, run it again: {error}', file=sys.stderr)
            left += 1
        else:
            done += 1
            if done % _STEP == 0:
                print(f'{done} servers are sealed with the first key', flush=True)
    print(f'{done} servers are sealed with the first key, {left} are left')
    return 1 if left else 0


def _servers() -> Iterator[Any]:
    """Read the servers of all cells that are reserved, or being started, one cell at a time."""
    context = nova_context.get_admin_context()
    for cell in objects.CellMappingList.get_all(context):
        if cell.is_cell0():
            continue
        with nova_context.target_cell(context, cell) as there:
            yield from objects.InstanceList.get_by_filters(
                there,
                {'vm_state': [states.RESERVED, vm_states.BUILDING], 'deleted': False},
                expected_attrs=['system_metadata'],
            )


_COMMANDS: Final[dict[str, tuple[Callable[..., int], str]]] = {
    'generate': (_generate, 'print a new key for stash_keys'),
    'public': (_public, 'print stash_public_key for the computes: that of the first key'),
    'check': (
        check,
        'report how many servers need which key; exit status 1 if some need an old one',
    ),
    'rotate': (rotate, 'seal with the first key what an older key sealed'),
}
