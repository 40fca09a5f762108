"""The memories of the server: datastores in a folder, opened when they are asked for, closed by least use."""

from __future__ import annotations

import itertools
import re
import resource
import secrets
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from nearmt.config.store import StoreConfig
from nearmt.datastore import BuildConfig, Datastore
from nearmt.datastore.disk import Manifest
from nearmt.datastore.disk.files import LOCK
from nearmt.datastore.disk.manifest import FILE_NAME
from nearmt.datastore.search.remote import remote_use, store_device
from nearmt.datastore.upkeep.description import size_on_disk
from nearmt.errors import ConfigError, DatastoreError, IndexServerError, ModelError, writing
from nearmt.models import TranslationModel
from nearmt.opening import BUILDING
from nearmt.serve.errors import Busy, Conflict, Forbidden, NotFound
from nearmt.serve.memory_info import Infos
from nearmt.serve.models import Models
from nearmt.serve.turns import Turns
from nearmt.serve.values import MemoryInfo

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
#: Beginning of the names of folders that are being deleted.
_DELETED = ".deleted-"
#: Seconds that a change waits for another one.
PATIENCE = 30.0
#: Counted for an open memory besides its files.
_OVERHEAD = 1 << 20
#: File handles that a segment keeps open, at most.
_HANDLES = 12


@dataclass
class _Memory:
    """A memory that was asked for, open or closed."""

    name: str
    #: Those who change it take turns; readers do not wait for them.
    turns: Turns = field(default_factory=Turns)
    opening: threading.Lock = field(default_factory=threading.Lock)
    #: While it is open, with its model.
    store: Datastore | None = None
    model: TranslationModel | None = None
    #: Threads that use it now, and when it was last used.
    users: int = 0
    used: int = 0
    #: What it takes while it is open.
    bytes: int = 0
    handles: int = 0
    #: Its files were compared with their checksums.
    is_checked: bool = False


def is_name(name: str) -> bool:
    """Whether a memory can have this name."""
    return _NAME.fullmatch(name) is not None


