# SPDX-License-Identifier: Apache-2.0
"""Say to Horizon which rules the lease service has; imports nothing that needs its settings."""

import pathlib
from collections.abc import MutableMapping
from typing import Final

from climateclient.client import SERVICE_TYPE

_CONF: Final = pathlib.Path(__file__).parent / 'conf'
#: The rules that an operator has changed; by default there are none.
OWN: Final = str(_CONF / 'climate_policy.yaml')
#: The default rules of the lease service.
DEFAULT: Final = str(_CONF / 'default_policies' / 'climate.yaml')


def add(
    policy_files: MutableMapping[str, str], default_policy_files: MutableMapping[str, str]
) -> None:
    """Add the files to the settings POLICY_FILES and DEFAULT_POLICY_FILES."""
    policy_files[SERVICE_TYPE] = OWN
    default_policy_files[SERVICE_TYPE] = DEFAULT
