"""The base class of the metric collectors.

To type checkers it is prometheus_client's own, which ``CollectorRegistry.register`` asks for. At run time a registry
needs nothing but a ``collect`` method, so counting works without prometheus_client and importing Interlock does not
load it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["Collector"]

if TYPE_CHECKING:
    from prometheus_client.registry import Collector
else:
    Collector = object
