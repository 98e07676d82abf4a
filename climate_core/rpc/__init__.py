# SPDX-License-Identifier: Apache-2.0
"""The RPC between climate-api and climate-manager, over oslo.messaging."""
