# SPDX-License-Identifier: Apache-2.0
"""Check the extension points in cinder that the extension relies on.

None of them is a public interface of cinder. A cinder whose extension points differ must not
start with half of the extension, so each process checks its own table before anything else, and
fails closed.
Read in cinder 29.0.0; see the modules named in the tables.
"""

from climateclient.extension import seams
from climateclient.extension.seams import Seams

_API = 'cinder.volume.api'
_MANAGER = 'cinder.volume.manager'
_RPC = ('self', 'ctxt', 'volume')
_ONE = ('self', 'context', 'volume')

EVERYWHERE: Seams = {
    ('cinder.db.api', 'main_context_manager'): None,
    ('cinder.db.api', 'volume_admin_metadata_update'): (
        'context', 'volume_id', 'metadata', 'delete', 'add', 'update',
    ),
    ('cinder.db.models', 'VolumeAdminMetadata'): None,
    ('cinder.db.models', 'Volume.source_volid'): None,
    ('cinder.db.models', 'Volume.snapshot_id'): None,
    ('cinder.objects.volume', 'Volume.conditional_update'): None,
    ('cinder.db.models', 'Volume.launched_at'): None,
}  # fmt: skip

API: Seams = {
    (_API, 'API.create'): (
        'self', 'context', 'size', 'name', 'description', 'snapshot', 'image_id', 'volume_type',
        'metadata', 'availability_zone', 'source_volume', 'scheduler_hints', 'source_replica',
        'consistencygroup', 'cgsnapshot', 'source_cg', 'group', 'group_snapshot',
        'source_group', 'backup',
    ),
    (_API, 'API.delete'): (*_ONE, 'force', 'unmanage_only', 'cascade'),
    (_API, 'API.delete_snapshot'): ('self', 'context', 'snapshot', 'force', 'unmanage_only'),
    (_API, 'API.extend'): (*_ONE, 'new_size'),
    (_API, 'API.extend_attached_volume'): (*_ONE, 'new_size'),
    (_API, 'API.migrate_volume'): (*_ONE, 'host', 'cluster_name', 'force_copy', 'lock_volume'),
    (_API, 'API.retype'): (*_ONE, 'new_type', 'migration_policy'),
    (_API, 'API.unreserve_volume'): _ONE,
    ('cinder.db.api', 'volume_has_attachments_filter'): (),
    (_API, 'API.attach'): (*_ONE, 'instance_uuid', 'host_name', 'mountpoint', 'mode'),
    (_API, 'API.detach'): (*_ONE, 'attachment_id'),
    (_API, 'API.initialize_connection'): (*_ONE, 'connector'),
    (_API, 'API.terminate_connection'): (*_ONE, 'connector', 'force'),
    (_API, 'API.reimage'): (*_ONE, 'image_id', 'reimage_reserved', 'image_snap'),
    ('cinder.backup.api', 'API.delete'): ('self', 'context', 'backup', 'force'),
    ('cinder.scheduler.rpcapi', 'SchedulerAPI.create_volume'): (
        *_RPC, 'snapshot_id', 'image_id', 'request_spec', 'filter_properties', 'backup_id',
    ),
    ('cinder.volume.rpcapi', 'VolumeAPI.create_volume'): (
        *_RPC, 'request_spec', 'filter_properties', 'allow_reschedule',
    ),
    # It hands the row, with the quota committed, to scheduler_rpcapi.create_volume.
    ('cinder.volume.flows.api.create_volume', 'VolumeCastTask.execute'): (
        'self', 'context', 'kwargs',
    ),
    # It gives the quota back if that raises.
    ('cinder.volume.flows.api.create_volume', 'QuotaCommitTask.revert'): None,
    ('cinder.volume.volume_utils', 'delete_encryption_key'): (
        'context', 'key_manager', 'encryption_key_id',
    ),
    ('cinder.db.api', 'worker_destroy'): ('context', 'filters'),
    ('cinder.policies.base', 'list_rules'): (),
    ('cinder.policies.volume_actions', 'RESET_STATUS'): None,
    ('cinder.policies.group_actions', 'DELETE_POLICY'): None,
    ('cinder.policies.group_snapshots', 'DELETE_POLICY'): None,
    ('cinder.db.models', 'Volume.group_id'): None,
    ('cinder.db.models', 'Snapshot.group_snapshot_id'): None,
    # What is extended has to be called so (cinder_ext.api.groups).
    ('cinder.api.v3.groups', 'GroupsController.delete_group'): None,
    ('cinder.api.v3.group_snapshots', 'GroupSnapshotsController.delete'): None,
    ('cinder.api.openstack.wsgi', 'extends'): None,
}  # fmt: skip

VOLUME: Seams = {
    (_MANAGER, 'VolumeManager.create_volume'): (
        'self', 'context', 'volume', 'request_spec', 'filter_properties', 'allow_reschedule',
    ),
    (_MANAGER, 'VolumeManager.delete_volume'): (
        'self', 'context', 'volume', 'unmanage_only', 'cascade',
    ),
    # The last call of each report to the schedulers.
    (_MANAGER, 'VolumeManager.update_service_capabilities'): ('self', 'capabilities'),
    (_MANAGER, 'VolumeManager.publish_service_capabilities'): ('self', 'context'),
    (_MANAGER, 'VolumeManager.driver_delete_volume'): ('self', 'volume'),
    (_MANAGER, 'VolumeManager._set_resource_host'): ('self', 'resource'),
    (_MANAGER, 'VolumeManager._update_allocated_capacity'): ('self', 'vol', 'decrement', 'host'),
    (_MANAGER, 'VolumeManager._check_is_our_resource'): ('self', 'resource'),
    (_MANAGER, 'VolumeManager._driver_shares_targets'): ('self',),
    (_MANAGER, 'VolumeManager._notify_about_volume_usage'): None,
    ('cinder.coordination', 'synchronized'): ('lock_names', 'blocking', 'coordinator'),
    ('cinder.objects.volume', 'Volume.set_workers'): None,
    ('cinder.objects.volume', 'Volume.unset_worker'): ('self',),
    ('cinder.message.message_field', 'Detail.ALL'): None,
    ('cinder.message.message_field', 'Action.CREATE_VOLUME_FROM_BACKEND'): None,
    ('cinder.utils', 'clean_volume_file_locks'): ('volume_id', 'driver'),
    ('cinder.volume.flows.common', 'error_out'): ('resource', 'reason', 'status'),
    (
        'cinder.volume.flows.manager.create_volume',
        'CreateVolumeFromSpecTask._handle_bootable_volume_glance_meta',
    ): ('self', 'context', 'volume', 'kwargs'),
}  # fmt: skip


def check(*tables: Seams) -> None:
    """Compare cinder with the tables.

    :raises climateclient.extension.errors.Incompatible: with every difference
    """
    seams.check('cinder', EVERYWHERE, *tables)
