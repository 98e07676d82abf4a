# SPDX-License-Identifier: Apache-2.0
"""Reserve volumes in cinder 29, without replacing any function or class of cinder.

A creation with the hint ``reserved=True`` counts the quota, enters the lease, lets the scheduler
choose a backend and hold the capacity there, and stops: the volume is ``lease-reserved`` and
nothing is on the backend. ``os-wake_up`` is the second half of the same creation.

cinder.conf alone, the same lines for cinder-api, cinder-scheduler, cinder-volume and
cinder-backup::

    [DEFAULT]
    volume_api_class = cinder_ext.api.volumes.API
    backup_api_class = cinder_ext.api.backups.API
    volume_manager = cinder_ext.manager.VolumeManager
    # The default, which has cinder's own actions, and ours.
    osapi_volume_extension = cinder.api.contrib.standard_extensions
    osapi_volume_extension = cinder_ext.api.wake_up.Reservations
    # The filters that were enabled, and ours.
    scheduler_default_filters = AvailabilityZoneFilter,CapacityFilter,CapabilitiesFilter,ReservationFilter

    [oslo_messaging_notifications]
    # The lease service hears which volumes are deleted.
    driver = messagingv2

    [climate]
    # Or leave it out: then the service "reservation" is looked up in the catalog with the
    # credentials in [service_user].
    endpoint_override = http://controller:1234/v1

    [service_user]
    send_service_user_token = true
    # ... and the credentials of cinder's service user

A cinder whose extension points differ (:mod:`cinder_ext.seams`) is refused at the start of each process.

What all extensions share (hints, dates, requests to the lease service) is in
``climateclient.extension``. The modules::

    seams, states, conf, policies
    api/                  POST /volumes (first half), os-wake_up, what is refused
    sources               what reserved volumes are made from is kept
    manager               cinder-volume: hold, wake (second half), delete
    capacity              what is held, in the reports to the schedulers
    image_metadata        the bootable flag and the image properties of a reserved volume
    messages              user messages: why a creation failed
    leases                requests to the lease service
    reservation_marker    whether something is on the backend, and what the second half needs
    scheduler             the filter
"""  # noqa: E501
