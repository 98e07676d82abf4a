# SPDX-License-Identifier: Apache-2.0
"""Enforce the policies on the loaded lease itself, never on the project of the caller."""

import argparse
import sys
from collections.abc import Mapping
from typing import Any

from oslo_config import cfg
from oslo_policy import policy

from climate_core import conf as configuration
from climate_core import exceptions, policies
from climate_core.context import RequestContext
from climate_core.db.registered_units import Viewer
from climate_core.lease.model import Lease


def make_enforcer(conf: cfg.ConfigOpts) -> policy.Enforcer:
    """Create the enforcer: the defaults of the code, and the changes of policy.yaml."""
    enforcer = policy.Enforcer(conf)
    enforcer.register_defaults(policies.list_rules())
    return enforcer


def get_enforcer() -> policy.Enforcer:
    """Create the enforcer for the tools of oslo.policy, which call this by its entry point.

    The tools have options of their own, so this reads only the configuration files from the
    command line.
    """
    parser = argparse.ArgumentParser(allow_abbrev=False, add_help=False)
    parser.add_argument('--config-file', action='append')
    options, _ = parser.parse_known_args(sys.argv[1:])
    return make_enforcer(configuration.load(config_files=options.config_file))


def allows(
    enforcer: policy.Enforcer, context: RequestContext, rule: str, target: Mapping[str, Any]
) -> bool:
    """Return whether the policy allows a rule on the target; if so, record it for the manager."""
    if not enforcer.authorize(rule, dict(target), context.to_policy_values()):
        return False
    context.grant(rule, target.get('project_id'))
    return True


def authorize(
    enforcer: policy.Enforcer,
    context: RequestContext,
    rule: str,
    target: Mapping[str, Any],
    field: str | None = None,
) -> None:
    """Reject what the policy does not allow to the caller.

    :param field: the field of the request that makes Climate enforce the rule
    :raises climate_core.exceptions.Forbidden: the policy does not allow it
    """
    if not allows(enforcer, context, rule, target):
        right = f': leave {field} out' if field else ''
        raise exceptions.Forbidden(f'The policy does not allow {rule} to you{right}.', field)


def authorize_lease(
    enforcer: policy.Enforcer,
    context: RequestContext,
    rule: str,
    lease: Lease,
    field: str | None = None,
) -> None:
    """Reject what the policy does not allow to the caller on this lease.

    :param field: see :func:`authorize`
    :raises climate_core.exceptions.LeaseNotFound: the caller may not see the lease
    :raises climate_core.exceptions.Forbidden: the caller may see the lease, but not do this
    """
    target = {'project_id': lease.project_id, 'user_id': lease.user_id}
    if not allows(enforcer, context, policies.GET_LEASES, target):
        raise exceptions.LeaseNotFound(f'Lease {lease.id} was not found.')
    if rule != policies.GET_LEASES:
        authorize(enforcer, context, rule, target, field)


def viewer(context: RequestContext, sees_all: bool = False) -> Viewer:
    """Return the caller of a request as the viewer of registered units.

    :param sees_all: whether the policy lets the caller see the units of all projects
    """
    return Viewer(context.project_id, context.project_domain_id, sees_all)
