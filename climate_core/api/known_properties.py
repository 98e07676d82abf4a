# SPDX-License-Identifier: Apache-2.0
"""Name the properties of hosts in the refusal of one that no host has."""

from collections.abc import Mapping
from typing import Any, Final

from climate_core import exceptions
from climate_core.api import policy
from climate_core.api.request import Backend
from climate_core.calendar.model import Access
from climate_core.context import RequestContext
from climate_core.db import extra_properties
from climate_core.policies import hosts as rules

#: What users ask for of each host, beside the extra properties.
COMMON: Final = (
    'availability_zone',
    'cpu_arch',
    'cpu_model',
    'cpu_vendor',
    'hypervisor_hostname',
    'hypervisor_type',
    'hypervisor_version',
    'local_gb',
    'memory_mb',
    'vcpus',
)


def told(
    backend: Backend, context: RequestContext, error: exceptions.UnknownProperty
) -> exceptions.UnknownProperty:
    """Return the error with the names that the caller may see."""
    return exceptions.UnknownProperty(f'{error.message} {_known(backend, context)}', error.field)


def tell(
    backend: Backend, context: RequestContext, checked: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the answer of a dry run with these names in its refusals."""
    code = exceptions.UnknownProperty.code
    if not any(each['error_name'] == code for each in checked['refusals']):
        return checked
    known = _known(backend, context)
    refusals = [
        {**each, 'error_message': f'{each["error_message"]} {known}'}
        if each['error_name'] == code
        else each
        for each in checked['refusals']
    ]
    return {**checked, 'refusals': refusals}


def _known(backend: Backend, context: RequestContext) -> str:
    mine = context.project_id, context.project_domain_id
    sees_all = policy.allows(backend.enforcer, context, rules.GET_PRIVATE, {})

    def is_shown(stored: Mapping[str, Any] | None) -> bool:
        access = Access.load(stored)
        return sees_all or access is None or access.admits(*mine)

    extra = set(backend.database.read(extra_properties.HOSTS.values, is_shown))
    if not sees_all:
        extra -= backend.database.read(extra_properties.HOSTS.list_private)
    return f'Known are {", ".join(sorted({*COMMON, *extra}))}.'
