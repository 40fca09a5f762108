"""Milvus, through its own client: the only module that imports pymilvus."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import numpy as np

from nearmt.errors import IndexServerError, MissingPackageError
from nearmt.index.vector_server import KINDS, Address, Progress

_VECTOR, _ENTRY, _MEMORY, _PART = "vector", "entry", "memory", "part"
#: Codes of Milvus: collections that are not there, and those that are not loaded, or not yet.
_LOST, _NOT_LOADED = (100, 4), (101, 103, 503)
#: Whoever is asked waits at most this long for what was written lately. `Strong` would cost 400 ms a search.
_CONSISTENCY = "Bounded"
#: Of a login, USER:PASSWORD; never written to a datastore.
TOKEN = "NEARMT_MILVUS_TOKEN"

P = ParamSpec("P")
Result = TypeVar("Result")
_Method = Callable[Concatenate["MilvusServer", P], Result]


def import_pymilvus() -> Any:
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # it would print failures that we report
    try:
        import pymilvus
    except ImportError as error:
        raise MissingPackageError("pymilvus is not installed: `pip install 'nearmt[milvus]'`") from error
    logging.getLogger("pymilvus").setLevel(logging.CRITICAL + 1)
    return pymilvus


def _reported(call: _Method[P, Result]) -> _Method[P, Result]:
    """Failures of the server as errors of one line."""

    @wraps(call)
    def reporting(self: MilvusServer, *args: P.args, **kwargs: P.kwargs) -> Result:
        timeout = kwargs.get("timeout") or args[-1]
        try:
            return call(self, *args, **kwargs)
        except Exception as error:
            if isinstance(error, IndexServerError | MissingPackageError) or not _is_of_server(error):
                raise
            raise self._error(error, timeout) from error

    return cast(_Method[P, Result], reporting)


def _is_of_server(error: Exception) -> bool:
    """Whether pymilvus or gRPC raised it."""
    return type(error).__module__.partition(".")[0] in ("pymilvus", "grpc") or isinstance(error, OSError)


#: Milvus makes no index of fewer rows.
_INDEXED_FROM = 1024


class MilvusServer:
    """Implements `VectorServer`. The connection is shared by threads, and made again when it was lost."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._client: Any = None

    @_reported
    def connect(self, timeout: float) -> None:
        if self._client is None:
            pymilvus, where = import_pymilvus(), self._address
            host = f"[{where.host}]" if ":" in where.host else where.host
            self._client = pymilvus.MilvusClient(
                uri=f"http://{host}:{where.port}",
                db_name=where.database,
                token=os.environ.get(TOKEN, ""),
                timeout=timeout,
            )

    def _error(self, error: Exception, timeout: Any) -> IndexServerError:
        code, where = getattr(error, "code", None), self._address.server
        code = code() if callable(code) else code
        reason = " ".join(str(getattr(error, "message", "") or error).split())[:300]
        if code in _LOST:
            return IndexServerError(
                f"{where}: the collection is not there ({reason}); `nearmt reindex DIR` makes it again", lost=True
            )
        if code in _NOT_LOADED:
            return IndexServerError(f"{where}: the collection is not loaded yet ({reason})", loading=True)
        return IndexServerError(
            f"{where}: no answer within {timeout:g} s ({reason}); start the server, set index-timeout, or go on "
            "without neighbours: index-fallback=model"
        )

    @_reported
    def parameters(self, collection: str, timeout: float) -> tuple[str, dict[str, int]] | None:
        client = self._client
        if not client.has_collection(collection, timeout=timeout):
            return None
        if not client.list_indexes(collection, timeout=timeout):
            return "", {}
        found = client.describe_index(collection, _VECTOR, timeout=timeout)
        kind = str(found["index_type"])
        return kind, {name: int(found.get(name, 0)) for name in KINDS.get(kind, ())}

    @_reported
    def create(self, collection: str, columns: int, address: Address, timeout: float) -> None:
        client, kinds = self._client, import_pymilvus().DataType
        schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field(_ENTRY, kinds.INT64, is_primary=True)
        schema.add_field(_MEMORY, kinds.INT64)
        schema.add_field(_PART, kinds.INT64)
        schema.add_field(_VECTOR, kinds.FLOAT_VECTOR, dim=columns)
        if not client.has_collection(collection, timeout=timeout):
            # With one shard, what is deleted together disappears together.
            client.create_collection(
                collection, schema=schema, num_shards=1, consistency_level=_CONSISTENCY, timeout=timeout
            )
        index = client.prepare_index_params()
        index.add_index(
            _VECTOR, index_name=_VECTOR, index_type=address.kind, metric_type="L2", params=dict(address.parameters)
        )
        client.create_index(collection, index, timeout=timeout)
        client.load_collection(collection, timeout=timeout, _async=True)

    @_reported
    def insert(self, collection: str, first: int, memory: int, part: int, key_XD: np.ndarray, timeout: float) -> None:
        rows = [
            {_ENTRY: number, _MEMORY: memory, _PART: part, _VECTOR: key_D}
            for number, key_D in enumerate(np.ascontiguousarray(key_XD, dtype=np.float32), first)
        ]
        self._client.insert(collection, rows, timeout=timeout)

    @_reported
    def flush(self, collection: str, timeout: float) -> None:
        self._client.flush(collection, timeout=timeout)

    @_reported
    def load(self, collection: str, timeout: float) -> None:
        self._client.load_collection(collection, timeout=timeout, _async=True)

    @_reported
    def progress(self, collection: str, timeout: float) -> Progress:
        client = self._client
        index = client.describe_index(collection, _VECTOR, timeout=timeout)
        state = client.get_load_state(collection, timeout=timeout)
        loaded = 100 if str(state["state"]).endswith("Loaded") else int(state.get("progress", 0))
        rows, waiting = int(index["total_rows"]), int(index["pending_index_rows"])
        return Progress(rows - waiting, rows, loaded)

    @_reported
    def unindexed(self, collection: str, timeout: float) -> int:
        list_segments = getattr(self._client, "list_loaded_segments", None)
        found = [] if list_segments is None else list_segments(collection, timeout=timeout)  # pymilvus 2.5 has none
        return sum(int(each.num_rows) for each in found if each.num_rows >= _INDEXED_FROM and not each.index_name)

    @_reported
    def count(self, collection: str, filter: str, timeout: float) -> int:
        client = self._client
        found = client.query(
            collection, filter=filter, output_fields=["count(*)"], timeout=timeout, consistency_level=_CONSISTENCY
        )
        return int(found[0]["count(*)"])

    @_reported
    def delete(self, collection: str, filter: str, timeout: float) -> None:
        self._client.delete(collection, filter=filter, timeout=timeout)

    @_reported
    def search(
        self, collection: str, query_BD: np.ndarray, count: int, filter: str, effort: int, timeout: float
    ) -> np.ndarray:
        setting = {"ef": max(effort, count)} if self._address.kind == "HNSW" else {"nprobe": effort}
        found = self._client.search(
            collection,
            query_BD,
            filter=filter,
            limit=count,
            search_params={"params": setting},
            anns_field=_VECTOR,
            timeout=timeout,
            consistency_level=_CONSISTENCY,
        )
        entry_BX = np.full((len(query_BD), count), -1, dtype=np.int64)
        for entry_X, hits in zip(entry_BX, found, strict=True):
            numbers = [hit["id"] for hit in hits]
            entry_X[: len(numbers)] = numbers
        return entry_BX
