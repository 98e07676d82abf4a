# SPDX-License-Identifier: Apache-2.0
"""What values of properties must be: ``climate.lease``, the id of a lease of the project."""

from heat.engine import constraints

from heat_ext import client


class LeaseConstraint(constraints.BaseCustomConstraint):
    """The id of a lease that the project has."""

    resource_client_name = client.CLIENT_NAME
    resource_getter_name = 'get_lease'
