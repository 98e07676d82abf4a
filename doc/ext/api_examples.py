# SPDX-License-Identifier: Apache-2.0
"""The directives ``climate-error-examples`` and ``climate-example``, and the examples of calls.

``doc/api_examples/capture.py`` captures them from the local cloud."""

import functools
import http
import json
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from generated import Generated
from sphinx.application import Sphinx

FOLDER = pathlib.Path(__file__).resolve().parents[1] / 'api_examples'
#: What the names of the files of errors start with.
ERROR = 'error.'

Example = Mapping[str, Any]


class ErrorExamples(Generated):
    """Write the requests that fail here, with their responses."""

    def write(self) -> Iterator[str]:
        for name, example in load().items():
            if name.startswith(ERROR):
                yield from (f'``{example["response_body"]["error_name"]}``:', '', *show(example))


class OneExample(Generated):
    """Write the ``request`` or the ``response`` of an example here: its name, and which."""

    required_arguments = 2

    def write(self) -> Iterator[str]:
        name, part = self.arguments
        return {'request': _request, 'response': _response}[part](load()[name])


@functools.cache
def load() -> Mapping[str, Example]:
    """Return the examples by their names; those of errors in the order of their statuses."""
    read = {
        path.stem: json.loads(path.read_text(encoding='utf-8'))
        for path in sorted(FOLDER.glob('*.json'))
    }
    return dict(
        sorted(read.items(), key=lambda item: (item[1]['status'] >= 400, item[1]['status']))
    )


def of_call(method: str, path: str) -> list[Example]:
    """Return the examples of a call that succeeds."""
    return [
        example
        for name, example in load().items()
        if (example['method'], example['path']) == (method, path) and not name.startswith(ERROR)
    ]


def show(example: Example) -> Iterator[str]:
    """Write an example as blocks of HTTP: the request, and the response."""
    yield from _request(example)
    yield from _response(example)


def _request(example: Example) -> Iterator[str]:
    headers = example['request_headers']
    if example['token']:
        headers = {'X-Auth-Token': '$TOKEN', **headers}
    first = f'{example["method"]} {example["url"]} HTTP/1.1'
    return _message(first, headers, example['request_body'])


def _response(example: Example) -> Iterator[str]:
    status = http.HTTPStatus(example['status'])
    first = f'HTTP/1.1 {status.value} {status.phrase}'
    return _message(first, example['response_headers'], example['response_body'])


def _message(first: str, headers: Mapping[str, str], body: Any) -> Iterator[str]:
    lines = [first, *(f'{name}: {value}' for name, value in headers.items())]
    if isinstance(body, str):
        lines += ['Content-Type: text/calendar', '', *body.splitlines()]
    elif body is not None:
        shown = json.dumps(body, indent=2, ensure_ascii=False)
        lines += ['Content-Type: application/json', '', *shown.splitlines()]
    yield from ('.. code-block:: http', '')
    yield from (f'   {line}'.rstrip() for line in lines)
    yield ''


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive (called by Sphinx)."""
    app.add_directive('climate-error-examples', ErrorExamples)
    app.add_directive('climate-example', OneExample)
    return {'parallel_read_safe': True, 'parallel_write_safe': True}
