# SPDX-License-Identifier: Apache-2.0
"""``OS::Climate::AutoScalingGroup``: ``OS::Heat::AutoScalingGroup`` that reserves its maximum.

A group whose members join a lease always has ``max_size`` members. Heat's own code decides how
many of them are active; the others are standby members, which stay reserved for the whole lease:

* at the start the active members are woken up, all at once as heat creates them;
* scaling up wakes up standby members, and schedules nothing;
* scaling down before the start turns active members into standby members. After the start, new
  standby members are reserved for the running ones that are to go, and then these are deleted.
  Without capacity for the new ones nothing changes, and the update or the signal fails with the
  reason;
* attributes, policies and cooldowns count the active members only.

Once the lease is over the group is an ordinary one: its standby members are gone, and nothing can
be added.
"""

import functools
import itertools
import logging
from collections.abc import Iterable, Iterator
from typing import Any

from heat.common import environment_format, grouputils, short_id
from heat.engine import environment, scheduler
from heat.engine import stack as parser
from heat.engine.resources import stack_resource
from heat.engine.resources.openstack.heat import autoscaling_group
from heat.scaling import template

from heat_ext.groups import leases, standby_members, view
from heat_ext.groups.leases import LeasePhase
from heat_ext.groups.standby_members import Definition, Members
from heat_ext.members import abandon_guard

LOG = logging.getLogger(__name__)
_Core = autoscaling_group.AutoScalingResourceGroup
_HOT = ('heat_template_version', '2015-04-30')


