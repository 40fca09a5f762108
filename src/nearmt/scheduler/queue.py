"""Tasks that wait, by lane and priority; clients take turns."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Sequence

from nearmt.models import TranslationModel
from nearmt.scheduler.errors import QueueFull, Stopped
from nearmt.scheduler.tickets import Lane, Priority, Task


class FairQueue:
    """Thread-safe. Every worker takes its share of what waits, so that none works alone."""

    def __init__(self, limit: int, workers: int) -> None:
        """`limit` bounds the interactive tasks that wait; bulk requests wait for room themselves."""
        self._limit, self._workers = limit, workers
        self._waiting: dict[Lane, OrderedDict[str, deque[Task]]] = {}
        self._count = dict.fromkeys(Priority, 0)
        self._closed = False
        self.changed = threading.Condition()

    def __len__(self) -> int:
        return sum(self._count.values())

    def put(self, tasks: Sequence[Task]) -> None:
        """Add the tasks of one request."""
        with self.changed:
            if self._closed:
                raise Stopped("the server is stopping and takes no new work")
            priority = tasks[0].ticket.priority
            if priority is Priority.INTERACTIVE and self._count[priority] + len(tasks) > self._limit:
                raise QueueFull(f"{self._count[priority]} sentences wait already; try again in a moment")
            for task in tasks:
                clients = self._waiting.setdefault(task.lane, OrderedDict())
                clients.setdefault(task.ticket.client, deque()).append(task)
            self._count[priority] += len(tasks)
            self.changed.notify_all()

    def take(self, lane: Lane, most: int) -> list[Task]:
        """Up to `most` tasks of a lane that are still wanted, of each client in turn, and no more than a worker's
        share."""
        with self.changed:
            waiting = sum(map(len, self._waiting.get(lane, {}).values()))
            most = min(most, -(-waiting // self._workers))
            tasks: list[Task] = []
            while len(tasks) < most and (task := self._next(lane)) is not None:
                if task.wanted:
                    tasks.append(task)
            return tasks

    def lanes(self) -> dict[Lane, TranslationModel]:
        """Lanes with tasks that wait, and the model of each."""
        with self.changed:
            return {lane: next(iter(clients.values()))[0].model for lane, clients in self._waiting.items()}

    def close(self) -> None:
        """Take no new tasks."""
        with self.changed:
            self._closed = True
            self.changed.notify_all()

    def clear(self) -> list[Task]:
        """Remove all tasks and return them."""
        with self.changed:
            tasks = [task for clients in self._waiting.values() for each in clients.values() for task in each]
            self._waiting.clear()
            self._count = dict.fromkeys(Priority, 0)
            return tasks

    @property
    def closed(self) -> bool:
        return self._closed

    def _next(self, lane: Lane) -> Task | None:
        clients = self._waiting.get(lane)
        if not clients:
            return None
        client, tasks = clients.popitem(last=False)
        task = tasks.popleft()
        if tasks:
            clients[client] = tasks  # at the end: others come first now
        elif not clients:
            del self._waiting[lane]
        self._count[lane.priority] -= 1
        return task
