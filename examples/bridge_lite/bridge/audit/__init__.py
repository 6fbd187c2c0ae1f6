"""The audit trail."""

from bridge.audit.audit_logger import AuditEvent, AuditLogger, LocalAuditLogger, PostgresAuditLogger

__all__ = ["AuditEvent", "AuditLogger", "LocalAuditLogger", "PostgresAuditLogger"]
