# SPDX-License-Identifier: Apache-2.0
"""Reserve servers and hosts in nova 34, without replacing any function or class of nova.

A boot with the hint ``reserved=True`` chooses a host, claims it, makes the ports, enters the
lease and stops: the server is RESERVED. ``wake_up`` is the second half of the same boot.

nova.conf alone, in the files of nova-api and of every nova-compute (in those of nova-scheduler
and nova-conductor it does no harm, and lets versioned notifications carry the state)::

    [oslo_messaging_notifications]
    # Beside the driver that sends, which the lease service listens to.
    driver = messagingv2
    driver = climate

    [notifications]
    notification_format = both

    [climate]
    # Or leave it out: then the service "reservation" is looked up in the catalog with the
    # credentials in [service_user].
    endpoint_override = http://controller:1234/v1
    # Opens the admin password of a reserved server at its start; nova-api only.
    stash_keys = <output of: climate-nova-stash generate>
    # Seals it at the reservation; nova-compute only.
    stash_public_key = <output of: climate-nova-stash public>

    [service_user]
    send_service_user_token = true
    # ... and the credentials of nova's service user

and in that of every nova-scheduler, so that a reservation never lands on a nova-compute that would
start it at once (ReservationFilter), and only servers of a reservation of hosts land on these
(PoolFilter)::

    [filter_scheduler]
    available_filters = nova.scheduler.filters.all_filters
    available_filters = nova_ext.scheduler.ReservationFilter
    available_filters = nova_ext.scheduler.PoolFilter
    # The filters that were enabled, and ours.
    enabled_filters = ComputeFilter,ComputeCapabilitiesFilter,ImagePropertiesFilter,ServerGroupAntiAffinityFilter,ServerGroupAffinityFilter,ReservationFilter,PoolFilter

    [scheduler]
    # Recommended for reservations of hosts: see nova_ext.scheduler.
    enable_isolated_aggregate_filtering = true

The lines of nova-api and nova-compute fail open: if the package is missing, a stock nova starts with a warning. To fail
closed, run ``climate-nova-compute`` instead of ``nova-compute`` with the same arguments, and
change one line of api-paste.ini::

    [app:osapi_compute_app_v21]
    paste.app_factory = nova_ext.api.routes:app_factory

Both ways at once are fine. A nova whose extension points differ (:mod:`nova_ext.seams`) is refused
at the start, whichever way is taken.

While a server is locked, only an administrator can wake, delete or change it, as everywhere in
nova. The lease service gets 409, and tries again.

What all extensions share (hints, dates, requests to the lease service) is in
``climateclient.extension``. The modules::

    activate, enable            how the extension gets into a service of nova
    seams, states, conf, policies
    api/                        POST /servers, the action wake_up, another host, reserved volumes,
                                the extra spec of flavors
    compute/                    reserve (first half), wake (second half), recovery, tracker,
                                accelerators
    leases                      requests to the lease service
    volumes                     the attachments of a reserved server
    saved_build_args            what the second half needs and nova keeps nowhere
    wake_marker                 which request wakes a server
    scheduler/                  the filters, the request filter of the pool, open matching
    stats                       what nova-compute reports to the filters
"""  # noqa: E501
