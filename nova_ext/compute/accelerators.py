# SPDX-License-Identifier: Apache-2.0
"""Keep the accelerator requests (ARQs) of a reservation when a start fails."""

from typing import Any

from nova import exception

from nova_ext import wake_marker


def bind(
    manager: Any, context: Any, instance: Any, requested_networks: Any, accel_uuids: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Wait until cyborg has bound the requests.

    :returns: those of the flavor and those of the ports, by uuid
    """
    if not accel_uuids:
        return {}, {}
    arqs = manager._get_bound_arq_resources(context, instance, accel_uuids)
    return manager._split_network_arqs(arqs, requested_networks or [])


def held(
    manager: Any, context: Any, instance: Any, requested_networks: Any, accel_uuids: Any
) -> list[Any] | None:
    """Return the accelerators of the flavor for the spawn of a reserved server.

    :returns: None if the server is not being woken or has none; nova then does as always
    :raises nova.exception.BuildAbortException: they cannot be had now
    """
    if not accel_uuids or not wake_marker.get(instance):
        return None
    try:
        own, _ = bind(manager, context, instance, requested_networks, accel_uuids)
    except (
        exception.AcceleratorRequestOpFailed,
        exception.AcceleratorRequestBindingFailed,
        exception.InstanceEventTimeout,
    ) as error:
        raise exception.BuildAbortException(
            instance_uuid=instance.uuid, reason=f'Failure getting accelerator requests: {error}'
        ) from error
    return list(own.values())
