# SPDX-License-Identifier: Apache-2.0
"""The calendar: what is promised of which unit, and when.

A unit is whatever has capacity for a time: a host, a floating IP, a network segment. Nothing here
knows what a unit is beyond its capacity and the properties that a demand looks at. Searching is
pure; the index in memory is only a cache, and the generation of a unit in the database is the last
judge that nothing is promised twice.
"""
