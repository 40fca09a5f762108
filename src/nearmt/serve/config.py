"""Settings of the server."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nearmt.config.base import Config, option
from nearmt.config.building import MOST_SECONDS
from nearmt.config.model import DEFAULT_MODEL, PRECISIONS, ModelConfig
from nearmt.config.store import FALLBACKS, StoreConfig


@dataclass(frozen=True)
class ServeConfig(Config):
    """The server."""

    host: str = option("127.0.0.1", "address to listen on")
    port: int = option(8080, "port to listen on; 0: any that is free", low=0, high=65535)
    model: tuple[str, ...] = option((DEFAULT_MODEL,), "a model: the embedded de-en, a folder, or a hub id")
    memories: str = option("memories", "folder of the memories, one datastore in each subfolder")
    default_memory: str | None = option(None, "memory of requests that name none, as long as there are no keys")
    state: str | None = option(None, "folder of keys, jobs and glossaries (default: .server in the memories folder)")
    memory_budget: int = option(4096, "MiB of memories that are kept open", low=1)
    keep_replaced: int = option(
        0, "seconds that new memories keep replaced files, for readers on other machines", low=0, high=MOST_SECONDS
    )
    index_fallback: str = option(
        "model", "if Milvus does not answer: model goes on without neighbours, none is an error", choices=FALLBACKS
    )
    index_timeout: float = option(2.0, "seconds in which Milvus has to answer a search", low=0.1)
    max_jobs: int = option(2, "background jobs that run at a time", low=1, high=64)
    max_texts: int = option(1000, "most texts of a request", low=1)
    max_characters: int = option(1_000_000, "most characters of a request", low=1)
    max_upload: int = option(256, "most MiB of an uploaded file", low=1)
    #: Of lists of texts; beyond, they are bulk work.
    bulk_from: int = option(50, "texts of a request from which it is translated behind interactive ones", low=1)

    device: str = option("auto", "where the models run: cpu, cuda, cuda:1, ..., or auto")
    precision: str = option("auto", "number format of the weights", choices=("auto", *PRECISIONS))
    threads: int | None = option(None, "threads that compute (default: as many as cores)", low=1, high=1024)
    read_only: bool = option(False, "translate only: memories do not change, and there are no jobs")
    allowed_host: tuple[str, ...] = option((), "a further name under which clients reach the server")
    cors_origin: tuple[str, ...] = option((), "an origin whose pages may use the server, like https://tool.example.com")
    log_text: bool = option(False, "write texts of users to the log, too")
    requests: int | None = option(None, "most requests a minute of a key that has no limit of its own", low=1)
    characters: int | None = option(None, "most characters a minute of a key that has no limit of its own", low=1)
    max_body: int = option(4, "most MiB of a request that is not an upload", low=1)
    max_requests: int = option(64, "requests that are worked on at a time", low=2, high=1000)
    max_waiting: int = option(256, "requests that may wait for their turn", low=1)
    max_connections: int = option(1000, "open connections", low=1)
    drain: float = option(30.0, "seconds for running requests to finish when the server is stopped", low=0)

    @property
    def memories_folder(self) -> Path:
        return Path(self.memories)

    @property
    def state_folder(self) -> Path:
        return self.memories_folder / ".server" if self.state is None else Path(self.state)

    @property
    def store_config(self) -> StoreConfig:
        return StoreConfig(index_fallback=self.index_fallback, index_timeout=self.index_timeout)

    def model_configs(self) -> list[ModelConfig]:
        return [ModelConfig(name, device=self.device, precision=self.precision) for name in self.model]
