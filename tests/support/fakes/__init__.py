# SPDX-License-Identifier: Apache-2.0
"""A cloud that keeps a journal, for tests that must count effects. Never for the demo."""
