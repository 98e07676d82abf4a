# SPDX-License-Identifier: Apache-2.0
"""Check the extension points in nova that the extension relies on.

None of them is a public interface of nova. A nova whose extension points differ must not start
with half of the extension, so each process checks its own table before anything is changed, and
fails closed.
Read in nova 34.0.0; see the modules named in the tables.
"""

from climateclient.extension import seams
from climateclient.extension.seams import Seams

_MANAGER = 'nova.compute.manager'
_BUILD = ('self', 'context', 'instance', 'image')

EVERYWHERE: Seams = {
    ('nova.service', 'SERVICE_MANAGERS'): None,
    ('nova.objects.fields', 'InstanceState.ALL'): None,
    ('nova.objects.fields', 'InstanceStateField.AUTO_TYPE._valid_values'): None,
}

COMPUTE: Seams = {
    (_MANAGER, 'ComputeManager._do_build_and_run_instance'): (
        *_BUILD,
        'request_spec',
        'filter_properties',
        'admin_password',
        'injected_files',
        'requested_networks',
        'security_groups',
        'block_device_mapping',
        'node',
        'limits',
        'host_list',
        'accel_uuids',
    ),
    (_MANAGER, 'ComputeManager._build_and_run_instance'): (
        *_BUILD,
        'injected_files',
        'admin_password',
        'requested_networks',
        'security_groups',
        'block_device_mapping',
        'node',
        'limits',
        'filter_properties',
        'request_spec',
        'accel_uuids',
    ),
    (_MANAGER, 'ComputeManager._build_resources'): (
        'self',
        'context',
        'instance',
        'requested_networks',
        'security_groups',
        'image_meta',
        'block_device_mapping',
        'resource_provider_mapping',
        'accel_uuids',
    ),
    (_MANAGER, 'ComputeManager._build_networks_for_instance'): (
        'self',
        'context',
        'instance',
        'requested_networks',
        'security_groups',
        'resource_provider_mapping',
        'network_arqs',
    ),
    (_MANAGER, 'ComputeManager._init_instance'): ('self', 'context', 'instance'),
    (_MANAGER, 'ComputeManager._error_out_instances_whose_build_was_interrupted'): (
        'self',
        'context',
        'already_handled_instances',
        'node_uuids',
    ),
    (_MANAGER, 'ComputeManager._update_instance_after_spawn'): ('self', 'instance', 'vm_state'),
    (_MANAGER, 'ComputeManager._check_device_tagging'): (
        'self',
        'requested_networks',
        'block_device_mapping',
    ),
    (_MANAGER, 'ComputeManager._check_trusted_certs'): ('self', 'instance'),
    (_MANAGER, 'ComputeManager._get_request_group_mapping'): ('request_spec',),
    (_MANAGER, 'ComputeManager._get_scheduler_hints'): ('filter_properties', 'request_spec'),
    (_MANAGER, 'ComputeManager._validate_instance_group_policy'): (
        'self',
        'context',
        'instance',
        'scheduler_hints',
    ),
    (_MANAGER, 'ComputeManager._get_bound_arq_resources'): (
        'self',
        'context',
        'instance',
        'arq_uuids',
    ),
    (_MANAGER, 'ComputeManager._split_network_arqs'): ('self', 'arqs', 'requested_networks'),
    (_MANAGER, 'ComputeManager._shutdown_instance'): (
        'self',
        'context',
        'instance',
        'bdms',
        'requested_networks',
        'notify',
        'try_deallocate_networks',
    ),
    (_MANAGER, 'ComputeManager._detach_volume'): (
        'self',
        'context',
        'bdm',
        'instance',
        'destroy_bdm',
        'attachment_id',
    ),
    ('nova.volume.cinder', 'API.attachment_get'): None,
    ('nova.volume.cinder', 'API.attachment_delete'): None,
    (_MANAGER, 'ComputeManager._update_scheduler_instance_info'): ('self', 'context', 'instance'),
    (_MANAGER, 'ComputeManager._notify_about_instance_usage'): None,
    (_MANAGER, 'ComputeManager._build_failed'): ('self', 'node'),
    ('nova.compute.claims', 'NopClaim.abort'): ('self',),
    ('nova.compute.resource_tracker', 'ResourceTracker.instance_claim'): (
        'self',
        'context',
        'instance',
        'nodename',
        'allocations',
        'limits',
    ),
    ('nova.compute.resource_tracker', 'ResourceTracker._update'): (
        'self',
        'context',
        'compute_node',
        'startup',
    ),
    ('nova.compute.resource_tracker', 'COMPUTE_RESOURCE_SEMAPHORE'): None,
    ('nova.compute.build_results', 'FAILED_BY_POLICY'): None,
    ('nova.compute.utils', 'update_pci_request_with_placement_allocations'): (
        'context',
        'report_client',
        'pci_requests',
        'provider_mapping',
    ),
    ('nova.compute.utils', 'delete_arqs_if_needed'): ('context', 'instance', 'arq_uuids'),
}

