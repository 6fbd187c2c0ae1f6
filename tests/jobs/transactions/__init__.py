"""Enqueuing in a caller's own transaction, by every driver."""
