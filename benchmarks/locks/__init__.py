"""Locks compared with PostgreSQL advisory locks, filelock, asyncio.Lock and Redis locks."""
