# SPDX-License-Identifier: Apache-2.0
"""The properties of a lease in a template, and the changes that an update of them requires."""
