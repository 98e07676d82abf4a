# SPDX-License-Identifier: Apache-2.0
"""The limits of projects, which Keystone keeps, read through oslo.limit.

oslo.limit 2.12 (``oslo_limit/limit.py``) looks at two globals of its own while it makes an
``Enforcer``: the configuration, and one connection for the whole process. Both are set for that
moment, under a lock, so every service of a process has its own.

Its enforcers ask Keystone again for every name that has no limit of the project's own. Asked for
all names at once they make two calls: the limits of the project, and the default ones. They were
a third of what a create costs, so what they say is kept for a short time.
"""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any, Final

from keystoneauth1 import exceptions as ksa
from oslo_config import cfg
from oslo_log import log

from climate_core import exceptions
from climate_core.cloud.auth import RecentCache
from climate_core.conf import cloud as cloud_conf
from climate_core.conf import oslo_limit as conf_group
from climate_core.lease import limits

LOG = log.getLogger(__name__)

#: For so many seconds a limit that was lowered may still be what it was.
RECENT_SECONDS: Final = 10.0

_lock = threading.Lock()


class Limits:
    """The limits of projects. Nothing is sent before the first question.

    :param conf: with the section ``[oslo_limit]``
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf
        self._enforcer: Any = None
        size = conf.cloud.owner_cache_size
        self._recent: RecentCache[dict[str, int]] = RecentCache(size, RECENT_SECONDS)

    def of(self, project_id: str) -> dict[str, int]:
        """Return the limits of a project, by name; -1 is none.

        A name that is not registered has the limit 0, as oslo.limit has it.

        :raises climate_core.exceptions.ServiceUnavailable: Keystone does not answer, or the
            service is not set up for limits
        """
        with _translated():
            enforcer = self._enforcer = self._enforcer or self._make()
            most: dict[str, int] = dict(enforcer.get_registered_limits(None))
            most |= dict(enforcer.get_project_limits(project_id, None))
        found = {name: int(most.get(name, 0)) for name in limits.NAMES}
        self._recent.put(project_id, found)
        return found

    def recent(self, project_id: str) -> dict[str, int]:
        """Return the limits of a project as they were at most :data:`RECENT_SECONDS` ago.

        Ask :meth:`of` before a lease is refused for them.

        :raises climate_core.exceptions.ServiceUnavailable: as of :meth:`of`
        """
        return self._recent.get(project_id, lambda: self.of(project_id))

    def _make(self) -> Any:
        # The library registers options on the global configuration when it is imported.
        from oslo_limit import limit

        with _lock, _replaced_globals(limit, self._conf):
            return limit.Enforcer(_count_nothing, cache=False)


def _count_nothing(_project_id: str | None, _names: Any) -> dict[str, int]:
    """Refuse to count: oslo.limit only tells limits, and the transaction that writes counts."""
    raise NotImplementedError


@contextlib.contextmanager
def _replaced_globals(limit: Any, conf: cfg.ConfigOpts) -> Iterator[None]:
    section = conf[conf_group.GROUP]
    if section.auth_type is None and section.auth_section is None:
        conf.set_default('auth_section', cloud_conf.GROUP, conf_group.GROUP)
    before = limit.CONF, limit._SDK_CONNECTION
    limit.CONF, limit._SDK_CONNECTION = conf, None
    try:
        yield
    finally:
        limit.CONF, limit._SDK_CONNECTION = before


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    """Turn what comes from the way to Keystone, or from a wrong setup, into a 503."""
    # Here, as in _make: it imports openstacksdk, which nothing else does and takes 11 MiB.
    from openstack import exceptions as sdk
    from oslo_limit import exception

    try:
        yield
    except (ksa.ClientException, sdk.SDKException, exception.SessionInitError, ValueError) as exc:
        LOG.error('The limits of Keystone cannot be read, see [oslo_limit]: %s', exc)
        raise exceptions.ServiceUnavailable(
            'The limits of the project cannot be read now. Try again.'
        ) from exc
