# SPDX-License-Identifier: Apache-2.0
from climate_core.lease import states
from climateclient.extension import leases
from climateclient.osc import listing, reservation


def test_statuses_of_the_client_are_those_of_the_service() -> None:
    assert {*listing.STATUSES} == {*states.LeaseStatus}
    assert {*leases.JOINABLE} <= {*states.LeaseStatus}
    assert {*reservation.LIVE} <= {*states.ReservationStatus}
