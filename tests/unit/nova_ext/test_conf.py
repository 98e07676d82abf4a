# SPDX-License-Identifier: Apache-2.0
"""The section [climate] of nova.conf."""

import datetime

from oslo_config import cfg

from nova_ext import conf


def test_options_have_their_defaults():
    config = cfg.ConfigOpts()
    conf.register(config)
    conf.register(config)
    config([])
    rules = conf.rules(config)
    assert (rules.start, rules.length) == ('now', datetime.timedelta(days=30))
    assert config.climate.service_type == 'reservation'
    assert config.climate.timeout == 30
    assert (config.climate.connect_retries, config.climate.status_code_retries) == (3, 3)


def test_reservation_length_is_the_sum_of_its_options():
    config = cfg.ConfigOpts()
    conf.register(config)
    config([])
    for name, value in [('days', 0), ('hours', 2), ('minutes', 5)]:
        config.set_override(f'reservation_length_{name}', value, conf.GROUP)
    assert conf.rules(config).length == datetime.timedelta(minutes=125)


def test_every_option_is_in_the_sample_with_a_help():
    ((group, options),) = conf.list_opts()
    assert group == 'climate'
    assert {'endpoint_override', 'stash_keys', 'cafile'} <= {option.dest for option in options}
    assert all(option.help for option in conf.OPTS)
