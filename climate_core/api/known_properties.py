# SPDX-License-Identifier: Apache-2.0
"""Name the properties of hosts or segments in the refusal of one that none of these has."""

from collections.abc import Mapping
from typing import Any, Final

from climate_core import exceptions
from climate_core.api import extra_properties
from climate_core.api.extra_properties import PropertyCalls
from climate_core.api.request import Backend
from climate_core.context import RequestContext
from climate_networks.domain import networks

#: What users ask for of each host, beside the extra properties.
_OF_HOSTS: Final = (
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
#: The codes of errors -> the extra properties that are meant, and what there is beside them.
_KNOWN: Final[Mapping[str, tuple[PropertyCalls, tuple[str, ...]]]] = {
    exceptions.UnknownProperty.code: (extra_properties.HOSTS, _OF_HOSTS),
    exceptions.UnknownSegmentProperty.code: (extra_properties.SEGMENTS, networks.FACTS),
}


def told(
    backend: Backend, context: RequestContext, error: exceptions.UnknownProperty
) -> exceptions.UnknownProperty:
    """Return the error with the names that the caller may see."""
    return type(error)(f'{error.message} {_known(backend, context, error.code)}', error.field)


def tell(
    backend: Backend, context: RequestContext, checked: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the answer of a dry run with these names in its refusals."""
    codes = {each['error_name'] for each in checked['refusals']} & _KNOWN.keys()
    known = {code: _known(backend, context, code) for code in codes}
    refusals = [
        {**each, 'error_message': f'{each["error_message"]} {known[each["error_name"]]}'}
        if each['error_name'] in known
        else each
        for each in checked['refusals']
    ]
    return {**checked, 'refusals': refusals}


def _known(backend: Backend, context: RequestContext, code: str) -> str:
    calls, common = _KNOWN[code]
    extra = set(calls.values(backend, context)) - calls.hidden(backend, context)
    return f'Known are {", ".join(sorted({*common, *extra}))}.'
