"""Locks: the port's contract, what users of ``Locks`` rely on, and what holds between processes."""
