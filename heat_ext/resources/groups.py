# SPDX-License-Identifier: Apache-2.0
"""``OS::Climate::AutoScalingGroup``: ``OS::Heat::AutoScalingGroup`` that holds its maximum.

A group whose members join a lease always has ``max_size`` members. Heat's own code decides how
many of them are wanted; the others are spares, which stay asleep for the whole lease:

* at the start the wanted ones are woken, all at once as heat creates them;
* scaling up wakes spares, and schedules nothing;
* scaling down before the start makes spares of wanted members. After it, new spares are reserved
  for those that run and are to go, and then these are deleted. Without room for the new spares
  nothing changes, and the update or the signal fails with the reason;
* what is wanted, and only that, is counted by attributes, policies and cooldowns.

Once the lease is over the group is an ordinary one: its spares are gone, and nothing can be added.
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

from heat_ext.members import abandoned, group_leases, group_view, spares
from heat_ext.members.group_leases import Phase

LOG = logging.getLogger(__name__)
_Core = autoscaling_group.AutoScalingResourceGroup
_HOT = ('heat_template_version', '2015-04-30')


class AutoScalingGroup(abandoned.Abandonable, group_view.GroupView, _Core):
    """A group whose members may be reserved."""

    def __init__(self, name: str, definition: Any, stack: Any) -> None:
        self._phase: Phase | None = None
        self._asleep: frozenset[str] | None = None
        self._rolling = False
        super().__init__(name, definition, stack)

    # Who is a member.

    def _members(self) -> spares.Members:
        found = grouputils.GroupInspector(
            self.context, self.whole_client(), self.nested_identifier()
        )
        asleep, current = self.spare_names(), found.template()
        definitions = current.resource_definitions(None) if current else {}
        every = [name for name in found.member_names(True) if name in definitions]
        return spares.Members(
            [(name, definitions[name]) for name in every if name not in asleep],
            [(name, definitions[name]) for name in every if name in asleep],
            frozenset(every).difference(found.member_names(False)),
        )

    # Whether it is reserved.

    def _lease_ids(self) -> set[str]:
        """Find out which leases a new member would join, without making one."""
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
        return group_leases.leases_of(stack)

    def _look_at_leases(self) -> Phase:
        """Ask the lease service; the answer counts for what is done next.

        :raises keystoneauth1.exceptions.ClientException: it does not answer
        """
        self._phase = group_leases.phase_of(self._lease_ids(), lambda: self.client('climate'))
        return self._phase

    def _is_reserved(self) -> bool:
        if self._phase is None:
            return bool(self._lease_ids())
        return self._phase in (Phase.BEFORE, Phase.STARTED)

    # The nested stack.

    def child_params(self) -> dict[str, Any]:
        """Give heat's environment of the nested stack, and in it who stays asleep."""
        params = super().child_params()
        names = self.spare_names() if self._asleep is None else self._asleep
        own = self.physical_resource_name()
        if names and own:
            params[environment_format.PARAMETER_DEFAULTS] = spares.defaults(
                own, names, self.stack.env.param_defaults
            )
        return params

    def _create_template(
        self,
        num_instances: int,
        num_replace: int = 0,
        template_version: tuple[str, str] = _HOT,
    ) -> Any:
        """Write the template of the nested stack.

        :param num_instances: how many members are wanted
        :param num_replace: how many of them get their new definition
        """
        if not self._is_reserved():
            self._asleep = frozenset()
            return super()._create_template(num_instances, num_replace, template_version)
        definition, members = self._get_resource_definition(), self._members()
        old = members.wanted
        if self._rolling:
            # A spare that was woken is no newer than the member that goes for it.
            old = sorted(old, key=lambda each: each[1] == definition)
        names = itertools.chain(members.to_wake(), iter(short_id.generate_id, None))
        wanted = list(
            template.member_definitions(
                old, definition, num_instances, num_replace, names.__next__
            )
        )
        return self._write(wanted, self._rest(members, wanted, definition))

    def _rest(
        self, members: spares.Members, wanted: list[spares.Definition], definition: Any
    ) -> list[spares.Definition]:
        """Choose the spares: those that there are, as far as the maximum allows, and new ones."""
        taken = {name for name, _ in wanted}
        free = members.spares
        if self._phase is not Phase.STARTED:
            free = free + members.wanted
        free = [each for each in free if each[0] not in taken]
        missing = max(self.properties[self.MAX_SIZE] - len(wanted), 0)
        count = len(free) if self._rolling else missing
        return list(
            template.member_definitions(free, definition, count, count, short_id.generate_id)
        )

    def _write(self, wanted: list[spares.Definition], asleep: Iterable[spares.Definition]) -> Any:
        asleep = list(asleep)
        self._asleep = frozenset(name for name, _ in asleep)
        env = environment.get_child_environment(
            self.stack.env, self.child_params(), item_to_remove=self.resource_info
        )
        result = template.make_template([*wanted, *asleep], version=_HOT, child_env=env)
        get_attr, get_resource = (
            functools.partial(result.functions[name], None, name)
            for name in ('get_attr', 'get_resource')
        )
        names = [name for name, _ in wanted]
        for each in self._nested_output_defns(names, get_attr, get_resource):
            result.add_output(each)
        return result

    # Changes. What is needed is reserved before anything that runs is touched.

    def resize(self, capacity: int) -> None:
        """Let so many members be wanted.

        :raises heat.common.exception.ResourceFailure: one could not be reserved: all is as it
            was; or one could not be woken: it is tried again by the next update
        """
        phase = self._look_at_leases()
        if self._is_reserved():
            members = self._members()
            kept = len(members.wanted)
            if phase is Phase.STARTED:
                kept = min(kept, capacity)
            self._hold(members, self.properties[self.MAX_SIZE] - kept - len(members.spares))
        super().resize(capacity)

    def _replace(self, min_in_service: int, batch_size: int, pause_sec: float) -> None:
        """Give all members their new definition: the spares first, as nobody misses them.

        The members that heat has beside the others meanwhile are spares that are woken.
        """
        phase = self._look_at_leases()
        if not self._is_reserved():
            super()._replace(min_in_service, batch_size, pause_sec)
            return
        self._renew_spares(batch_size)
        if phase is Phase.STARTED:
            self._hold_for_batches(min_in_service, batch_size)
        else:
            min_in_service = 0
        self._rolling = True
        try:
            super()._replace(min_in_service, batch_size, pause_sec)
        finally:
            self._rolling = False

    def _renew_spares(self, batch_size: int) -> None:
        definition = self._get_resource_definition()
        members = self._members()
        old = [name for name, each in members.spares if each != definition]
        for first in range(0, len(old), batch_size):
            new = set(old[: first + batch_size])
            self._update(
                members.wanted,
                [(name, definition if name in new else each) for name, each in members.spares],
            )

    def _hold_for_batches(self, min_in_service: int, batch_size: int) -> None:
        members = self._members()
        now = len(members.wanted)
        after = min(self.get_size() or now, now)
        batches = self._get_batches(after, now, batch_size, min_in_service)
        most = max((total for total, _ in batches), default=now)
        total = self.properties[self.MAX_SIZE] + most - now
        self._hold(members, total - after - len(members.spares))

    def _hold(self, members: spares.Members, count: int) -> None:
        """Reserve new spares, all or none."""
        if count <= 0:
            return
        definition = self._get_resource_definition()
        new = [(short_id.generate_id(), definition) for _ in range(count)]
        try:
            self._update(members.wanted, members.spares + new)
        except Exception:
            self._take_back(members)
            raise

    def _take_back(self, members: spares.Members) -> None:
        try:
            self._update(members.wanted, members.spares)
        except Exception:
            # The one that it follows is told.
            LOG.exception('The group %s could not be put back', self.name)

    def _update(
        self, wanted: list[spares.Definition], asleep: Iterable[spares.Definition]
    ) -> None:
        """Update the nested stack, and wait for it."""
        cookie = self.update_with_template(self._write(wanted, asleep))
        waiting = scheduler.TaskRunner(self._until_updated, cookie)
        waiting(timeout=self.stack.timeout_secs())
        self._group_data(refresh=True)

    def _until_updated(self, cookie: Any) -> Iterator[None]:
        # Not that of a group: its cooldown begins when all is done.
        while not stack_resource.StackResource.check_update_complete(self, cookie):
            yield


TYPES = {'OS::Climate::AutoScalingGroup': AutoScalingGroup}
