"""Opens, searches, translates with and changes stores in which something is altered; each in a process of its own.

`python -m tests.datastore.hostile_reader STORES MODEL` reads a seed a line from its standard input, alters a copy of
one of the stores by it, and answers with a line of JSON: what was altered, and what became of it.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import torch

from nearmt.contracts import Pair
from nearmt.datastore import Datastore
from nearmt.datastore.disk import Manifest, manifest
from nearmt.datastore.disk.ledger import Ledger
from nearmt.datastore.disk.stored_pairs import stored_pairs
from nearmt.datastore.search import checks
from nearmt.datastore.upkeep.description import describe
from nearmt.datastore.upkeep.repair import repair
from nearmt.datastore.upkeep.verify import verify
from nearmt.decoding import BeamConfig
from nearmt.errors import NearmtError
from nearmt.models import ModelConfig, TranslationModel, load_model
from nearmt.translator import Translator
from tests.datastore.mutations import mutate

#: Nothing that a store of some kilobytes may cause takes more.
_BYTES, _SECONDS = 2 << 30, 60
#: Waiting for a disk would take most of the time.
_MEMORY = Path("/dev/shm")
_TEXTS = ["pumpe welle motor", "ventil"]
_BEAM = BeamConfig(beams=2, max_new_tokens=5)


def uses(path: Path, model: TranslationModel, random: Random) -> Iterator[Callable[[], Any]]:
    """What is done with a store, the harmless things first."""
    yield lambda: verify(path)
    yield lambda: [ledger := Ledger(path), ledger.pairs, ledger.find("7")]
    yield lambda: [*stored_pairs(path, Ledger(path).manifest)]
    yield lambda: describe(path, Manifest.load(path))
    if random.random() < 0.2:
        copy = shutil.copytree(path, path.with_name("copy"))
        yield lambda: repair(copy, verify(copy), lambda settings: model)
    if random.random() < 0.3:
        # As if it were so large that checksums and keys are not looked at.
        for module in (manifest, checks):
            vars(module)["VERIFIED_AT_OPENING"] = 0
    nominate = random.choice(["auto", "auto", "faiss", "torch", "exact"])
    yield lambda: _read(Datastore.open(path, nominate=nominate), model)
    yield lambda: _change(path, model)


def _read(store: Datastore, model: TranslationModel) -> None:
    for method, settings in (("chunk", {"seeds": 4}), ("knn", {})):
        Translator(model, store, method, settings, _BEAM).translate(_TEXTS)
    query_BD = store.snapshot().keys(torch.arange(0, len(store), 7), store.snapshot().columns) + 0.05
    store.snapshot().search(query_BD, 5)
    store.snapshot().search(query_BD, 5, torch.arange(len(store)) % 3 > 0)
    source = model.codec.source_ids(_TEXTS[0])
    store.snapshot().similar_pairs(source, 5), store.snapshot().similar([source], 5)
    store.matches(_TEXTS[0], threshold=0.1), store.snapshot().exact(_TEXTS[1])
    [*store.pairs()], [store.snapshot().pair_of(len(store) - 1)] if len(store) else []


def _change(path: Path, model: TranslationModel) -> None:
    store = Datastore.open(path)
    store.delete([pair.id for pair in islice(store.pairs(), 1)])
    store.add([Pair("motor welle", "motor shaft", "new")], model)
    store.update("new", "shaft", model)
    store.compact(model)


def outcome(stores: list[Path], model: TranslationModel, seed: int) -> dict[str, Any]:
    """Alter, use; anything but success and errors of nearmt is told with its traceback."""
    random = Random(seed)
    template = stores[seed % len(stores)]
    found: dict[str, Any] = {"seed": seed, "refused": [], "failed": []}
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as folder:
        path = Path(folder) / "store"
        shutil.copytree(template, path)
        found["altered"] = f"{template.name}: {mutate(path, random)}"
        for use in uses(path, model, random):
            try:
                use()
            except NearmtError as error:
                found["refused"].append(str(error).replace(folder, ""))
            except Exception:
                found["failed"].append(traceback.format_exc())
    return found


def _limit() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + _BYTES,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(_SECONDS)


def main(folder: Path, model_folder: str) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    model = load_model(ModelConfig(model=model_folder, device="cpu"))
    stores = sorted(path for path in folder.iterdir() if path.is_dir())
    _read(Datastore.open(stores[0]), model)  # what is made at first use is made before processes part
    for line in sys.stdin:
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            _limit()
            os.write(writing, json.dumps(outcome(stores, model, int(line))).encode()[:60_000])
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            answer = pipe.read()
        _, status = os.waitpid(child, 0)
        died = os.waitstatus_to_exitcode(status)
        print(answer.decode() if died == 0 and answer else json.dumps({"seed": int(line), "died": died}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
