"""Adapters beside full fine-tuning, each alone and with a memory on top of it.

    python benchmarks/adapters.py DATA/koran DATA/law DATA/medical --news DATA/news --out OUT.json

Each folder has train*, dev.* and test.*. Both trainings get the same pairs, hold out the same ones and stop early in
the same way. Rows: BLEU of the test set by the model alone, fine-tuned, with an adapter, and each of these with chunks;
BLEU of news with the same memory, where sentences that the memory knows nothing about go to the model alone;
`routing`: the same with other thresholds of familiarity. `--try rank=64,learning-rate=5e-4` trains an adapter with
other settings and translates dev lines with it. Finished rows are kept in OUT, models and datastores in --work: the
same command continues.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from math import inf
from pathlib import Path
from typing import Any

from nearmt.config.building import BuildConfig
from nearmt.contracts import Pair
from nearmt.corpus import read_pairs
from nearmt.datastore import Datastore
from nearmt.datastore.disk.files import write_json
from nearmt.datastore.disk.ids import with_ids
from nearmt.datastore.edit.tokens import marks_of
from nearmt.models import Adapter, ModelConfig, TranslationModel, load_model, load_trainable
from nearmt.research.bench.quality import bleu
from nearmt.research.machine import describe_commit, describe_machine
from nearmt.research.training.adapt import AdaptConfig, AdapterData, split, train_adapter
from nearmt.research.training.finetune import RECORD, finetune
from nearmt.research.training.loop import Epoch, FinetuneConfig
from nearmt.translator import Translator

#: Thresholds of familiarity up to which sentences go to the model alone.
THRESHOLDS = (0.0, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, inf)
#: Dev lines that `--try` translates.
TRIED_LINES = 500


class Rows:
    """The finished rows by name, in a file."""

    def __init__(self, path: Path, about: dict[str, Any]) -> None:
        self._path = path
        known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"rows": {}}
        self.rows: dict[str, Any] = known["rows"]
        self._about = about

    def take(self, name: str, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """A row, measured if it is not there."""
        if name not in self.rows:
            start = time.perf_counter()
            found = measure()
            self.rows[name] = {**found, "total_seconds": round(time.perf_counter() - start, 1)}
            write_json(self._path, {**self._about, "rows": self.rows})
        print(name, json.dumps(self.rows[name]), flush=True)
        return dict(self.rows[name])


class Domain:
    """The data of a domain, and the models and datastores that are made of it."""

    def __init__(self, folder: Path, news: list[Pair], given: argparse.Namespace) -> None:
        self.name, self.news, self._given = folder.name, news, given
        train = sorted(folder.glob("train*"))
        self.pairs = list(with_ids(read_pairs(*train, limit=given.limit)))
        self.test = list(read_pairs(*folder.glob("test.*"), limit=given.lines))
        self.dev = list(read_pairs(*folder.glob("dev.*"), limit=given.lines))[:TRIED_LINES]
        self.work: Path = given.work / folder.name
        self.work.mkdir(parents=True, exist_ok=True)
        self.config = ModelConfig(given.model, device=given.device)
        self.stores: dict[str, Datastore] = {}

    @cached_property
    def base(self) -> TranslationModel:
        return load_model(self.config)

    def adapted(self, name: str = "adapter") -> TranslationModel:
        return load_model(self.config, Adapter.load(self.work / f"{name}.safetensors"))

    @cached_property
    def finetuned(self) -> TranslationModel:
        return load_model(dataclasses.replace(self.config, model=str(self.work / "finetuned")))

    def store(self, name: str, model: TranslationModel, fit: bool = False) -> Datastore:
        """The memory, encoded with a model."""
        if name not in self.stores:
            folder = self.work / f"store-{name}"
            if (folder / "manifest.json").exists():
                self.stores[name] = Datastore.open(folder, device=str(model.seq2seq.device))
            else:
                config = BuildConfig(fit_reduction=fit)
                self.stores[name] = Datastore.build(folder, self.pairs, model, config)
        return self.stores[name]

    def bleu(self, translator: Translator, pairs: Sequence[Pair]) -> dict[str, Any]:
        start = time.perf_counter()
        score = bleu(self.texts(translator, pairs), [pair.target for pair in pairs])
        seconds = round(time.perf_counter() - start, 1)
        return {"bleu": score, "lines": len(pairs), "seconds": seconds, "signature": translator.signature()}

    def texts(self, translator: Translator, pairs: Sequence[Pair]) -> list[str]:
        return [found.text for found in translator.translate([pair.source for pair in pairs])]

    def translator(self, model: TranslationModel, store: Datastore | None = None) -> Translator:
        return Translator(model, store, batch_size=self._given.batch_size)


def train_an_adapter(domain: Domain, name: str, config: AdaptConfig) -> dict[str, Any]:
    model = load_trainable(dataclasses.replace(domain.config, precision="fp32"))
    data = AdapterData.encoded(domain.pairs, model, marks_of(model.translation))
    found = train_adapter(model, data, config, on_epoch=tell)
    facts = {"dev_loss_before": found.base_loss, "dev_loss": found.loss, "seconds": found.seconds}
    if found.adapter is not None:
        found.adapter.save(domain.work / f"{name}.safetensors")
        facts |= dict(found.adapter.notes)
        facts["bytes"] = (domain.work / f"{name}.safetensors").stat().st_size
    return {
        **facts,
        "stopped": found.outcome.stopped,
        "history": [dataclasses.asdict(e) for e in found.outcome.history],
    }


def finetune_fully(domain: Domain, config: FinetuneConfig) -> dict[str, Any]:
    pairs, held_out = split(domain.pairs)
    model = dataclasses.replace(domain.config, precision="fp32")
    finetune(model, pairs, held_out, domain.work / "finetuned", config, on_epoch=tell)
    record = json.loads((domain.work / "finetuned" / RECORD).read_text(encoding="utf-8"))
    weights = sum(path.stat().st_size for path in (domain.work / "finetuned").glob("*.safetensors"))
    return {**record, "bytes": weights}


def tell(epoch: Epoch) -> None:
    print(f"  epoch {epoch.number}: {epoch.train_loss} {epoch.dev_loss} {epoch.seconds} s", flush=True)


def unrouted(model: TranslationModel) -> TranslationModel:
    """An adapted model that translates all sentences itself."""
    return dataclasses.replace(model, adapter=None)


def routing(domain: Domain, model: TranslationModel, store: Datastore) -> dict[str, Any]:
    """BLEU by the threshold up to which sentences go to the model alone, and the share of lines that do."""
    found: dict[str, Any] = {}
    for name, pairs in (("test", domain.test), ("news", domain.news)):
        references = [pair.target for pair in pairs]
        alone = domain.texts(domain.translator(domain.base), pairs)
        adapted = domain.texts(domain.translator(unrouted(model), store), pairs)
        ids = model.codec.source_batch([pair.source for pair in pairs])
        familiarity = store.snapshot().similar(ids, 0).familiarity
        rows = {}
        for threshold in THRESHOLDS:
            foreign = [value <= threshold for value in familiarity]
            mixed = [a if away else b for a, b, away in zip(alone, adapted, foreign, strict=True)]
            share = sum(foreign) / max(1, len(foreign))
            rows[str(threshold)] = {"bleu": bleu(mixed, references), "share": round(share, 3)}
        found[name] = rows
    return found


def measure(rows: Rows, domain: Domain, given: argparse.Namespace) -> None:
    """The main rows of a domain."""
    name, test, news = domain.name, domain.test, domain.news
    rows.take(f"{name} base", lambda: domain.bleu(domain.translator(domain.base), test))
    rows.take("news base", lambda: domain.bleu(domain.translator(domain.base), news))
    store = domain.store("base", domain.base)
    rows.take(f"{name} base chunk", lambda: domain.bleu(domain.translator(domain.base, store), test))
    config = AdaptConfig(epochs=given.epochs)
    rows.take(f"{name} adapter training", lambda: train_an_adapter(domain, "adapter", config))
    model = domain.adapted()
    adapted = domain.store("adapter", model)
    rows.take(f"{name} adapter", lambda: domain.bleu(domain.translator(model), test))
    rows.take(f"{name} adapter chunk", lambda: domain.bleu(domain.translator(model, adapted), test))
    rows.take(f"{name} adapter chunk news", lambda: domain.bleu(domain.translator(model, adapted), news))
    rows.take(f"{name} routing", lambda: routing(domain, model, adapted))
    tuning = FinetuneConfig(epochs=given.epochs, dev_limit=0)
    rows.take(f"{name} fine-tuning", lambda: finetune_fully(domain, tuning))
    rows.take(f"{name} fine-tuned", lambda: domain.bleu(domain.translator(domain.finetuned), test))
    rows.take(f"{name} fine-tuned news", lambda: domain.bleu(domain.translator(domain.finetuned), news))


def measure_more(rows: Rows, domain: Domain) -> None:
    """Rows that show what the memory adds to a fine-tuned model, and which PCA suits an adapted one."""
    name, test, news = domain.name, domain.test, domain.news
    model = domain.adapted()
    fitted = domain.store("adapter-fitted", model, fit=True)
    rows.take(f"{name} adapter chunk, PCA fitted", lambda: domain.bleu(domain.translator(model, fitted), test))
    tuned = domain.store("finetuned", domain.finetuned)
    rows.take(f"{name} fine-tuned chunk", lambda: domain.bleu(domain.translator(domain.finetuned, tuned), test))
    rows.take(f"{name} adapter news", lambda: domain.bleu(domain.translator(model), news))
    store = domain.store("base", domain.base)
    rows.take(f"{name} base chunk news", lambda: domain.bleu(domain.translator(domain.base, store), news))
    weights = {key: each.manifest.calibration.likely_weight for key, each in domain.stores.items()}
    rows.take(f"{name} likely weights", lambda: weights)


def try_settings(rows: Rows, domain: Domain, text: str, epochs: int) -> None:
    """An adapter with other settings: dev BLEU alone and with chunks."""
    values = dict(item.split("=", 1) for item in text.split(",")) if text else {}
    config = AdaptConfig.from_mapping(
        {"epochs": epochs, **{key: AdaptConfig.parse(key, value) for key, value in values.items()}}
    )
    label = text or "default"

    def measured() -> dict[str, Any]:
        facts = train_an_adapter(domain, f"try-{label}", config)
        model = domain.adapted(f"try-{label}")
        alone = domain.bleu(domain.translator(model), domain.dev)
        chunk = domain.bleu(domain.translator(model, domain.store(f"try-{label}", model)), domain.dev)
        return {**facts, "adapter": alone, "adapter chunk": chunk}

    rows.take(f"{domain.name} try {label}", measured)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--news", type=Path, required=True, help="folder with test.* or dev.* of another domain")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--work", type=Path, default=Path("adapters-work"), help="models and datastores")
    parser.add_argument("--model", default=ModelConfig.model)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lines", type=int, help="lines of test and dev sets")
    parser.add_argument("--limit", type=int, help="pairs of each memory")
    parser.add_argument("--try", dest="tried", action="append", default=[], help="NAME=VALUE,...: other settings")
    parser.add_argument("--only-try", action="store_true", help="leave the other rows out")
    parser.add_argument("--commit", help="where this is no checkout")
    given = parser.parse_args()
    machine = describe_machine(ModelConfig(given.model, device=given.device))
    about = {"benchmark": "adapters", "commit": given.commit or describe_commit(), "machine": machine}
    about |= {"epochs": given.epochs, "batch_size": given.batch_size, "limit": given.limit, "lines": given.lines}
    rows = Rows(given.out, about)
    news = list(read_pairs(*(sorted(given.news.glob("test.*")) or given.news.glob("dev.*")), limit=given.lines))
    domains = [Domain(folder, news, given) for folder in given.folders]
    for domain in domains if not given.only_try else ():
        measure(rows, domain, given)
    for domain in domains if not given.only_try else ():
        measure_more(rows, domain)
    for text in given.tried:
        for domain in domains:
            try_settings(rows, domain, text, given.epochs)


if __name__ == "__main__":
    main()
