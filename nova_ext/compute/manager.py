# SPDX-License-Identifier: Apache-2.0
"""Hold servers back in nova-compute, and start them later.

Each override says when the reservation changes what nova does, and leaves the rest to nova:
``_do_build_and_run_instance`` keeps its locking, its rescheduling and its cleaning up.
"""

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

import nova.conf
import oslo_messaging
from nova import exception
from nova.compute import build_results, manager, vm_states
from oslo_utils import strutils

from climateclient.extension import hints
from nova_ext import conf, saved_build_args, seams, states, volumes, wake_marker
from nova_ext.compute import accelerators, recovery, reserve, tracker, wake

LOG = logging.getLogger(__name__)


class ComputeManager(manager.ComputeManager):
    """Nova's manager, with reservations."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        seams.check(seams.EVERYWHERE, seams.COMPUTE)
        conf.register(nova.conf.CONF)
        states.add()
        section = nova.conf.CONF[conf.GROUP]
        saved_build_args.check_keys(section)
        super().__init__(*args, **kwargs)
        self.rt = tracker.ResourceTracker(self.host, self.driver, reportclient=self.reportclient)
        LOG.info('Climate: this host can hold reserved servers')
        if section.stash_keys:
            LOG.warning(
                'Climate: remove [climate] stash_keys from nova.conf of nova-compute, which needs '
                'stash_public_key alone: this host can read the passwords of all reserved servers'
            )
        if not saved_build_args.public_key(section):
            LOG.warning(
                'Climate: without [climate] stash_public_key admin passwords are not stored'
            )

    def _init_instance(self, context: Any, instance: Any) -> None:
        if not recovery.at_start(self, context, instance):
            super()._init_instance(context, instance)

    def _error_out_instances_whose_build_was_interrupted(
        self, context: Any, already_handled_instances: set[str], node_uuids: Any
    ) -> None:
        # A server of another host may have its allocation here: it was rescheduled.
        handled = already_handled_instances | recovery.rescheduled(self, context, node_uuids)
        super()._error_out_instances_whose_build_was_interrupted(context, handled, node_uuids)

    def _do_build_and_run_instance(
        self,
        context: Any,
        instance: Any,
        image: Any,
        request_spec: Any,
        filter_properties: Any,
        admin_password: Any,
        injected_files: Any,
        requested_networks: Any,
        security_groups: Any,
        block_device_mapping: Any,
        node: str | None = None,
        limits: Any = None,
        host_list: Any = None,
        accel_uuids: Any = None,
    ) -> Any:
        marker = wake_marker.get(instance)
        if marker:
            if not wake.begin(self, context, instance):
                return build_results.FAILED_BY_POLICY
            sent = admin_password or injected_files or accel_uuids
            sent = sent or requested_networks is not None
            if saved_build_args.exist(instance.system_metadata) and not sent:
                error = exception.BuildAbortException(
                    instance_uuid=instance.uuid,
                    reason='nova-api sent no saved arguments: upgrade it before nova-compute',
                )
                recovery.back_to_reserved(self, context, instance, error)
                return build_results.FAILED_BY_POLICY
        try:
            result = super()._do_build_and_run_instance(
                context,
                instance,
                image,
                request_spec,
                filter_properties,
                admin_password,
                injected_files,
                requested_networks,
                security_groups,
                block_device_mapping,
                node,
                limits,
                host_list,
                accel_uuids,
            )
        except oslo_messaging.MessagingException as error:
            if not marker:
                raise
            # Nova, which could not note when its build began or ended, would delete the
            # allocation.
            result = self._end_wake_up(context, instance, marker, error)
        # A server that is reserved now says nothing about whether this host can spawn.
        if instance.vm_state == states.RESERVED:
            return build_results.FAILED_BY_POLICY
        return result

    def _end_wake_up(self, context: Any, instance: Any, marker: str, error: Exception) -> Any:
        """Return the result of a start during which nova-conductor gave no answer."""
        try:
            recovery.after_lost_reply(self, context, instance, marker, error)
        except oslo_messaging.MessagingException:
            LOG.exception('What became of the start of server %s is not known', instance.uuid)
            return build_results.FAILED_BY_POLICY
        active = instance.vm_state == vm_states.ACTIVE
        return build_results.ACTIVE if active else build_results.FAILED_BY_POLICY

    def _build_and_run_instance(
        self,
        context: Any,
        instance: Any,
        image: Any,
        injected_files: Any,
        admin_password: Any,
        requested_networks: Any,
        security_groups: Any,
        block_device_mapping: Any,
        node: str,
        limits: Any,
        filter_properties: Any,
        request_spec: Any = None,
        accel_uuids: Any = None,
    ) -> None:
        build = reserve.Build(
            context,
            instance,
            image,
            injected_files,
            admin_password,
            requested_networks,
            security_groups,
            block_device_mapping,
            node,
            limits,
            filter_properties,
            request_spec,
            accel_uuids,
        )
        if wake_marker.get(instance):
            with recovery.reserved_on_failure(self, build):
                super()._build_and_run_instance(*build)
                LOG.info('Reserved server %s is active', instance.uuid)
        elif hints.mentioned(self._get_scheduler_hints(filter_properties, request_spec)):
            if not reserve.reserve(self, build):
                super()._build_and_run_instance(*build)
        else:
            super()._build_and_run_instance(*build)

    def _build_networks_for_instance(
        self,
        context: Any,
        instance: Any,
        requested_networks: Any,
        security_groups: Any,
        resource_provider_mapping: Any,
        network_arqs: Any,
    ) -> Any:
        allocated = instance.system_metadata.get('network_allocated', 'False')
        if wake_marker.get(instance) and strutils.bool_from_string(allocated):
            # Nova's own branch for ports that exist leaves the providers out.
            self.network_api.setup_instance_network_on_host(
                context, instance, instance.host, provider_mappings=resource_provider_mapping
            )
            return self.network_api.get_instance_nw_info(context, instance)
        return super()._build_networks_for_instance(
            context,
            instance,
            requested_networks,
            security_groups,
            resource_provider_mapping,
            network_arqs,
        )

    @contextlib.contextmanager
    def _build_resources(
        self,
        context: Any,
        instance: Any,
        requested_networks: Any,
        security_groups: Any,
        image_meta: Any,
        block_device_mapping: Any,
        resource_provider_mapping: Any,
        accel_uuids: Any,
    ) -> Iterator[Any]:
        held = accelerators.held(self, context, instance, requested_networks, accel_uuids)
        with super()._build_resources(
            context,
            instance,
            requested_networks,
            security_groups,
            image_meta,
            block_device_mapping,
            resource_provider_mapping,
            accel_uuids if held is None else [],
        ) as resources:
            if held is not None:
                resources['accel_info'] = held
            yield resources

    def _shutdown_instance(
        self, context: Any, instance: Any, bdms: Any, *args: Any, **kwargs: Any
    ) -> None:
        bdms = volumes.connected(instance, bdms)
        super()._shutdown_instance(context, instance, bdms, *args, **kwargs)

    def _detach_volume(
        self,
        context: Any,
        bdm: Any,
        instance: Any,
        destroy_bdm: bool = True,
        attachment_id: str | None = None,
    ) -> None:
        if not volumes.is_connected(instance, bdm):
            if destroy_bdm:
                bdm.destroy()
        elif destroy_bdm and volumes.is_lost(context, self.volume_api, bdm, attachment_id):
            volumes.forget(context, self.volume_api, bdm)
        else:
            super()._detach_volume(context, bdm, instance, destroy_bdm, attachment_id)

    def _update_instance_after_spawn(self, instance: Any, *args: Any, **kwargs: Any) -> None:
        super()._update_instance_after_spawn(instance, *args, **kwargs)
        # Saved by the caller together with ACTIVE.
        wake_marker.clear(instance)
        saved_build_args.remove(instance.system_metadata)
