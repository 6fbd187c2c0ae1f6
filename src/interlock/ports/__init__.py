"""Small protocols between the concepts and the stores, each with its contract in full.

A store offers them; the conformance suite in ``interlock.testing`` checks that it keeps them.
"""
