# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.bench.reading``: what reading leases costs the API, without a WSGI server.

The application runs in this process, with a MariaDB of the bench's own; it asks no Keystone.
"""

import argparse
import datetime
import functools
import gc
import os
import pathlib
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence

import webob
from oslo_config import cfg

from climate_core import conf as configuration
from climate_core.api import app
from climate_core.db import migration
from tests.bench import climate_rows
from tests.bench.cloud import PROJECT_ID, USER
from tests.bench.processes import Processes, run_in_directory
from tests.bench.servers import MariaDB

CONFIG = """\
[DEFAULT]
transport_url = fake://
state_path = {state}

[api]
auth_strategy = noauth

[database]
connection = {database}
"""
HEADERS = {'X-User-Id': f'{USER}-id', 'X-Project-Id': PROJECT_ID, 'X-Roles': 'member,reader'}
WARM_UP = 5


def measure(options: argparse.Namespace, directory: pathlib.Path) -> None:
    """Write the leases, and print what each way of reading them costs."""
    with Processes(directory) as running:
        database = MariaDB(running).create('climate')
        file = directory / 'climate.conf'
        file.write_text(CONFIG.format(state=directory, database=database))
        conf = configuration.load(config_files=[str(file)])
        migration.upgrade(conf)
        start = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=100)
        climate_rows.seed(database, options.leases, start, 1)
        report(conf, options.times)


def report(conf: cfg.ConfigOpts, times: int) -> None:
    """Print a line for each kind of request."""
    ask = functools.partial(_ask, app.load_application(conf))
    # As climate_core.wsgi.api does.
    gc.collect()
    gc.freeze()
    lease = ask('/v1/leases?limit=1').json['leases'][0]
    one = f'/v1/leases/{lease["id"]}'
    print(f'{datetime.date.today()}, load average {os.getloadavg()[0]:.1f}')
    for path in (one, '/v1/leases?limit=100', '/v1/leases', '/v1/leases?fields=id,name,status'):
        _print(path.replace(lease['id'], 'ID'), functools.partial(ask, path), times)
    tag = ask(one).headers['ETag']
    known = functools.partial(ask, one, {'If-None-Match': tag})
    _print(f'/v1/leases/ID again: {known().status_int}', known, times)


def _ask(
    application: Callable[..., object], path: str, headers: Mapping[str, str] | None = None
) -> webob.Response:
    request = webob.Request.blank(path, headers={**HEADERS, **(headers or {})})
    return request.get_response(application)


def _print(name: str, function: Callable[[], webob.Response], times: int) -> None:
    for _ in range(WARM_UP):
        function()
    spent, cpu = [], []
    for _ in range(times):
        began, used = time.perf_counter(), time.process_time()
        answer = function()
        size = len(answer.body)
        spent.append((time.perf_counter() - began) * 1000)
        cpu.append((time.process_time() - used) * 1000)
    print(
        f'{name:34} {size:8} B  CPU {statistics.median(cpu):6.2f} ms (least {min(cpu):6.2f})  '
        f'p50 {statistics.median(spent):6.2f} ms'
    )


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog='python -m tests.bench.reading', description=__doc__)
    parser.add_argument('--leases', type=int, default=1000)
    parser.add_argument('--times', type=int, default=50, help='each request')
    return run_in_directory(functools.partial(measure, parser.parse_args(argv)))


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
