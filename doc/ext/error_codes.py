# SPDX-License-Identifier: Apache-2.0
"""The directive ``climate-errors``: a table of every error of the API, from the code."""

from collections.abc import Iterator
from typing import Any

from generated import Generated, list_table
from sphinx.application import Sphinx

from climate_core.api import errors


class Errors(Generated):
    """Write the table here."""

    def write(self) -> Iterator[str]:
        rows = [('Status', '``error_name``', 'Cause', 'Cure')]
        rows += [(str(status), f'``{code}``', *text) for status, code, *text in errors.codes()]
        return list_table('', '6 26 33 35', rows)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive (called by Sphinx)."""
    app.add_directive('climate-errors', Errors)
    return {'parallel_read_safe': True, 'parallel_write_safe': True}
