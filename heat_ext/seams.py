# SPDX-License-Identifier: Apache-2.0
"""The extension points of heat that this extension uses, and the check that heat has them.

Heat guarantees none of them, so heat-engine checks this table when it loads the plugins, and does
not start with a release of heat in which one differs. Read in heat 27.0.1.
"""

from climateclient.extension import seams
from climateclient.extension.seams import Seams

_RESOURCE = 'heat.engine.resource'
_CLIENT = 'heat.engine.clients.client_plugin'
_NOVA = 'heat.engine.resources.openstack.nova'
_CINDER = 'heat.engine.resources.openstack.cinder'
_HEAT = 'heat.engine.resources.openstack.heat'
_NEUTRON = 'heat.engine.resources.openstack.neutron'

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

MEMBERS: Seams = {
    (_RESOURCE, 'Resource.needs_replace'): ('self', 'after_props'),
    (_RESOURCE, 'Resource.needs_replace_with_prop_diff'): (
        'self', 'changed_properties_set', 'after_props', 'before_props',
    ),
    (_RESOURCE, 'Resource.update_template_diff_properties'): (
        'self', 'after_props', 'before_props',
    ),
    (_RESOURCE, 'Resource.calc_update_allowed'): ('self', 'props'),
    (_RESOURCE, 'Resource.prepare_for_replace'): ('self',),
    (_RESOURCE, 'Resource.delete_convergence'): (
        'self', 'template_id', 'engine_id', 'timeout', 'progress_callback',
    ),
    # Sets _calling_engine_id, which tells an update from its preview, and clears replaced_by.
    (_RESOURCE, 'Resource.update_convergence'): (
        'self', 'template_id', 'new_requires', 'engine_id', 'timeout', 'new_stack',
        'progress_callback',
    ),
    (_RESOURCE, 'Resource.restore_prev_rsrc'): ('self', 'convergence'),
    (_RESOURCE, 'Resource.data'): ('self',),
    (_RESOURCE, 'Resource.data_set'): ('self', 'key', 'value', 'redact'),
    (_RESOURCE, 'Resource.data_delete'): ('self', 'key'),
    ('heat.engine.resources.scheduler_hints', 'SchedulerHintsMixin._scheduler_hints'): (
        'self', 'scheduler_hints',
    ),
    ('heat.engine.rsrc_defn', 'ResourceDefinition.required_resource_names'): ('self',),
    ('heat.engine.stack', 'Stack.path_in_stack'): ('self',),
    # Begins a traversal (current_traversal) and passes on abandon_in_progress.
    ('heat.engine.stack', 'Stack.converge_stack'): (
        'self', 'template', 'action', 'new_stack', 'pre_converge', 'new_traversal_id', 'abandon',
    ),
    ('heat.engine.check_resource', 'CheckResource.retrigger_check_resource'): (
        'self', 'cnxt', 'resource_id', 'stack',
    ),
    ('heat.objects.resource', 'Resource.get_all_by_physical_resource_id'): (
        'context', 'physical_resource_id',
    ),
    ('heat.objects.resource', 'Resource.get_all_by_root_stack'): (
        'context', 'stack_id', 'filters', 'cache',
    ),
    # By their packages: heat's plugin loader keeps a plugin out of sys.modules, so importing it
    # by its own name would load it twice (heat/common/plugin_loader.py).
    (_NOVA, 'server.Server.handle_create'): ('self',),
    (_NOVA, 'server.Server.check_create_complete'): ('self', 'server_id'),
    (_NOVA, 'server.Server.store_external_ports'): ('self',),
    (_NOVA, 'server.Server.attach_ports'): ('self', 'server'),
    (_CINDER, 'volume.CinderVolume.handle_create'): ('self',),
    (_CINDER, 'volume.CinderVolume.check_create_complete'): ('self', 'vol_id'),
    (_CINDER, 'volume.CinderVolume._create_arguments'): ('self',),
    (_CINDER, 'volume.CinderVolume._fetch_name_and_description'): ('self', 'name', 'description'),
    (_CINDER, 'volume.CinderVolume._store_config_default_properties'): ('self', 'attributes'),
    (_CINDER, 'volume.CinderVolume._volume_creating_status'): None,
    (_CINDER, 'volume.CinderVolumeAttachment.handle_create'): ('self',),
    (_NEUTRON, 'floatingip.FloatingIP.handle_create'): ('self',),
    (_NEUTRON, 'floatingip.FloatingIP.handle_delete'): ('self',),
    (_NEUTRON, 'floatingip.FloatingIPAssociation.add_dependencies'): ('self', 'deps'),
    (_NEUTRON, 'neutron.NeutronResource._show_resource'): ('self',),
    (_NEUTRON, 'neutron.NeutronResource._resolve_attribute'): ('self', 'name'),
    (_NEUTRON, 'neutron.NeutronResource.needs_replace_failed'): ('self',),
    (_HEAT, 'software_deployment.SoftwareDeployment.handle_create'): ('self',),
    (_HEAT, 'wait_condition.HeatWaitCondition.handle_create'): ('self',),
    (_HEAT, 'wait_condition.HeatWaitCondition._get_handle_resource'): ('self',),
}  # fmt: skip

_GROUP = 'autoscaling_group.AutoScalingResourceGroup'
GROUPS: Seams = {
    (_HEAT, f'{_GROUP}._create_template'): (
        'self', 'num_instances', 'num_replace', 'template_version',
    ),
    (_HEAT, f'{_GROUP}._nested_output_defns'): (
        'self', 'resource_names', 'get_attr_fn', 'get_res_fn',
    ),
    (_HEAT, f'{_GROUP}._get_resource_definition'): ('self',),
    (_HEAT, f'{_GROUP}._replace'): ('self', 'min_in_service', 'batch_size', 'pause_sec'),
    (_HEAT, f'{_GROUP}._get_batches'): (
        'target_capacity', 'capacity', 'batch_size', 'min_in_service',
    ),
    (_HEAT, f'{_GROUP}._group_data'): ('self', 'refresh'),
    (_HEAT, f'{_GROUP}.child_params'): ('self',),
    (_HEAT, f'{_GROUP}.child_definition'): (
        'self', 'child_template', 'user_params', 'nested_identifier',
    ),
    (_HEAT, f'{_GROUP}.resize'): ('self', 'capacity'),
    (_HEAT, f'{_GROUP}.rpc_client'): ('self',),
    (_HEAT, f'{_GROUP}.update_with_template'): (
        'self', 'child_template', 'user_params', 'timeout_mins',
    ),
    ('heat.common.grouputils', 'GroupInspector.__init__'): (
        'self', 'context', 'rpc_client', 'group_identity',
    ),
    ('heat.common.grouputils', 'GroupInspector.from_parent_resource'): ('parent_resource',),
    ('heat.common.grouputils', 'GroupInspector.member_names'): ('self', 'include_failed'),
    ('heat.rpc.client', 'EngineClient.list_stack_resources'): None,
    ('heat.scaling.template', 'member_definitions'): (
        'old_resources', 'new_definition', 'num_resources', 'num_new', 'get_new_id', 'customise',
    ),
    ('heat.scaling.template', 'make_template'): ('resource_definitions', 'version', 'child_env'),
}  # fmt: skip

TABLES = (LEASE, MEMBERS, GROUPS)


def check() -> None:
    """Compare heat with the tables.

    :raises climateclient.extension.errors.Incompatible: names every difference
    """
    seams.check('heat', *TABLES)
