# SPDX-License-Identifier: Apache-2.0
"""What users ask of leases: build, quota, provision, persist, and a dry run of them."""
