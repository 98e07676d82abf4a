# SPDX-License-Identifier: Apache-2.0
"""Named points in the handling of an event, at which a test can wait, inspect or kill.

They cost one comparison. Nothing in production installs a hook.

``event.claimed``, ``remote.before``, ``remote.after``, ``finish.before``, ``finish.after``,
``outbox.before``, ``outbox.after``, ``webhook.before``, ``webhook.after``, ``preparation.before``,
``preparation.after``;
and ``make.after``, when a resource was created for a lease that is not saved yet.
"""

from collections.abc import Callable
from typing import Any

Hook = Callable[[str, dict[str, Any]], None]

_hook: Hook | None = None


def install(hook: Hook | None) -> None:
    """Install ``hook(name, info)``, which is called at every point; None removes it."""
    global _hook
    _hook = hook


def reached(name: str, **info: Any) -> None:
    """Call the hook, if there is one, at a point."""
    if _hook is not None:
        _hook(name, info)
