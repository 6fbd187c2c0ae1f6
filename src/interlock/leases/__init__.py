"""Shared lease machinery: renewal, waiting, loss and cleanup, for locks, claims and limits alike."""
