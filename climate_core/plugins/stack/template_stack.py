# SPDX-License-Identifier: Apache-2.0
"""Make stacks for a lease from a template: first a placeholder, then what is in it.

Heat takes a trust from the user who makes a stack, and Keystone refuses that to a token of a
trust. So the stack is made with the user's own token while the lease is made, as a *placeholder*:
the version and the parameters of the template, no resources. It has the id by which it is
reserved, and keeps what the user gave; the template is one of its files. A tag says that it is
unfilled, others for which lease and by which request it was made. Filling it is one update with a
token of the lease's trust: same user, same project, so Heat goes on with the trust that it has.

Tried with heat 27 and convergence: an update with a template keeps parameters, hidden ones too,
files and ``parameter_defaults`` that it does not name (heat/engine/service.py
``_prepare_stack_updates``), and may come before the placeholder is complete. Its tags replace the
old ones at once, but cannot be taken away (heat/common/param_utils.py ``extract_tags``), so a
stack that is filled has a tag that says so. A preview checks the properties and constraints of
every resource, the quota of stacks, and that the name is free (409 ``StackExists``).
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from climate_common import limits
from climate_core import exceptions
from climate_core.cloud import errors, stacks
from climate_core.lease import model
from climate_core.plugins import resource_spec
from climate_core.plugins.base import ReservedResource
from climate_core.plugins.stack import templates

if TYPE_CHECKING:
    from oslo_config import cfg

    from climate_core.cloud import connections
    from climate_core.cloud.stacks import Stack
    from climate_core.lease.model import Reservation

#: What a reservation of a stack takes in place of ``resource_id``.
STACK_SCHEMA: Final[Mapping[str, Any]] = {
    'name': {
        'type': 'string',
        # "$" alone would let a line end through.
        'pattern': r'^[a-zA-Z][a-zA-Z0-9_.-]{0,254}(?!\n)$',
        'description': 'The name of the stack that is made: a letter, then up to 254 letters, '
        'digits, "_", "." and "-".',
    },
    'template': {
        'type': ['object', 'string'],
        'writeOnly': True,
        'description': 'What to make a stack from, as Heat takes it, in place of resource_id.',
    },
    'parameters': {
        'type': 'object',
        'writeOnly': True,
        'description': 'Values for the parameters of the template.',
    },
    'environment': {
        'type': ['object', 'string'],
        'writeOnly': True,
        'description': 'The environment of the stack, as Heat takes it.',
    },
    'files': {
        'type': 'object',
        'writeOnly': True,
        'additionalProperties': {'type': 'string'},
        'description': 'The texts that the template names, by their name there.',
    },
    'hold': {
        'type': 'string',
        'enum': ['now', 'start'],
        'description': 'Whether the servers and volumes of the template are reserved now, or '
        'made at the start of the lease. Default: now. Must be left out in a lease of the kind '
        'scheduled: they are reserved shortly before its start.',
    },
}
_NEEDS_TEMPLATE: Final = ('name', 'parameters', 'environment', 'files', 'hold')

UNFILLED: Final = 'climate-unfilled'
FILLED: Final = 'climate-filled'
#: The name of the file that is the template; files of users may not have it.
_FILE: Final = 'climate:template'
_VERSIONS = ('heat_template_version', 'HeatTemplateFormatVersion', 'AWSTemplateFormatVersion')
_PARAMETERS = ('parameters', 'Parameters')
_HIDDEN = ('hidden', 'NoEcho')
_STRATEGIES: Final = 'parameter_merge_strategies'
_LEASE: Final = 'climate_lease_id'


def is_requested(values: Mapping[str, Any]) -> bool:
    """Tell whether a reservation of a request is to be made from a template.

    :raises climate_core.exceptions.BadRequest: it says neither what is there nor what to make, or
        both
    """
    if 'template' not in values:
        for field in _NEEDS_TEMPLATE:
            if field in values:
                raise exceptions.BadRequest(
                    f'{field}: is for a stack of a template; leave it out, or give a template.',
                    field=field,
                )
        if 'resource_id' not in values:
            raise exceptions.BadRequest(
                'Give the resource_id of a stack that is there, or a template to make one from.',
                field='resource_id',
            )
        return False
    if 'resource_id' in values:
        raise exceptions.BadRequest(
            'Give a template or the resource_id of a stack that is there, not both.',
            field='template',
        )
    if 'name' not in values:
        raise exceptions.BadRequest(
            'It must be given: the name of the stack that is made.', field='name'
        )
    return True


def check_same(
    conf: 'cfg.ConfigOpts', reservation: 'Reservation', values: Mapping[str, Any]
) -> None:
    """Check that a stack of a lease was made from what a request of its name says.

    :raises climate_core.exceptions.NameTaken: it was made from something else
    """
    said = reservation.params.get(resource_spec.DIGEST_KEY)
    if reservation.status == 'deleting' or said is None:
        return
    if said in _digests(conf, reservation.lease_id, values):
        return
    raise exceptions.NameTaken(
        f'The lease has a stack {values["name"]} already that was made from something else. Take '
        'that out first, or choose another name.',
        field='name',
    )


def _digests(conf: 'cfg.ConfigOpts', lease_id: str, values: Mapping[str, Any]) -> Sequence[str]:
    said = {'hold': 'now', **{each: values[each] for each in STACK_SCHEMA if each in values}}
    return resource_spec.compute_digests(conf, lease_id, said, 'template')


def is_made(reservation: 'Reservation') -> bool:
    """Tell whether the stack of a reservation was made for it."""
    return resource_spec.DIGEST_KEY in reservation.params or 'hold' in reservation.params


def _is_held(params: Mapping[str, Any]) -> bool:
    """Tell whether what is in a stack is reserved before the start of its lease.

    :param params: of a reservation; in a lease of the kind scheduled they do not say it
    """
    return params.get('hold', 'now') == 'now'


def check_request(
    conf: 'cfg.ConfigOpts',
    conn: 'connections.Connection',
    lease_id: str,
    values: Mapping[str, Any],
) -> dict[str, Any]:
    """Preview a stack that is to be made; return what is kept with the reservation.

    :param conf: has the keys of the digest
    :param conn: with the rights of the user
    :param lease_id: of the lease that it would be made for
    """
    kept, shown = placeholder(values), []
    _sent(values, kept)
    said = _digests(conf, lease_id, values)
    with errors.for_user('template'):
        try:
            shown = stacks.preview(conn, _previewed(lease_id, values))
        except stacks.StackNameTaken as exc:
            # That of an equal request that was broken off is found again when it is made.
            _find(conn, values, _tags(lease_id, values, kept), exc)
            other = f'{values["name"]}-{lease_id}'
            shown = stacks.preview(conn, {**_previewed(lease_id, values), 'stack_name': other})
    hold = values.get('hold', 'now')
    params = {'name': values['name'], 'hold': hold, resource_spec.DIGEST_KEY: said[0]}
    return {**params, model.PARTS: templates.list_previewed_parts(shown)}


def create_unfilled(
    conn: 'connections.Connection',
    lease_id: str,
    values: Mapping[str, Any],
    claimed: ReservedResource,
) -> ReservedResource:
    """Make the placeholder for a lease, or find the one that an equal request made for it.

    :param conn: with the rights of the user
    :param claimed: what the check found
    """
    kept = placeholder(values)
    tags = _tags(lease_id, values, kept)
    wanted = {**_sent(values, kept), 'tags': ','.join(tags)}
    made = True
    with errors.for_user('template'):
        try:
            stack_id = stacks.create(conn, wanted)
        except stacks.StackNameTaken as exc:
            stack_id, made = _find(conn, values, tags, exc).id, False
    prepare = _is_held(claimed.params)
    return ReservedResource(stack_id, claimed.params, claimed.amounts, made, prepare=prepare)


def is_unfilled(stack: 'Stack') -> bool:
    """Tell whether a stack is still the placeholder that was made at the request."""
    return UNFILLED in stack.tags


def fill(conn: 'connections.Connection', stack: 'Stack', reservation: 'Reservation') -> None:
    """Ask Heat, with the rights of the lease's owner, to make what the template says.

    :raises climate_core.exceptions.Permanent: the stack does not have its template any more
    """
    template = stacks.read_files(conn, stack).get(_FILE)
    if template is None:
        raise exceptions.Permanent(
            f'The stack lacks its file {_FILE}: its user has updated it. Make another lease.'
        )
    changes: dict[str, Any] = {'template': template, 'tags': FILLED}
    if _is_held(reservation.params):
        # What heat_ext reserves all servers and volumes for, nested ones too.
        defaults = {_LEASE: reservation.lease_id}
        changes['environment'] = {'parameter_defaults': defaults}
    stacks.update_existing(conn, stack, changes)


def placeholder(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the template of the placeholder: the version and the parameters of the real one.

    :raises climate_core.exceptions.BadRequest: the template, the environment or the files cannot
        be used
    """
    template = templates.parse_template(values['template'], 'template')
    environment = templates.parse_template(values.get('environment') or {}, 'environment')
    templates.parse_template(values.get('parameters') or {}, 'parameters')
    if _STRATEGIES in environment:
        # They would go on for the update that fills it, in which nothing is to be merged.
        raise exceptions.BadRequest(
            f'{_STRATEGIES} cannot be kept: write the merged values into the environment.',
            field='environment',
        )
    defaults = environment.get('parameter_defaults')
    if isinstance(defaults, Mapping) and _LEASE in defaults:
        raise exceptions.BadRequest(
            f'It must not have {_LEASE}, which comes from the lease.', field='environment'
        )
    if _FILE in values.get('files', {}):
        raise exceptions.BadRequest(f'They must not have one called {_FILE}.', field='files')
    kept = {k: template[k] for k in (*_VERSIONS, *_PARAMETERS) if k in template}
    _encode(kept, 'template', 'The parameters of the template cannot')
    return kept


