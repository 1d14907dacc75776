"""Test kit for those who build on frazil: suites that any implementation of an interface passes."""