API: Seams = {
    ('nova.api.openstack.common', '_STATE_MAP'): None,
    ('nova.api.openstack.compute.views.servers', 'ViewBuilder._fault_statuses'): None,
    ('nova.api.openstack.compute.routes', 'ROUTE_LIST'): None,
    ('nova.api.openstack.compute.routes', '_create_controller'): (
        'main_controller', 'action_controller_list',
    ),
    ('nova.api.openstack.compute.routes', 'server_controller.args'): None,
    ('nova.api.openstack.compute.servers', 'ServersController.create'): ('self', 'req', 'body'),
    ('nova.api.openstack.compute.servers', 'ServersController.delete'): ('self', 'req', 'id'),
    ('nova.api.openstack.compute.deferred_delete', 'DeferredDeleteController._force_delete'): (
        'self', 'req', 'id', 'body',
    ),
    ('nova.api.validation.extra_specs.validators', 'VALIDATORS'): None,
    ('nova.api.validation.extra_specs.validators', 'NAMESPACES'): None,
    ('nova.api.validation.extra_specs.base', 'ExtraSpecValidator'): (
        'name', 'description', 'value', 'deprecated', 'parameters', 'name_regex', 'value_regex',
    ),
    ('nova.compute.api', 'API.__init__'): ('self', 'image_api', 'network_api', 'volume_api'),
    ('nova.compute.api', 'API._local_cleanup_bdm_volumes'): (
        'self', 'bdms', 'instance', 'context',
    ),
    ('nova.compute.utils', 'check_attach_and_reserve_volume'): (
        'context', 'volume_api', 'volume', 'instance', 'bdm', 'supports_multiattach',
        'validate_az',
    ),
    ('nova.volume.cinder', 'API.attachment_create'): None,
    ('nova.volume.cinder', 'API.attachment_get_all'): None,
    ('nova.volume.cinder', 'API.detach'): None,
    ('nova.objects', 'BlockDeviceMappingList.get_by_volume'): None,
    ('nova.objects', 'BuildRequestList.get_all'): None,
    ('nova.context', 'scatter_gather_skip_cell0'): ('context', 'fn', 'args', 'kwargs'),
    ('nova.compute.api', 'check_instance_lock'): ('function',),
    ('nova.compute.api', 'check_instance_state'): ('vm_state', 'task_state', 'must_have_launched'),
    ('nova.compute.rpcapi', 'ComputeAPI.build_and_run_instance'): (
        'self', 'ctxt', 'instance', 'host', 'image', 'request_spec', 'filter_properties',
        'admin_password', 'injected_files', 'requested_networks', 'security_groups',
        'block_device_mapping', 'node', 'limits', 'host_list', 'accel_uuids',
    ),
    ('nova.scheduler.utils', 'fill_provider_mapping'): ('request_spec', 'host_selection'),
    ('nova.scheduler.utils', 'populate_filter_properties'): ('filter_properties', 'selection'),
    ('nova.scheduler.utils', 'setup_instance_group'): ('context', 'request_spec'),
    ('nova.scheduler.client.query', 'SchedulerQueryClient.select_destinations'): None,
    ('nova.scheduler.client.report', 'report_client_singleton'): (),
    ('nova.scheduler.client.report', 'SchedulerReportClient.get'): None,
}  # fmt: skip

SCHEDULER: Seams = {
    ('nova.scheduler.request_filter', 'ALL_REQUEST_FILTERS.insert'): None,
    ('nova.scheduler.request_filter', 'process_reqspec'): ('ctxt', 'request_spec'),
    ('nova.scheduler.request_filter', 'isolate_aggregates'): ('ctxt', 'request_spec'),
    ('nova.scheduler.request_filter', 'trace_request_filter'): ('fn',),
    ('nova.scheduler.client.report', 'report_client_singleton'): (),
    ('nova.scheduler.client.report', 'SchedulerReportClient.get'): None,
    ('nova.objects.request_spec', 'RequestSpec.requested_resources'): None,
    ('nova.objects.request_spec', 'RequestSpec.requested_destination'): None,
    ('nova.objects.request_spec', 'RequestGroup.aggregates'): None,
    ('nova.objects.request_spec', 'RequestGroup.required_traits'): None,
    ('nova.objects.request_spec', 'RequestGroup.requester_id'): None,
    ('nova.objects.request_spec', 'Destination.allow_cross_cell_move'): None,
    ('nova.objects.request_spec', 'Destination.append_forbidden_aggregates'): (
        'self', 'forbidden_aggregates',
    ),
    ('nova.objects.request_spec', 'RequestSpec.obj_clone'): ('self',),
    ('nova.scheduler.utils', 'resources_from_request_spec'): (
        'ctxt', 'spec_obj', 'host_manager', 'enable_pinning_translate',
    ),
    ('nova.scheduler.client.report', 'SchedulerReportClient.get_allocation_candidates'): None,
    ('nova.conf', 'CONF.scheduler.enable_isolated_aggregate_filtering'): None,
}  # fmt: skip


def check(*tables: Seams) -> None:
    """Compare nova with the tables.

    :raises climateclient.extension.errors.Incompatible: with every difference
    """
    seams.check('nova', *tables)
