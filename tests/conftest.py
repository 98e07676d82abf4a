# SPDX-License-Identifier: Apache-2.0
"""How Hypothesis judges: not by the time that something takes, for other suites run beside."""

import hypothesis

hypothesis.settings.register_profile(
    'climate', deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile('climate')
