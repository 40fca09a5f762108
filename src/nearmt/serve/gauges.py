"""Values for /metrics that are read from the parts of the server."""

from __future__ import annotations

from collections.abc import Mapping

from nearmt.serve.metrics import Reading
from nearmt.serve.service import Service
from nearmt.serve.values import Statistics
from nearmt.serve.workers import Workers


def readings(service: Service, workers: Workers) -> list[Reading]:
    """Queues, the running batch, memories, jobs, and what was translated."""

    def now() -> Statistics:
        return service.translation.counts.statistics(service.scheduler)

    def requests() -> Mapping[str, float]:
        return {"running": workers.running, "waiting": workers.waiting}

    def sentences() -> Mapping[str, float]:
        return {"running": service.scheduler.running, "queued": service.scheduler.queued}

    def jobs() -> Mapping[str, float]:
        counts = service.jobs.counts
        return {"running": counts["running"], "queued": counts["queued"]}

    memories = service.memories
    return [
        Reading("requests_now", "Requests that are worked on, and that wait for a thread.", requests, "state"),
        Reading("sentences_now", "Sentences in the running batches, and that wait.", sentences, "state"),
        Reading("slots", "Sentences that can run at a time.", lambda: {"": service.scheduler.slots}),
        Reading("jobs_now", "Background jobs that are not finished.", jobs, "state"),
        Reading("memories_open", "Memories that are open.", lambda: {"": len(memories.open_bytes)}),
        Reading("memories_open_bytes", "Size of those.", lambda: {"": sum(memories.open_bytes.values())}),
        Reading("texts", "Translated texts.", lambda: now().by_origin, "origin", counts=True),
        Reading("searches", "Searches in memories.", lambda: {"": now().searches}, counts=True),
        Reading("searches_missed", "Searches that no index answered.", lambda: {"": now().missed}, counts=True),
        Reading("steps", "Decoding steps.", lambda: {"": now().steps}, counts=True),
        Reading("timer_seconds", "Seconds of running batches.", lambda: now().timers, "timer", counts=True),
    ]
