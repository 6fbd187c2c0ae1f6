"""Limits: the port's contract, and what users of ``Limits`` rely on."""
