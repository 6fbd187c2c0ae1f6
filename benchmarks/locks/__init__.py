"""Locks against PostgreSQL's advisory locks, filelock and asyncio.Lock."""
