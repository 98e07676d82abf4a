# SPDX-License-Identifier: Apache-2.0
"""Operations on leases that users request: build, quota, provision, persist, and dry run."""
