"""The conformance suite of the journal."""
