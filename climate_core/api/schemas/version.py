# SPDX-License-Identifier: Apache-2.0
"""JSON Schemas of the versions of the API, in the form that keystoneauth discovers."""

from typing import Any

from climate_core.api.schemas import common

SHOWN: dict[str, Any] = common.closed(
    {
        'id': {'type': 'string'},
        'status': {'type': 'string', 'enum': ['CURRENT']},
        'min_version': {'type': 'string'},
        'max_version': {'type': 'string'},
        'links': {'type': 'array', 'items': {'type': 'object'}},
    }
)
ONE: dict[str, Any] = common.envelope('version', SHOWN)
MANY: dict[str, Any] = common.envelope('versions', {'type': 'array', 'items': SHOWN})
