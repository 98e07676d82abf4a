# SPDX-License-Identifier: Apache-2.0
"""The commands of python-openstackclient. Its start loads every command's module: keep the
imports of these modules light."""
