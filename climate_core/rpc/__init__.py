# SPDX-License-Identifier: Apache-2.0
"""How climate-api calls climate-manager, over oslo.messaging."""
