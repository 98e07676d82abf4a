# SPDX-License-Identifier: Apache-2.0
"""JSON schemas that are checked once.

Placement has jsonschema check the schema of each body and each query anew, which costs more than
to check what was sent.
"""

import functools

import jsonschema


def check_once():
    """Let each schema be checked when it is first used."""
    for kind in (jsonschema.Draft4Validator, jsonschema.Draft202012Validator):
        kind.check_schema = _once(kind.check_schema)


def _once(check):
    # Each is kept, so that no other one gets its id.
    checked = {}

    @functools.wraps(check)
    def first(schema, *args, **kwargs):
        if id(schema) not in checked:
            check(schema, *args, **kwargs)
            checked[id(schema)] = schema

    return first
