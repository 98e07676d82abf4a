# SPDX-License-Identifier: Apache-2.0
"""Files of gabbi: each is a sequence of requests to a service of its own."""

import pathlib
import unittest
import uuid
from typing import Any

from gabbi import handlers, suitemaker, utils

HERE = pathlib.Path(__file__).parent / 'gabbits'
HANDLERS = [handler() for handler in handlers.RESPONSE_HANDLERS]


def run_file(file: pathlib.Path, application: Any) -> None:
    """Send the requests of a file, and check the answers."""
    suite = suitemaker.test_suite_from_dict(
        unittest.TestLoader(),
        file.stem,
        utils.load_yaml(yaml_file=str(file)),
        str(HERE),
        str(uuid.uuid4()),
        8001,
        None,
        lambda: application,
        handlers=HANDLERS,
        test_loader_name='gabbits',
    )
    result = unittest.TestResult()
    suite.run(result)
    bad = [
        *result.failures,
        *result.errors,
        *((test, 'passed') for test in result.unexpectedSuccesses),
    ]
    assert not bad, '\n'.join(f'{test}\n{why}' for test, why in bad)
    assert result.testsRun
    assert not result.skipped