def _sent(values: Mapping[str, Any], kept: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a placeholder is made from, without its tags; its size is checked."""
    text = values['template']
    text = text if isinstance(text, str) else _encode(text, 'template')
    wanted = {**_body(values, kept), 'files': {**values.get('files', {}), _FILE: text}}
    _encode(wanted, 'template', 'The stack, with its parameters, environment and files, cannot')
    return wanted


def _encode(value: Any, field: str, what: str = 'It cannot') -> str:
    try:
        return limits.encode(value)
    except (TypeError, ValueError) as exc:
        raise exceptions.BadRequest(f'{what} be sent to Heat: {exc}.', field=field) from exc


def _body(values: Mapping[str, Any], template: Any) -> dict[str, Any]:
    kept = {k: values[k] for k in ('parameters', 'environment', 'files') if k in values}
    return {'stack_name': values['name'], 'template': template, **kept}


def _previewed(lease_id: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is to be previewed: with its lease if it is held before that starts.

    A group shows as many members then as are reserved. The lease is not there yet, and not asked.
    """
    body = _body(values, values['template'])
    if not lease_id or values.get('hold') == 'start':
        return body
    environment = dict(templates.parse_template(values.get('environment') or {}, 'environment'))
    defaults = environment.get('parameter_defaults') or {}
    if isinstance(defaults, Mapping):
        environment['parameter_defaults'] = {**defaults, _LEASE: lease_id}
    try:
        limits.encode(environment)
    except TypeError:
        # It has what only YAML can say, as bytes, and Heat is to read that as it is.
        return body
    except ValueError as exc:
        raise exceptions.BadRequest(
            f'It cannot be sent to Heat: {exc}.', field='environment'
        ) from exc
    return {**body, 'environment': environment}


def _find(
    conn: 'connections.Connection',
    values: Mapping[str, Any],
    tags: Iterable[str],
    taken: stacks.StackNameTaken,
) -> 'Stack':
    """Return the placeholder that an equal request made for the same lease.

    :param taken: how Heat said that the name of the stack is
    :raises climate_core.exceptions.NameTaken: it is that of another stack
    """
    found = stacks.find(conn, values['name'])
    if found is None or found.status.startswith('DELETE_') or set(tags) - found.tags:
        raise exceptions.NameTaken(
            f'There is a stack {values["name"]} in this project already. Choose another name, or '
            'reserve that stack by its id.',
            field='name',
        ) from taken
    return found


def _tags(lease_id: str, values: Mapping[str, Any], kept: Mapping[str, Any]) -> list[str]:
    """Return the tags of a placeholder; the last is a digest of what the request says.

    All of the project see tags and may guess what they are made from. So what Heat hides from
    them is left out: hidden parameters, and the environment, which may have more of them.
    """
    said = {k: values[k] for k in ('name', 'template', 'files', 'hold') if k in values}
    declared: dict[str, Any] = {}
    for section in _PARAMETERS:
        found = kept.get(section)
        declared |= found if isinstance(found, Mapping) else {}
    given = values.get('parameters', {})
    said['parameters'] = {k: v for k, v in given.items() if _is_open(declared.get(k))}
    text = _encode(said, 'template')
    return [UNFILLED, lease_id, f'climate-{hashlib.sha256(text.encode()).hexdigest()[:16]}']


def _is_open(declared: Any) -> bool:
    """Tell whether a template does not hide a parameter."""
    return isinstance(declared, Mapping) and not any(declared.get(each) for each in _HIDDEN)
