"""Benchmarks of Interlock and its peers in one run: ``make bench``."""
