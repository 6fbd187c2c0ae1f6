"""Cursors: the port's contract, and what users of ``Cursors`` rely on."""
