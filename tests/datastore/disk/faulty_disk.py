"""A disk in memory that behaves as badly as disks may.

Unsynced writes are a list; a power cut keeps or loses each of them independently, so they may reach the disk
in any order. A name may be lost, with its file, until the folder is synced. A sync that fails
applies some writes and loses the others, and the next one does not try them again (as Linux does it): the
content that programs read then differs from what is on disk until the bytes are written anew.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random


class PowerCut(BaseException):
    """The machine is off: nothing that a program does matters any more."""


@dataclass(frozen=True)
class Write:
    """Bytes at an offset, or (None) the file's new length."""

    offset: int
    data: bytes | None

    def apply(self, content: bytearray) -> None:
        if self.data is None:
            del content[self.offset :]
            content.extend(bytes(self.offset - len(content)))
        else:
            content.extend(bytes(max(0, self.offset - len(content))))
            content[self.offset : self.offset + len(self.data)] = self.data


@dataclass
class Inode:
    """A file as programs see it, as it is on disk, and the writes that are not synced."""

    content: bytearray = field(default_factory=bytearray)
    stable: bytearray = field(default_factory=bytearray)
    waiting: list[Write] = field(default_factory=list)

    def change(self, write: Write, sector: int) -> None:
        write.apply(self.content)
        if write.data is None:
            self.waiting.append(write)
        else:
            cuts = range(0, len(write.data), sector)
            self.waiting += [Write(write.offset + cut, write.data[cut : cut + sector]) for cut in cuts]

    def flush(self) -> None:
        for write in self.waiting:
            write.apply(self.stable)
        self.waiting.clear()

    def flush_some(self, random: Random) -> None:
        """Lengths are kept for later: file systems do not forget those when they cannot write content."""
        chance = random.random()
        for write in self.waiting:
            if write.data is not None and random.random() < chance:
                write.apply(self.stable)
        self.waiting = [write for write in self.waiting if write.data is None]

    def after_power_cut(self, random: Random) -> Inode:
        content, chance = bytearray(self.stable), random.choice([0.0, 0.1, 0.5, 0.9, 1.0])
        for write in self.waiting:
            if random.random() < chance:
                write.apply(content)
        return Inode(content, bytearray(content))


@dataclass
class FaultyDisk:
    """Files in memory, and the faults they will meet."""

    random: Random = field(default_factory=lambda: Random(0))
    #: Bytes that a power cut keeps or forgets together.
    sector: int = 4
    #: Calls until the power goes; None for never.
    power: int | None = None
    #: Bytes that can be written until the disk is full; None for any number.
    free: int | None = None
    #: Which calls of write, sync, truncate or sync_folder fail, by name and number (from 0).
    failures: set[tuple[str, int]] = field(default_factory=set)
    short_writes: bool = False
    #: Calls that do nothing and say that all is well: mutants for tests of the tests.
    lies: frozenset[str] = frozenset()
    names: dict[Path, Inode] = field(default_factory=dict)
    stable_names: dict[Path, Inode] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)

    def open(self, path: Path, write: bool = False) -> FaultyFile:
        if path not in self.names:
            if not write:
                raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))
            self.names[path] = Inode()
        return FaultyFile(self, self.names[path])

    def sync_folder(self, folder: Path) -> None:
        self.call("sync_folder")
        if "sync_folder" not in self.lies:
            self.stable_names |= {path: inode for path, inode in self.names.items() if path.parent == folder}

    def call(self, name: str, when_failing: Callable[[], None] | None = None) -> None:
        """Count a call; perhaps it is the last one, or fails."""
        if self.power is not None:
            self.power -= 1
            if self.power < 0:
                raise PowerCut
        number = self.calls.get(name, 0)
        self.calls[name] = number + 1
        if (name, number) in self.failures:
            if when_failing:
                when_failing()
            raise OSError(errno.EIO, "Input/output error")

    def after_power_cut(self) -> FaultyDisk:
        """The disk when the machine is on again."""
        kept = {path: inode for path, inode in self.names.items() if path in self.stable_names}
        kept |= {path: inode for path, inode in self.names.items() if path not in kept and self.random.random() < 0.5}
        names = {path: inode.after_power_cut(self.random) for path, inode in kept.items()}
        return FaultyDisk(self.random, self.sector, lies=self.lies, names=names, stable_names=dict(names))


@dataclass
class FaultyFile:
    """An open file of a faulty disk."""

    disk: FaultyDisk
    inode: Inode

    def size(self) -> int:
        return len(self.inode.content)

    def read(self, offset: int, count: int) -> bytes:
        return bytes(self.inode.content[offset : offset + count])

    def write(self, offset: int, data: bytes | memoryview) -> int:
        self.disk.call("write")
        count = len(data)
        if self.disk.short_writes:
            count = self.disk.random.randint(1, count)
        if self.disk.free is not None:
            if not self.disk.free:
                raise OSError(errno.ENOSPC, "No space left on device")
            count = min(count, self.disk.free)
            self.disk.free -= count
        self.inode.change(Write(offset, bytes(data[:count])), self.disk.sector)
        return count

    def truncate(self, size: int) -> None:
        self.disk.call("truncate")
        self.inode.change(Write(size, None), self.disk.sector)

    def sync(self) -> None:
        self.disk.call("sync", lambda: self.inode.flush_some(self.disk.random))
        if "sync" not in self.disk.lies:
            self.inode.flush()

    def close(self) -> None:
        pass
