# SPDX-License-Identifier: Apache-2.0
"""Name the status of a volume that waits for its lease, and the sign of its wake_up.

A text of cinder's own column ``volumes.status``: any is allowed there (cinder/objects/volume.py).
It is not called ``reserved`` because cinder calls a volume so between the first and the second
half of an attachment (cinder/volume/api.py, attachment_create).

The status is for users. What decides whether there is anything on the backend is the marker
(:mod:`cinder_ext.reservation_marker`), for an administrator may write any status.
"""

#: ``volumes.status``.
RESERVED = 'lease-reserved'
#: ``volumes.status`` of a volume whose creation broke off: what cinder-volume writes, and
#: cinder-backup (BackupManager.restore_backup) of one that it was to complete.
CREATION_FAILED = ('error', 'error_restoring')
#: Key of filter_properties: this create_volume is the second half, not the first.
WAKE_UP = 'climate_wake_up'
