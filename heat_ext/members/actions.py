# SPDX-License-Identifier: Apache-2.0
"""Leave a reserved resource alone in the other actions of its stack."""

from typing import Any

from heat_ext.members import state
from heat_ext.service import leases


class ReservedActions(state.ReservedState):
    """Checks a reserved resource without heat's expectations, and takes no snapshot of it."""

    def handle_check(self) -> None:
        if self.is_reserved() and self._may_stay_reserved():
            return
        super().handle_check()

    def _may_stay_reserved(self) -> bool:
        lease = self._find_lease()
        if not leases.is_joinable(lease):
            return False
        return self.is_standby() or not leases.has_started(lease, leases.now())

    def handle_snapshot(self) -> Any:
        return None if self.is_reserved() else super().handle_snapshot()

    def check_snapshot_complete(self, token: Any) -> bool:
        return token is None or super().check_snapshot_complete(token)

    def handle_snapshot_delete(self, state: Any) -> Any:
        if self.is_reserved():
            return self.handle_delete()
        return super().handle_snapshot_delete(state)
