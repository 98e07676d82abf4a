# SPDX-License-Identifier: Apache-2.0
"""The report of nova-compute about itself to nova-scheduler, in the stats of its nodes."""

#: Set where the extension is enabled: this host can hold reserved servers.
RESERVES = 'climate_reservation'
