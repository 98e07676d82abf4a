# SPDX-License-Identifier: Apache-2.0

import sys

from climate_core.cmd.manage import main

sys.exit(main())
