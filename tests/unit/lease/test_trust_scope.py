# SPDX-License-Identifier: Apache-2.0
import dataclasses

import pytest

from climate_core.db.trusts import TrustScope

SCOPE = TrustScope('user', 'project', 'climate', ('member', 'reader'))


def test_equal_scopes_have_one_digest() -> None:
    assert SCOPE.digest == dataclasses.replace(SCOPE).digest
    assert len(SCOPE.digest) == 64


@pytest.mark.parametrize(
    'other',
    [
        {'user_id': 'x'},
        {'project_id': 'x'},
        {'trustee_id': 'x'},
        {'roles': ()},
        {'roles': ('member',)},
        {'roles': ('member reader',)},
        {'roles': ('admin', 'member', 'reader')},
        # What stands in another place is something else.
        {'user_id': 'project', 'project_id': 'user'},
        {'trustee_id': 'member', 'roles': ('climate', 'reader')},
    ],
)
def test_scope_that_differs_has_another_digest(other: dict[str, object]) -> None:
    assert dataclasses.replace(SCOPE, **other).digest != SCOPE.digest  # type: ignore[arg-type]
