"""Numbers of the server for Prometheus, in a registry of the app.

Labels are names of routes and dialects, never paths: the number of series is bounded whatever clients send.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


@dataclass(frozen=True)
class Reading:
    """Values that are read when they are asked for, by the value of a label; without a label it is "".

    `counts`: they only grow.
    """

    name: str
    help: str
    read: Callable[[], Mapping[str, float]]
    label: str = ""
    counts: bool = False

    def family(self) -> Metric:
        kind = CounterMetricFamily if self.counts else GaugeMetricFamily
        found = kind(f"nearmt_{self.name}", self.help, labels=[self.label] if self.label else [])
        for value, number in self.read().items():
            found.add_metric([value] if self.label else [], number)
        return found


@dataclass
class Metrics:
    """Counters and histograms of requests, and values that are read from the parts of the server."""

    registry: CollectorRegistry = field(default_factory=lambda: CollectorRegistry(auto_describe=True))

    def __post_init__(self) -> None:
        labels = ("dialect", "route")
        self._seconds = Histogram(
            "nearmt_request_seconds", "Seconds of a request.", labels, buckets=_SECONDS, registry=self.registry
        )
        self._requests = self._counter("requests", "Answered requests.", (*labels, "status"))
        self._errors = self._counter("errors", "Requests that ended in an error.", ("type",))
        self._cancelled = self._counter("cancelled", "Requests whose client did not wait.")

    def request(self, dialect: str, route: str, status: int, seconds: float) -> None:
        self._seconds.labels(dialect, route).observe(seconds)
        self._requests.labels(dialect, route, str(status)).inc()

    def error(self, kind: str) -> None:
        self._errors.labels(kind).inc()

    def cancelled(self) -> None:
        self._cancelled.inc()

    def watch(self, readings: Sequence[Reading]) -> None:
        self.registry.register(_Readings(readings))

    def text(self) -> bytes:
        return generate_latest(self.registry)

    def _counter(self, name: str, help: str, labels: tuple[str, ...] = ()) -> Counter:
        return Counter(f"nearmt_{name}", help, labels, registry=self.registry)


class _Readings(Collector):
    def __init__(self, readings: Sequence[Reading]) -> None:
        self._readings = readings

    def collect(self) -> Iterator[Metric]:
        return (reading.family() for reading in self._readings)
