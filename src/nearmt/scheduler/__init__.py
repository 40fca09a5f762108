"""Continuous batching: sentences of all requests share running beam searches. Knows no HTTP."""

from nearmt.scheduler.errors import Cancelled, DeadlineExceeded, QueueFull, Stopped
from nearmt.scheduler.scheduler import Scheduler, SchedulerConfig
from nearmt.scheduler.tickets import Priority, Ticket

__all__ = [
    "Cancelled",
    "DeadlineExceeded",
    "Priority",
    "QueueFull",
    "Scheduler",
    "SchedulerConfig",
    "Stopped",
    "Ticket",
]
