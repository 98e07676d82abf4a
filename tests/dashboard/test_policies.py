# SPDX-License-Identifier: Apache-2.0
"""The rules of the lease service that the dashboard brings."""

import pathlib

import yaml

from climate_core import policies
from climate_dashboard import policy_files


def test_default_policies_are_those_of_the_service() -> None:
    """To write the file anew: ``django-admin dump_default_policies``, see the installation."""
    kept = yaml.safe_load(pathlib.Path(policy_files.DEFAULT).read_text())
    found = {each['name']: (each['check_str'], each['scope_types']) for each in kept}
    rules = policies.list_rules()
    assert found == {each.name: (each.check_str, each.scope_types) for each in rules}


def test_rules_of_an_operator_are_read_and_change_nothing_at_first() -> None:
    assert yaml.safe_load(pathlib.Path(policy_files.OWN).read_text()) is None
