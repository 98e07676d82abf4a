# SPDX-License-Identifier: Apache-2.0
"""Operations on leases that users ask for: build, quota, provision, persist, and dry run."""
