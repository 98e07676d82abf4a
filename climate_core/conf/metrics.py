# SPDX-License-Identifier: Apache-2.0
"""Options of the metrics that a manager serves: section ``[metrics]``."""

from oslo_config import cfg

GROUP = 'metrics'

OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        'listen',
        sample_default='127.0.0.1:9464',
        help='Address and port on which climate-manager answers GET /metrics in the text format '
        'of Prometheus; an IPv6 address in brackets. Unset: it does not. It asks for no '
        'credentials: choose an address that only the monitoring reaches.',
    ),
    cfg.FloatOpt(
        'overdue_seconds',
        default=30.0,
        min=1.0,
        help='An event that nobody has taken up so many seconds after its time is overdue.',
    ),
    cfg.FloatOpt(
        'database_seconds',
        default=10.0,
        min=0.0,
        help='What is counted in the database is counted again after so many seconds at the '
        'earliest, however often the metrics are read.',
    ),
]
