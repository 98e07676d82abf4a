# SPDX-License-Identifier: Apache-2.0
"""Reserve a server or volume of a stack, and wake it up when its lease starts.

``Reservable`` precedes heat's own class. A resource without a reservation behaves as heat's own:
the same calls in the same order. The creation of a reserved one is complete as soon as nova or
cinder shows it as reserved; its resource data hold the id of its lease until it has started
(:data:`heat_ext.stacks.tree.LEASE_KEY`). Every update of the stack examines it:

* before the start of the lease, a property that cannot change while it is reserved makes heat
  replace it. The replacement is reserved first, so that a lack of capacity changes nothing;
* after the start the update wakes it up, in the order of the template, and waits for it. A
  standby member of a group stays reserved;
* what was woken up by someone else is completed.

Heat itself wakes up the members of its stacks, which keeps their order; the lease service only
requests an update that changes nothing.
"""

from heat_ext.members import actions, create, update


class Reservable(actions.ReservedActions, update.ReservedUpdate, create.ReservedCreate):
    """A mixin for a heat.engine.resource.Resource that has scheduler hints."""
