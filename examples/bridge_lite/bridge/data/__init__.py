"""Where intents are kept."""

from bridge.data.postgres_bridge import PostgresDataBridge

__all__ = ["PostgresDataBridge"]
