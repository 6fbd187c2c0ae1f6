"""Sentinel: an operations console with accounts, targets and schedules. An example of Interlock.

Start with :func:`sentinel.factory.create_console`. The README says how the parts map to Interlock.
"""
