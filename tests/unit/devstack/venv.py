# SPDX-License-Identifier: Apache-2.0
"""A virtual environment as far as the configuration of a cloud needs it."""

from climate_cloud.settings import Settings

#: Files of the services that are copied.
COPIED = ('nova/api-paste.ini', 'heat/environment.d/default.yaml')


def prepare(settings: Settings) -> None:
    """Make the files of the services; nothing is in them."""
    for name in COPIED:
        file = settings.venv / 'etc' / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
