# SPDX-License-Identifier: Apache-2.0
"""``python -m climate_cloud``: the commands of the local cloud."""

import sys

from climate_cloud import cli

sys.exit(cli.main())
