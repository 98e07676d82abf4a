# SPDX-License-Identifier: Apache-2.0
"""Events that a user gives a lease, under names of their own."""

from climate_core.lease.events import base


class UserEvent(base.Notice):
    event_type = base.BY_USER
    due = 'at the time that the user gives'
    action = 'notifies'
    notifications = {'lease.event.<name>': 'an event that the user gave is due'}
    accepted = True
