"""Tests of the journal: sealing, verification, retention."""
