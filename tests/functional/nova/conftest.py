# SPDX-License-Identifier: Apache-2.0
"""Nova's own functional fixtures, run by pytest.

``nova.tests.functional`` has to be the first part of nova that is imported: it chooses the
threading model.
"""

import nova.tests.functional  # noqa: F401
