# SPDX-License-Identifier: Apache-2.0
"""The limits of projects.

The limits are those registered in Keystone, read through oslo.limit, and the options.

oslo.limit 2.12 (``oslo_limit/limit.py``) reads two of its globals when it creates an ``Enforcer``:
the configuration, and one connection for the whole process. Both are replaced for that moment,
under a lock, so every service of a process has its own.

Its enforcers send another request for every name without a limit of the project. For all names
together they send two: for the limits of the project, and for the default limits. These took a
third of the time of a create, so the limits are cached for a short time.
"""

import contextlib
import threading
from collections.abc import Iterator, Mapping
from typing import Any, Final

from keystoneauth1 import exceptions as ksa
from keystoneauth1 import loading
from oslo_config import cfg
from oslo_log import log

from climate_core import exceptions
from climate_core.cloud import errors
from climate_core.cloud.connections import Cloud
from climate_core.cloud.services import Service
from climate_core.concurrency import RecentCache
from climate_core.conf import cloud as cloud_conf
from climate_core.conf.limits import TIME_LIMITS
from climate_core.db.project_limits import NAMES, UNLIMITED

LOG = log.getLogger(__name__)

#: Seconds for which a lowered limit may still have its old value.
RECENT_SECONDS: Final = 10.0

#: Number of seconds until a newly registered limit may be used, if none was registered before.
REGISTERED_SECONDS: Final = 300.0

#: The names that Keystone may have.
_REGISTERED: Final = (*NAMES, *TIME_LIMITS)
_KEYSTONE = Service('Keystone', 'identity', '3')
_ROWS = 'registered_limits'
_PATH = f'/{_ROWS}'
_lock = threading.Lock()


class Limits:
    """The limits of projects. Nothing is sent before the first use.

    :param conf: with the sections ``[limits]``, ``[oslo_limit]`` and ``[cloud]``
    :param cloud: gives the connection of the service user
    """

    def __init__(self, conf: cfg.ConfigOpts, cloud: Cloud) -> None:
        self._conf = conf
        self._cloud = cloud
        self._enforcer: Any = None
        size = conf.cloud.owner_cache_size
        self._recent: RecentCache[dict[str, int]] = RecentCache(size, RECENT_SECONDS)
        self._registered: RecentCache[bool] = RecentCache(1, REGISTERED_SECONDS)

    @property
    def is_on(self) -> bool:
        """Return whether projects may have limits."""
        return str(self._conf.limits.driver) != 'none'

    def read_limits(self, project_id: str) -> Mapping[str, int] | None:
        """Return the limits of a project by name, where -1 is unlimited; None: no limits.

        Those of :data:`.TIME_LIMITS` are among them if they are registered in Keystone.

        :raises climate_core.exceptions.ServiceUnavailable: Keystone does not answer, or the
            configuration of the limits is invalid
        """
        if not self.is_on:
            return None
        if not self._has_registered():
            return self._configured()
        with _translated():
            enforcer = self._enforcer = self._enforcer or self._create_enforcer()
            registered: dict[str, int] = dict(enforcer.get_registered_limits(None))
            registered |= dict(enforcer.get_project_limits(project_id, None))
        project_limits = self._options() | {
            name: int(registered[name]) for name in _REGISTERED if name in registered
        }
        self._recent.put(project_id, project_limits)
        return project_limits

    def recent(self, project_id: str) -> Mapping[str, int] | None:
        """Return the limits of a project, at most :data:`RECENT_SECONDS` old.

        Call :meth:`read_limits` before a lease is rejected for them.

        :raises climate_core.exceptions.ServiceUnavailable: as of :meth:`read_limits`
        """
        return self._recent.find(project_id) or self.read_limits(project_id)

    def _options(self) -> dict[str, int]:
        return {name: self._conf.limits[name] for name in NAMES}

    def _configured(self) -> dict[str, int] | None:
        options = self._options()
        return options if set(options.values()) != {UNLIMITED} else None

    def _has_registered(self) -> bool:
        """Return whether oslo.limit has limits for Climate.

        It has if an identity is configured in ``[oslo_limit]``. Otherwise one request checks
        whether any limit of Climate is registered, and the answer is cached for
        :data:`REGISTERED_SECONDS`. Any user may list the registered limits, but only some may list
        the endpoints, which oslo.limit requests.
        """
        if self._conf.limits.driver != 'keystone':
            return False
        if _has_identity(self._conf[cloud_conf.OSLO_LIMIT_GROUP]):
            return True
        if not _has_identity(self._conf[cloud_conf.GROUP]):
            return False
        return self._registered.get('', self._list_registered)

    def _list_registered(self) -> bool:
        try:
            rows = list(_KEYSTONE.read(self._cloud.service(), _PATH, _ROWS))
        except (errors.Gone, exceptions.Permanent) as exc:
            LOG.warning('Registered limits are not readable, [limits] applies instead: %s', exc)
            return False
        except exceptions.Transient as exc:
            raise _unavailable(exc) from exc
        return any(row.get('resource_name') in _REGISTERED for row in rows)

    def _create_enforcer(self) -> Any:
        # The library registers options on the global configuration when it is imported.
        from oslo_limit import limit

        with _lock, _replaced_globals(limit, self._conf):
            return limit.Enforcer(_count_nothing, cache=False)


def _count_nothing(_project_id: str | None, _names: Any) -> dict[str, int]:
    """Raise: only limits are read from oslo.limit, and the transaction of the lease counts."""
    raise NotImplementedError


@contextlib.contextmanager
def _replaced_globals(limit: Any, conf: cfg.ConfigOpts) -> Iterator[None]:
    section = conf[cloud_conf.OSLO_LIMIT_GROUP]
    if not _has_identity(section):
        conf.set_default('auth_section', cloud_conf.GROUP, cloud_conf.OSLO_LIMIT_GROUP)
        # auth_section is about the identity, not about the CA certificates of its Keystone.
        for option in loading.get_session_conf_options():
            conf.set_default(option.dest, conf.cloud[option.dest], cloud_conf.OSLO_LIMIT_GROUP)
    before = limit.CONF, limit._SDK_CONNECTION
    limit.CONF, limit._SDK_CONNECTION = conf, None
    try:
        yield
    finally:
        limit.CONF, limit._SDK_CONNECTION = before


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    """Turn failures to reach Keystone, and invalid configurations, into a 503."""
    # Imported here, as in _create_enforcer: nothing else imports openstacksdk, which takes 11 MiB.
    from openstack import exceptions as sdk
    from oslo_limit import exception

    try:
        yield
    except (ksa.ClientException, sdk.SDKException, exception.SessionInitError, ValueError) as exc:
        raise _unavailable(exc) from exc


def _unavailable(exc: Exception) -> exceptions.ServiceUnavailable:
    LOG.error('The limits of Keystone cannot be read, see [oslo_limit]: %s', exc)
    return exceptions.ServiceUnavailable(
        'The limits of the project cannot be read now. Try again.'
    )


def _has_identity(section: Any) -> bool:
    return section.auth_type is not None or section.auth_section is not None
