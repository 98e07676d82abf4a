# SPDX-License-Identifier: Apache-2.0
"""Options for a stack that the lease service creates from a template.

Files are read as ``openstack stack create`` reads them, by python-heatclient: nested templates and
what ``get_file`` names go along, called by their URLs.
"""

import argparse
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from osc_lib import exceptions

from climate_common import resource_types

T = TypeVar('T')

HOLD = ('now', 'start')
_ENVIRONMENT = '--stack-environment'
#: The keys of an environment that rule how others are merged with it, which only Heat can do.
_STRATEGIES = 'parameter_merge_strategies'


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for a stack that does not exist yet."""
    parser.add_argument(
        '--stack-template',
        metavar='<file or URL>',
        help='Create a Heat stack from this template for the lease; requires --stack-name. Files'
        ' are read as by "openstack stack create", with python-heatclient',
    )
    parser.add_argument('--stack-name', metavar='<name>', help='Name of the created stack')
    parser.add_argument(
        _ENVIRONMENT,
        metavar='<file or URL>',
        action='append',
        default=[],
        help='Environment of the created stack (repeat for several; the last one takes '
        'precedence)',
    )
    parser.add_argument(
        '--stack-parameter',
        metavar='<key>=<value>',
        action='append',
        default=[],
        help='Parameter of the created stack (repeat for several)',
    )
    parser.add_argument(
        '--stack-parameter-file',
        metavar='<key>=<file>',
        action='append',
        default=[],
        help='Parameter with the content of a file, whose path is relative to the template '
        '(repeat for several)',
    )
    parser.add_argument(
        '--stack-hold',
        choices=HOLD,
        help='now: the servers and volumes of the stack are reserved now, and started at the '
        'start (default). start: the stack is created at the start, and nothing is reserved'
        ' before',
    )


def list_types(parsed_args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the type of the reservation; nothing without a template."""
    return [{'resource_type': resource_types.STACK}] if parsed_args.stack_template else []


def reservation(parsed_args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the reservation of the options, with all that its files hold; nothing without one.

    :raises CommandError: something cannot be read, or python-heatclient is not there
    """
    template = parsed_args.stack_template
    if not template:
        _check_alone(parsed_args)
        return []
    if not parsed_args.stack_name:
        raise exceptions.CommandError(
            '--stack-template: the stack needs a name: give --stack-name.'
        )
    files, content = _template(template)
    more, environment = _environment(parsed_args.stack_environment)
    given = {
        'name': parsed_args.stack_name,
        'template': content,
        'parameters': _parameters(parsed_args),
        'environment': environment,
        'files': {url: _text(each) for url, each in {**files, **more}.items()},
        'hold': parsed_args.stack_hold,
    }
    return [list_types(parsed_args)[0] | {key: value for key, value in given.items() if value}]


def _check_alone(parsed_args: argparse.Namespace) -> None:
    """Refuse options for a stack without a template."""
    for option in ('name', 'environment', 'parameter', 'parameter-file', 'hold'):
        if getattr(parsed_args, f'stack_{option.replace("-", "_")}'):
            raise exceptions.CommandError(
                f'--stack-{option}: there is no stack to make: give --stack-template.'
            )


def _template(path: str) -> tuple[Mapping[str, Any], Any]:
    """Return the files that a template names, by their URLs, and the template."""
    read = _heatclient().template_utils.get_template_contents
    files, content = _checked(f'--stack-template {path}', lambda: read(template_file=path))
    return files, content


def _environment(paths: list[str]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the files that environments name, and the environments merged into one."""
    if not paths:
        return {}, {}
    read = _heatclient().template_utils.process_multiple_environments_and_files
    option = f'{_ENVIRONMENT} {" ".join(paths)}'
    files, content = _checked(option, lambda: read(paths))
    if _STRATEGIES in content:
        raise exceptions.CommandError(
            f'{option}: {_STRATEGIES} cannot be kept here: write the merged values '
            'into one environment.'
        )
    return files, content


def _parameters(parsed_args: argparse.Namespace) -> dict[str, Any]:
    given, files = parsed_args.stack_parameter, parsed_args.stack_parameter_file
    if not given and not files:
        return {}
    utils = _heatclient().utils
    # A value may be a secret, so the error does not show it.
    values = _checked('--stack-parameter', lambda: utils.format_parameters(given))
    template = parsed_args.stack_template
    read = utils.format_parameter_file
    values |= _checked('--stack-parameter-file', lambda: read(files, template))
    return {key: _text(value) for key, value in values.items()}


def _text(value: Any) -> Any:
    # Binary files come as base64 in bytes, which JSON cannot hold.
    return value.decode() if isinstance(value, bytes) else value


def _heatclient() -> Any:
    """Return the part of python-heatclient that reads files; it is loaded only for that.

    :raises CommandError: it is not installed
    """
    try:
        from heatclient import common
        from heatclient.common import template_utils, utils  # noqa: F401
    except ImportError as error:
        raise exceptions.CommandError(
            f'--stack-template: python-heatclient reads the files, and cannot be loaded ({error}):'
            ' install it, alone or as "openstack-climate[stacks]".'
        ) from None
    return common


def _checked(option: str, read: Callable[[], T]) -> T:
    """Return what could be read.

    :raises CommandError: with the option and the reason
    """
    from heatclient import exc

    try:
        return read()
    except (OSError, ValueError, exc.CommandError) as error:
        reason = str(error)
    except (AttributeError, TypeError):
        reason = 'It is not written as Heat takes it.'
    raise exceptions.CommandError(f'{option}: {reason}')
