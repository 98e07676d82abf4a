# SPDX-License-Identifier: Apache-2.0
"""Tell which leases can share the trust of their owner: those that need the same. Pure."""

import dataclasses
import hashlib
import json


@dataclasses.dataclass(frozen=True, slots=True)
class TrustScope:
    """Say what a trust delegates, and to whom.

    :param user_id: the owner, who delegates
    :param project_id: the project in which
    :param trustee_id: the service user: with another one a trust is of no use
    :param roles: the names of the roles, sorted
    """

    user_id: str
    project_id: str
    trustee_id: str
    roles: tuple[str, ...]

    @property
    def digest(self) -> str:
        """Return 64 hexadecimal digits that only an equal scope has."""
        text = json.dumps([self.user_id, self.project_id, self.trustee_id, *self.roles])
        return hashlib.sha256(text.encode()).hexdigest()
