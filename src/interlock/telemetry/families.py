"""The Prometheus metric families, imported when metrics are collected: ``interlock[metrics]`` provides them."""

from __future__ import annotations

from interlock.errors import MisuseError

__all__ = ["CounterMetricFamily", "GaugeMetricFamily", "HistogramMetricFamily"]

try:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
except ModuleNotFoundError as error:
    raise MisuseError(
        f"Collecting metrics requires the package {error.name}, which is not installed.",
        remedy="Run: pip install 'interlock[metrics]'.",
    ) from error
