# SPDX-License-Identifier: Apache-2.0
"""What is done for each request, one module per noun."""