class AutoScalingGroup(abandon_guard.AbandonGuard, view.ActiveMembersView, _Core):
    """A group whose members may be reserved."""

    def __init__(self, name: str, definition: Any, stack: Any) -> None:
        self._phase: LeasePhase | None = None
        self._next_standby: frozenset[str] | None = None
        self._rolling = False
        super().__init__(name, definition, stack)

    def _read_members(self) -> Members:
        found = grouputils.GroupInspector(
            self.context, self.unfiltered_client(), self.nested_identifier()
        )
        standby, current = self.standby_names(), found.template()
        definitions = current.resource_definitions(None) if current else {}
        every = [name for name in found.member_names(True) if name in definitions]
        return Members(
            [(name, definitions[name]) for name in every if name not in standby],
            [(name, definitions[name]) for name in every if name in standby],
            frozenset(every).difference(found.member_names(False)),
        )

    # The leases of the members.

    def _lease_ids(self) -> set[str]:
        """Return the leases that a new member would join, without creating one."""
        one = template.make_template([('member', self._get_resource_definition())])
        definition = self.child_definition(one, super().child_params())
        stack = parser.Stack(
            self.context,
            f'{self.stack.name}-{self.name}',
            definition.t,
            parent_resource=self.name,
            owner_id=self.stack.id,
            nested_depth=self._child_nested_depth(),
            strict_validate=False,
        )
        stack.set_parent_stack(self.stack)
        return leases.list_lease_ids(stack)

    def _read_phase(self) -> LeasePhase:
        """Ask the lease service for the phase, and keep it for this change.

        :raises keystoneauth1.exceptions.ClientException: the lease service does not answer
        """
        self._phase = leases.find_phase(self._lease_ids(), lambda: self.client('climate'))
        return self._phase

    def _is_reserved(self) -> bool:
        if self._phase is None:
            return bool(self._lease_ids())
        return self._phase in (LeasePhase.PENDING, LeasePhase.STARTED)

    # The nested stack.

    def child_params(self) -> dict[str, Any]:
        """Return heat's environment of the nested stack, with the list of standby members."""
        params = super().child_params()
        names = self.standby_names() if self._next_standby is None else self._next_standby
        own = self.physical_resource_name()
        if names and own:
            params[environment_format.PARAMETER_DEFAULTS] = standby_members.parameter_defaults(
                own, names, self.stack.env.param_defaults
            )
        return params

    def _create_template(
        self,
        num_instances: int,
        num_replace: int = 0,
        template_version: tuple[str, str] = _HOT,
    ) -> Any:
        """Return the template of the nested stack.

        :param num_instances: the number of active members
        :param num_replace: how many of them get their new definition
        """
        if not self._is_reserved():
            self._next_standby = frozenset()
            return super()._create_template(num_instances, num_replace, template_version)
        definition, members = self._get_resource_definition(), self._read_members()
        old = members.active
        if self._rolling:
            # A standby member that was woken up is no newer than the member that it replaces.
            old = sorted(old, key=lambda each: each[1] == definition)
        names = itertools.chain(members.wake_up_order(), iter(short_id.generate_id, None))
        active = list(
            template.member_definitions(
                old, definition, num_instances, num_replace, names.__next__
            )
        )
        return self._make_template(active, self._choose_standby(members, active, definition))

    def _choose_standby(
        self, members: Members, active: list[Definition], definition: Any
    ) -> list[Definition]:
        """Return the standby members: existing ones up to the maximum size, and new ones."""
        taken = {name for name, _ in active}
        free = members.standby
        if self._phase is not LeasePhase.STARTED:
            free = free + members.active
        free = [each for each in free if each[0] not in taken]
        missing = max(self.properties[self.MAX_SIZE] - len(active), 0)
        count = len(free) if self._rolling else missing
        return list(
            template.member_definitions(free, definition, count, count, short_id.generate_id)
        )

    def _make_template(self, active: list[Definition], standby: Iterable[Definition]) -> Any:
        standby = list(standby)
        self._next_standby = frozenset(name for name, _ in standby)
        env = environment.get_child_environment(
            self.stack.env, self.child_params(), item_to_remove=self.resource_info
        )
        result = template.make_template([*active, *standby], version=_HOT, child_env=env)
        get_attr, get_resource = (
            functools.partial(result.functions[name], None, name)
            for name in ('get_attr', 'get_resource')
        )
        names = [name for name, _ in active]
        for each in self._nested_output_defns(names, get_attr, get_resource):
            result.add_output(each)
        return result

    # Changes reserve what they need before they touch anything that runs.

    def resize(self, capacity: int) -> None:
        """Change the number of active members.

        :raises heat.common.exception.ResourceFailure: a member could not be reserved, and nothing
            has changed; or one could not be woken up, and the next update tries again
        """
        phase = self._read_phase()
        if self._is_reserved():
            members = self._read_members()
            kept = len(members.active)
            if phase is LeasePhase.STARTED:
                kept = min(kept, capacity)
            missing = self.properties[self.MAX_SIZE] - kept - len(members.standby)
            self._reserve_standby(members, missing)
        super().resize(capacity)

    def _replace(self, min_in_service: int, batch_size: int, pause_sec: float) -> None:
        """Update all members to their new definition, the standby members first: they do not run.

        The members that heat adds concurrently are standby members that are woken up.
        """
        phase = self._read_phase()
        if not self._is_reserved():
            super()._replace(min_in_service, batch_size, pause_sec)
            return
        self._replace_standby(batch_size)
        if phase is LeasePhase.STARTED:
            self._reserve_for_batches(min_in_service, batch_size)
        else:
            min_in_service = 0
        self._rolling = True
        try:
            super()._replace(min_in_service, batch_size, pause_sec)
        finally:
            self._rolling = False

    def _replace_standby(self, batch_size: int) -> None:
        definition = self._get_resource_definition()
        members = self._read_members()
        old = [name for name, each in members.standby if each != definition]
        for first in range(0, len(old), batch_size):
            new = set(old[: first + batch_size])
            self._update_nested(
                members.active,
                [(name, definition if name in new else each) for name, each in members.standby],
            )

    def _reserve_for_batches(self, min_in_service: int, batch_size: int) -> None:
        members = self._read_members()
        now = len(members.active)
        after = min(self.get_size() or now, now)
        batches = self._get_batches(after, now, batch_size, min_in_service)
        most = max((total for total, _ in batches), default=now)
        total = self.properties[self.MAX_SIZE] + most - now
        self._reserve_standby(members, total - after - len(members.standby))

    def _reserve_standby(self, members: Members, count: int) -> None:
        """Reserve new standby members, all or none."""
        if count <= 0:
            return
        definition = self._get_resource_definition()
        new = [(short_id.generate_id(), definition) for _ in range(count)]
        try:
            self._update_nested(members.active, members.standby + new)
        except Exception:
            self._restore(members)
            raise

    def _restore(self, members: Members) -> None:
        try:
            self._update_nested(members.active, members.standby)
        except Exception:
            # The user is told the failure that came before.
            LOG.exception('Group %s could not be restored after a failed change', self.name)

    def _update_nested(self, active: list[Definition], standby: Iterable[Definition]) -> None:
        """Update the nested stack, and wait for the end of the update."""
        cookie = self.update_with_template(self._make_template(active, standby))
        waiting = scheduler.TaskRunner(self._wait_for_update, cookie)
        waiting(timeout=self.stack.timeout_secs())
        self._group_data(refresh=True)

    def _wait_for_update(self, cookie: Any) -> Iterator[None]:
        # The method of the group itself would begin its cooldown too early.
        while not stack_resource.StackResource.check_update_complete(self, cookie):
            yield


TYPES = {'OS::Climate::AutoScalingGroup': AutoScalingGroup}
