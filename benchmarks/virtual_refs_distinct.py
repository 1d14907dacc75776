"""1,000,000 virtual references, each to a file of its own."""

from benchmarks.virtual_refs import scan, scan_locations, write_distinct

STAGES = {"write": write_distinct, "scan": scan, "scan_locations": scan_locations}
