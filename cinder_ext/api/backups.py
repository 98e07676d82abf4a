# SPDX-License-Identifier: Apache-2.0
"""Keep backups that reserved volumes will be created from; for ``backup_api_class``."""

from typing import Any

from cinder.backup import api

from cinder_ext import seams, sources


class API(api.API):
    """Backups, for cinder-api.

    :raises climateclient.extension.errors.Incompatible: this cinder is not as expected
    """

    def __init__(self) -> None:
        seams.check(seams.API)
        super().__init__()

    def delete(self, context: Any, backup: Any, force: bool = False) -> None:
        """Delete a backup that no reserved volume needs.

        :raises cinder.exception.InvalidBackup: one does, or cinder refuses
        """
        sources.check_backup(context, backup)
        super().delete(context, backup, force)
