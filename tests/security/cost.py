# SPDX-License-Identifier: Apache-2.0
"""Bound the CPU seconds and the memory that this process spends on a request."""

import contextlib
import gc
import pathlib
import time
from collections.abc import Iterator

_SELF = pathlib.Path('/proc/self')
#: Writing it to clear_refs resets VmHWM to VmRSS (proc(5)).
_RESET_PEAK = '5'


@contextlib.contextmanager
def bounded(cpu_seconds: float, mebibytes: float) -> Iterator[None]:
    """Fail if what runs here takes more CPU or raises the peak of the resident memory by more.

    Both count all threads of this process, so nothing else may run beside.

    :param cpu_seconds: user and system time
    :param mebibytes: growth of the peak of the resident set
    :raises AssertionError: a bound is exceeded; it names both figures
    """
    gc.collect()
    (_SELF / 'clear_refs').write_text(_RESET_PEAK)
    memory, cpu = _status('VmRSS'), time.process_time()
    yield
    spent, grown = time.process_time() - cpu, _status('VmHWM') - memory
    figures = f'{spent:.2f} s of CPU, {grown:.1f} MiB'
    assert spent <= cpu_seconds, f'{figures}: at most {cpu_seconds} s are allowed'
    assert grown <= mebibytes, f'{figures}: at most {mebibytes} MiB are allowed'


def _status(name: str) -> float:
    """Return a field of this process's status in MiB."""
    for line in (_SELF / 'status').read_text().splitlines():
        key, _, value = line.partition(':')
        if key == name:
            return int(value.split()[0]) / 1024
    raise LookupError(name)
