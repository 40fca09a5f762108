"""The real Milvus of a test run, started when it is first asked for; and a stand-in for tests that need none."""

from __future__ import annotations

import atexit
import itertools
import tempfile
from functools import cache
from pathlib import Path

import numpy as np

from nearmt.index.milvus import Collection, MilvusIndex, RemoteUse
from nearmt.index.vector_server import Address
from tools.milvus_server import FOLDER, MilvusServer

_numbers = itertools.count(1)


@cache
def real_server() -> MilvusServer:
    """One server for all tests of a process; it ends with the process."""
    assert (FOLDER / "installed.json").is_file(), "run `python tools/milvus_server.py install` first"
    folder = tempfile.TemporaryDirectory(prefix="nearmt-milvus-")
    server = MilvusServer(Path(folder.name))
    server.start()
    atexit.register(folder.cleanup)
    atexit.register(server.stop)
    return server


def address_of(server: MilvusServer, settings: str = "") -> str:
    return f"milvus://{server.address}{settings}"


def filled(address: Address, key_ND: np.ndarray, timeout: float = 60.0) -> MilvusIndex:
    """An index of these keys in a collection of its own, at full effort."""
    collection = Collection(address, f"test_{next(_numbers)}_{address.kind}", RemoteUse(timeout))
    collection.prepare(key_ND.shape[1])
    index = MilvusIndex(collection, collection.new_part(), len(key_ND))
    collection.insert(1, index.part, key_ND)
    collection.wait_for({index.part: index.rows})
    index.effort = index.efforts[-1]
    return index
