# SPDX-License-Identifier: Apache-2.0
"""Name the properties of hosts in the refusal of one that no host has."""

from collections.abc import Mapping
from typing import Any, Final

from climate_core import exceptions
from climate_core.api import extra_properties
from climate_core.api.request import Backend
from climate_core.context import RequestContext

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
    calls = extra_properties.HOSTS
    extra = set(calls.values(backend, context)) - calls.hidden(backend, context)
    return f'Known are {", ".join(sorted({*COMMON, *extra}))}.'
