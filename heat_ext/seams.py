# SPDX-License-Identifier: Apache-2.0
"""The places in heat that the extension leans on, and the check that they are still there.

None of them is a promise of heat. A heat whose seams differ must not start with us half in it, so
heat-engine checks this table when it loads the plugins, and fails closed. Read in heat 27.0.1.
"""

from climateclient.extension import seams
from climateclient.extension.seams import Seams

_RESOURCE = 'heat.engine.resource'
_CLIENT = 'heat.engine.clients.client_plugin'

LEASE: Seams = {
    (_RESOURCE, 'Resource.always_replace_on_check_failed'): None,
    (_RESOURCE, 'Resource.needs_replace_failed'): ('self',),
    (_RESOURCE, 'Resource._needs_update'): (
        'self', 'after', 'before', 'after_props', 'before_props', 'prev_resource',
        'check_init_complete',
    ),
    (_RESOURCE, 'Resource.handle_update'): ('self', 'json_snippet', 'tmpl_diff', 'prop_diff'),
    (_RESOURCE, 'Resource.parse_live_resource_data'): (
        'self', 'resource_properties', 'resource_data',
    ),
    (_RESOURCE, 'Resource._show_resource'): ('self',),
    (_RESOURCE, 'Resource._resolve_attribute'): ('self', 'name'),
    ('heat.engine.stack', 'Stack.root_stack_id'): ('self',),
    ('heat.objects.stack', 'Stack.get_by_id'): ('context', 'stack_id', 'kwargs'),
    ('heat.engine.attributes', 'Schema.CACHE_NONE'): None,
    ('heat.engine.constraints', 'BaseCustomConstraint.validate'): ('self', 'value', 'context'),
    (_CLIENT, 'ClientPlugin._create'): ('self', 'version'),
    (_CLIENT, 'ClientPlugin._get_region_name'): ('self',),
    ('heat.common.context', 'RequestContext.auth_plugin'): None,
    ('heat.common.context', 'RequestContext.keystone_session'): None,
}  # fmt: skip

TABLES = (LEASE,)


def check() -> None:
    """Compare heat with the tables.

    :raises climateclient.extension.errors.Incompatible: with every difference
    """
    seams.check('heat', *TABLES)
