# SPDX-License-Identifier: Apache-2.0
"""The defaults, role by role, on a lease of the own project and on one of another project."""

import pathlib

import pytest
from oslo_policy import policy as oslo_policy

from climate_core import conf as configuration
from climate_core import exceptions
from climate_core import policies as core_policies
from climate_core.api import policy
from climate_core.context import RequestContext
from climate_hosts import policies
from climate_networks import policies as climate_networks_policies
from tests.unit.api import samples

READS = {
    core_policies.GET_LEASES,
    core_policies.GET_LEASE_HISTORY,
    core_policies.GET_LIMITS,
    policies.GET_PROPERTIES,
    climate_networks_policies.GET_FLOATING_IPS,
    climate_networks_policies.GET_NETWORKS,
    climate_networks_policies.GET_NETWORK_PROPERTIES,
}
WRITES = {
    core_policies.CREATE_LEASE,
    core_policies.UPDATE_LEASE,
    core_policies.DELETE_LEASE,
    core_policies.START_LEASE,
    core_policies.END_LEASE,
    core_policies.CREATE_RESERVATION,
    core_policies.UPDATE_RESERVATION,
    core_policies.DELETE_RESERVATION,
}
ADMINS = {
    core_policies.GET_ALL_LEASES,
    policies.GET,
    policies.CREATE,
    policies.UPDATE,
    policies.DELETE,
    core_policies.GET_PRIVATE_PROPERTIES,
    policies.GET_USAGE,
    policies.GET_POOLS,
    climate_networks_policies.CREATE_FLOATING_IPS,
    climate_networks_policies.DELETE_FLOATING_IPS,
    climate_networks_policies.GET_RESTRICTED_NETWORKS,
    climate_networks_policies.GET_PRIVATE_NETWORK_PROPERTIES,
    climate_networks_policies.CREATE_NETWORKS,
    climate_networks_policies.UPDATE_NETWORKS,
    climate_networks_policies.DELETE_NETWORKS,
    core_policies.EVACUATE_HOSTS,
    core_policies.SET_PRIORITY,
    core_policies.GET_ALLOCATIONS,
    policies.UPDATE_PROPERTIES,
    climate_networks_policies.UPDATE_NETWORK_PROPERTIES,
    policies.UPDATE_POOLS,
    policies.DELETE_POOLS,
}
ALL = READS | WRITES | ADMINS
OURS, THEIRS = {'project_id': 'project'}, {'project_id': 'another'}
#: role -> what it may do with its project's lease, and with one of another project
MAY: dict[str, tuple[set[str], set[str]]] = {
    'nobody': (set(), set()),
    'reader': (READS, set()),
    'member': (READS | WRITES, set()),
    'manager': (READS | WRITES, set()),
    'service': (set(), set()),
    'admin': (ALL, ALL),
}
RULES = sorted(ALL)


@pytest.fixture(scope='module')
def enforcer() -> oslo_policy.Enforcer:
    return policy.make_enforcer(configuration.load([], []))


def who(role: str) -> RequestContext:
    return RequestContext(
        user_id='user', project_id='project', roles=[role], is_admin=role == 'admin'
    )


@pytest.mark.parametrize('rule', RULES)
@pytest.mark.parametrize('role', MAY)
def test_role_may_do_to_leases_of_each_project_what_the_table_says(
    enforcer: oslo_policy.Enforcer, role: str, rule: str
) -> None:
    ours, theirs = MAY[role]
    assert policy.allows(enforcer, who(role), rule, OURS) == (rule in ours)
    assert policy.allows(enforcer, who(role), rule, THEIRS) == (rule in theirs)


@pytest.mark.parametrize('role', MAY)
def test_plugins_need_no_role(enforcer: oslo_policy.Enforcer, role: str) -> None:
    assert policy.allows(enforcer, who(role), core_policies.GET_PLUGINS, {})


@pytest.mark.parametrize('role', MAY)
def test_feeds_are_of_a_user_that_can_read(enforcer: oslo_policy.Enforcer, role: str) -> None:
    """An administrator can delete those of others, and read none."""
    may = role == 'reader'
    for rule in (core_policies.CREATE_FEED, core_policies.GET_FEEDS):
        assert policy.allows(enforcer, who(role), rule, {**OURS, 'user_id': 'user'}) == may
        assert not policy.allows(enforcer, who(role), rule, {**OURS, 'user_id': 'other'})
    theirs = {**OURS, 'user_id': 'other'}
    assert policy.allows(enforcer, who(role), core_policies.DELETE_FEED, theirs) == (
        role == 'admin'
    )


@pytest.mark.parametrize('rule', RULES)
def test_system_tokens_have_no_project(enforcer: oslo_policy.Enforcer, rule: str) -> None:
    context = RequestContext(user_id='user', system_scope='all', roles=['admin'])
    assert not policy.allows(enforcer, context, rule, OURS)


def test_a_lease_that_may_not_be_seen_is_not_there(enforcer: oslo_policy.Enforcer) -> None:
    context = RequestContext(user_id='user', project_id='another', roles=['member', 'reader'])
    with pytest.raises(exceptions.LeaseNotFound):
        policy.authorize_lease(enforcer, context, core_policies.DELETE_LEASE, samples.lease())


def test_a_lease_that_may_be_seen_is_forbidden(enforcer: oslo_policy.Enforcer) -> None:
    with pytest.raises(exceptions.Forbidden, match='climate:leases:delete'):
        policy.authorize_lease(
            enforcer, who('reader'), core_policies.DELETE_LEASE, samples.lease()
        )


def test_opening_the_calendar_opens_nothing_else(tmp_path: pathlib.Path) -> None:
    """An operator shows all leases to everybody; changing them is as it was."""
    (tmp_path / 'policy.yaml').write_text('"climate:leases:get": "@"\n')
    (tmp_path / 'climate.conf').write_text(
        f'[oslo_policy]\npolicy_file = {tmp_path}/policy.yaml\n'
    )
    opened = policy.make_enforcer(configuration.load([], [str(tmp_path / 'climate.conf')]))
    context = RequestContext(user_id='user', project_id='another', roles=['member', 'reader'])
    policy.authorize_lease(opened, context, core_policies.GET_LEASES, samples.lease())
    for rule in WRITES - {core_policies.CREATE_LEASE}:
        with pytest.raises(exceptions.Forbidden):
            policy.authorize_lease(opened, context, rule, samples.lease())


def test_the_tools_find_the_enforcer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr('sys.argv', ['oslopolicy-policy-generator', '--namespace', 'climate'])
    others = {
        core_policies.GET_PLUGINS,
        core_policies.GET_AVAILABILITY,
        core_policies.GET_CALENDAR,
    }
    others |= {rule.name for rule in (core_policies.USAGE_RULES + core_policies.FEED_RULES)}
    assert set(policy.get_enforcer().registered_rules) == {*RULES, *others}
