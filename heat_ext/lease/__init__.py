# SPDX-License-Identifier: Apache-2.0
"""What a template says of a lease, and what a change of it asks for."""
