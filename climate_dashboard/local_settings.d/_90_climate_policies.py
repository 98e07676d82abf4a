# SPDX-License-Identifier: Apache-2.0
# Horizon reads this file with its own settings: which rules the lease service has, so that
# actions which a user may not do are not shown. The service's own policy.yaml goes in place of
# the first file.

from openstack_dashboard.defaults import DEFAULT_POLICY_FILES, POLICY_FILES

from climate_dashboard import policy_files

policy_files.add(POLICY_FILES, DEFAULT_POLICY_FILES)
