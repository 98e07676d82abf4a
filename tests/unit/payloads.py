# SPDX-License-Identifier: Apache-2.0
"""Whether a notification is what its documents say."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema

from climate_core.notifications import schemas


def problems(event_type: str, payload: Mapping[str, Any]) -> Iterator[str]:
    """Say what is wrong with a payload, and which of its fields are not documented."""
    schema = schemas.get_type(event_type).schema
    value = json.loads(json.dumps(payload))
    for error in jsonschema.Draft202012Validator(schema).iter_errors(value):
        yield f'{event_type} {error.json_path}: {error.message}'
    extra = set(value) - set(schema['properties'])
    for event in value.get('events', ()):
        extra |= set(event) - set(schemas.EVENT['properties'])
    yield from (f'{event_type} {name}: not documented' for name in sorted(extra))
