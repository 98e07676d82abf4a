# SPDX-License-Identifier: Apache-2.0
"""climate-nova-compute: nova-compute that can hold reserved servers, and fails closed.

Takes the same arguments and reads the same nova.conf. Unlike the notification driver it cannot
silently be a stock nova-compute: if the extension cannot work, it does not start.
"""

import sys

# Chooses the threading model of nova: before anything else of nova is imported.
from nova.cmd import compute

from climateclient.extension.errors import Incompatible
from nova_ext import enable


def main() -> None:
    """Run nova-compute with the extension."""
    try:
        enable.enable_service()
    except Incompatible as error:
        sys.exit(f'climate-nova-compute: {error}')
    compute.main()
