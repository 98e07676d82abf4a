# SPDX-License-Identifier: Apache-2.0
"""The panel Calendar of Hosts: which lease has which host when."""
