# SPDX-License-Identifier: Apache-2.0
"""The checks of ``climate-status``, which run on any configuration, even with invalid options."""

from collections.abc import Callable, Iterable

import oslo_messaging as messaging
import sqlalchemy as sa
from oslo_config import cfg
from oslo_upgradecheck import upgradecheck

from climate_core.cmd import startup_errors

#: The errors for an option with an invalid value.
_INVALID = (cfg.Error, sa.exc.ArgumentError)


class Checks(upgradecheck.UpgradeCommands):
    """Checks of the installation. The first one is that of its configuration files.

    :param conf: the configuration of the services
    :param checks: the name of each check, and a function without parameters that runs it
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        checks: Iterable[tuple[str, Callable[[], upgradecheck.Result]]],
    ) -> None:
        super().__init__()
        self.conf = conf
        rows = (('Configuration files', self._check_files), *checks)
        self._upgrade_checks = tuple(
            (name, (_run_check, {'check': check})) for name, check in rows
        )

    def _check_files(self) -> upgradecheck.Result:
        """Warn if no file was read: then the checks see the defaults."""
        missing = startup_errors.describe_missing_file(self.conf)
        if missing:
            return upgradecheck.Result(
                upgradecheck.Code.WARNING, f'{missing} The checks used the defaults.'
            )
        files = ', '.join(startup_errors.list_files(self.conf))
        return upgradecheck.Result(upgradecheck.Code.SUCCESS, f'Read: {files}')


def _run_check(checks: Checks, check: Callable[[], upgradecheck.Result]) -> upgradecheck.Result:
    """Return the result of a check: a failure if an option that it needs is invalid."""
    try:
        return check()
    except _INVALID as exc:
        reason = startup_errors.describe_error(checks.conf, exc)
        return upgradecheck.Result(upgradecheck.Code.FAILURE, reason)


def parse_transport(conf: cfg.ConfigOpts, option: str, url: str) -> messaging.TransportURL:
    """Parse the URL of a message bus.

    :raises oslo_config.cfg.Error: it is invalid
    """
    try:
        return messaging.TransportURL.parse(conf, url)
    except (ValueError, messaging.InvalidTransportURL) as exc:
        raise cfg.Error(
            f'{option} is invalid ({exc}): must be rabbit://USER:PASSWORD@HOST:PORT/VHOST'
        ) from exc
