# SPDX-License-Identifier: Apache-2.0
"""The keys that protect what users entrust to Climate, in its database."""

from typing import Any

from oslo_config import cfg, types

from climate_common import resource_types, sealing

GROUP = resource_types.SERVER


class _Key(types.String):  # type: ignore[misc]
    """A key; the error does not repeat it."""

    def __call__(self, value: Any) -> str:
        key: str = super().__call__(value)
        sealing.check_keys([key])
        return key


KEYS = cfg.ListOpt(
    'secret_keys',
    item_type=_Key(),
    default=[],
    secret=True,
    help='Keys that protect what users entrust to the database: user data, admin passwords and '
    'metadata of servers and volumes that are created for leases, and URLs and secrets of '
    'webhooks. Each is 32 bytes in URL-safe base64 (python -c "from cryptography.fernet import '
    'Fernet as F; print(F.generate_key().decode())"). The first encrypts, all decrypt; every '
    'climate-api and climate-manager needs the same. With no key user data and admin passwords '
    'are rejected, and the rest is stored in plain text. "climate-manage secrets check" reports '
    'the number of secrets for each key.',
)


def register_keys(conf: cfg.ConfigOpts) -> None:
    """Register the option; the plugin of servers, which has it, may not be enabled."""
    conf.register_opt(KEYS, group=GROUP)


def read_keys(conf: cfg.ConfigOpts) -> list[str]:
    """Return the keys.

    :raises oslo_config.cfg.Error: one is no key
    """
    try:
        keys: list[str] = conf[GROUP].secret_keys
    except cfg.ConfigFileValueError as exc:
        raise cfg.Error(
            f'[{GROUP}] secret_keys: a key is invalid: each must be 32 bytes in URL-safe base64'
        ) from exc
    return keys