class Memories:
    """Datastores by name."""

    def __init__(
        self,
        folder: Path,
        models: Models,
        budget: int = 1 << 32,
        *,
        read_only: bool = False,
        keep_replaced: int = 0,
        searching: StoreConfig | None = None,
    ) -> None:
        """`budget`: bytes of memories that may be open; one that is in use stays open beyond it.

        `keep_replaced`: for how many seconds new memories keep replaced files.
        """
        self._searching = searching or StoreConfig()
        self.folder, self.budget, self.read_only = folder, budget, read_only
        self._building = BuildConfig(keep_replaced=keep_replaced)
        #: Half of what the process may have is for connections and other files.
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.handles = (1 << 20 if soft == resource.RLIM_INFINITY else soft) // 2
        #: Told the name of each memory that is closed.
        self.on_close: list[Callable[[str], None]] = []
        self._models = models
        self._memories: dict[str, _Memory] = {}
        self._lock = threading.Lock()
        self._clock = itertools.count()
        self._infos = Infos(models)
        if not read_only:
            with writing(folder):
                folder.mkdir(parents=True, exist_ok=True)
            for left in folder.glob(f"{_DELETED}*"):
                shutil.rmtree(left, ignore_errors=True)

    def names(self) -> list[str]:
        found = (path.parent.name for path in self.folder.glob(f"*/{FILE_NAME}"))
        return sorted(name for name in found if is_name(name))

    def folder_of(self, name: str) -> Path:
        """The folder of a memory, which must exist."""
        folder = self.folder / name
        if not is_name(name) or not (folder / FILE_NAME).is_file():
            raise NotFound(f"no memory '{name[:64]}'")
        return folder

    def info(self, name: str) -> MemoryInfo:
        folder = self.folder_of(name)
        known = self._memories.get(name)
        return self._infos.info(folder, None if known is None else known.store)

    def model(self, name: str) -> TranslationModel:
        """The loaded model of a memory; a memory of another model is refused."""
        folder, memory = self.folder_of(name), self._memories.get(name)
        if memory is not None and memory.store is not None and memory.model is not None:
            return memory.model
        with _explained(name, folder):
            return self._models.of_memory(folder, Manifest.load(folder))

    @contextmanager
    def using(self, name: str) -> Iterator[Datastore]:
        """An open datastore with the changes that other processes made; it stays open while the block runs."""
        with self._using(name) as (_, store):
            yield store

    @contextmanager
    def editing(self, name: str, patience: float = PATIENCE) -> Iterator[Datastore]:
        """An open datastore that no other thread changes while the block runs."""
        self.check_writable()
        with self._editing(name, patience) as (_, store):
            yield store

    def create(self, name: str, model: TranslationModel) -> MemoryInfo:
        """Make an empty memory."""
        self.check_writable()
        if not is_name(name):
            raise ConfigError("the name of a memory has up to 64 letters of a to z, digits, '.', '_' and '-'")
        folder = self.folder / name
        if folder.exists() and (not folder.is_dir() or {inner.name for inner in folder.iterdir()} - {LOCK, BUILDING}):
            raise Conflict(f"memory '{name}' exists")
        with _explained(name, folder):
            Datastore.build(folder, [], model, self._building)
        return self.info(name)

    def delete(self, name: str) -> None:
        """Remove a memory and all its files. Translations that use it now are finished."""
        self.check_writable()
        gone = self.folder / f"{_DELETED}{secrets.token_hex(8)}"
        with self._editing(name, PATIENCE) as (memory, store):
            with writing(store.path):
                store.path.rename(gone)
            with self._lock:
                memory.store = None
                self._memories.pop(name, None)
        self._tell_closed(name)
        shutil.rmtree(gone, ignore_errors=True)

    def check_writable(self) -> None:
        if self.read_only:
            raise Forbidden(
                "this server only reads: another one has these memories, or it was started with --read-only"
            )

    @property
    def open_bytes(self) -> dict[str, int]:
        """Bytes of each memory that is open."""
        return {name: memory.bytes for name, memory in list(self._memories.items()) if memory.store is not None}

    def close(self) -> None:
        """Close all memories that are not in use."""
        self._close_some(0)

    @contextmanager
    def _using(self, name: str) -> Iterator[tuple[_Memory, Datastore]]:
        self.folder_of(name)
        with self._lock:
            memory = self._memories.setdefault(name, _Memory(name))
            memory.users += 1
        try:
            store = self._opened(memory)
            with _explained(name, store.path):
                if store.refresh(wait=False):
                    self._check_model(memory, store)
            yield memory, store
        finally:
            with self._lock:
                memory.users -= 1
                memory.used = next(self._clock)
            self._close_some(self.budget)

    @contextmanager
    def _editing(self, name: str, patience: float) -> Iterator[tuple[_Memory, Datastore]]:
        with self._using(name) as (memory, store), memory.turns.held(f"memory '{name}'", patience):
            if memory.store is not store:
                raise NotFound(f"no memory '{name}'")  # deleted meanwhile
            with _explained(name, store.path):
                yield memory, store
            _measure(memory, store)

    def _opened(self, memory: _Memory) -> Datastore:
        with memory.opening:
            if memory.store is None:
                folder, model = self.folder_of(memory.name), self.model(memory.name)
                memory.model = model
                with _explained(memory.name, folder):
                    store = Datastore.open(
                        folder,
                        device=store_device(folder, "auto", str(model.seq2seq.device)),
                        verify=False if memory.is_checked else None,
                        remote=remote_use(self._searching),
                    )
                    store.check_model(model)
                _measure(memory, store)
                memory.store, memory.is_checked = store, True
            return memory.store

    def _check_model(self, memory: _Memory, store: Datastore) -> None:
        """Close a memory that another process has encoded anew with another model."""
        try:
            assert memory.model is not None
            store.check_model(memory.model)
        except DatastoreError:
            memory.store = None
            self._tell_closed(memory.name)
            raise

    def _close_some(self, budget: int) -> None:
        """Close what was not used for longest, until what is open fits a budget in bytes, and that of handles."""
        closed: list[str] = []
        with self._lock:
            open_ones = [memory for memory in self._memories.values() if memory.store is not None]
            total, handles = sum(memory.bytes for memory in open_ones), sum(memory.handles for memory in open_ones)
            for memory in sorted(open_ones, key=lambda memory: memory.used):
                if total <= budget and handles <= self.handles:
                    break
                if memory.users == 0:
                    total, handles = total - memory.bytes, handles - memory.handles
                    memory.store = memory.model = None
                    closed.append(memory.name)
        for name in closed:
            self._tell_closed(name)

    def _tell_closed(self, name: str) -> None:
        for tell in self.on_close:
            tell(name)


def _measure(memory: _Memory, store: Datastore) -> None:
    memory.bytes = size_on_disk(store.path, store.manifest) + _OVERHEAD
    memory.handles = _HANDLES * (1 + len(store.manifest.segments))


@contextmanager
def _explained(name: str, folder: Path) -> Iterator[None]:
    """Errors of a datastore name the memory, and not where it is."""
    try:
        yield
    except IndexServerError as error:
        raise Busy(f"memory '{name}': its index does not answer; try again later") from error
    except (DatastoreError, ModelError) as error:
        raise Conflict(
            f"memory '{name}': {str(error).replace(f'{folder}: ', '').replace(str(folder), name)}"
        ) from error
