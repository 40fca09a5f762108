"""Build the memories of the experiment contrast, translate its asks, and judge the translations."""

from __future__ import annotations

import dataclasses
import json
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nearmt.contracts import Pair
from nearmt.datastore import Datastore
from nearmt.research.experiments.contrast_items import Items, default_folder, read_items
from nearmt.research.experiments.contrast_scoring import Ask, count, divided, percent
from nearmt.research.experiments.data import Domain
from nearmt.research.experiments.files import made_once
from nearmt.research.experiments.rows import Measured, Row
from nearmt.translator import Translator

if TYPE_CHECKING:
    from nearmt.research.experiments.artefacts import Artefacts
    from nearmt.research.experiments.cells import Cell

#: The row of the model alone.
BASE = "base"


class Contrasting:
    """The procedure of the experiment (`rows.Procedure`)."""

    def check(self, artefacts: Artefacts, domain: Domain, rows: list[Row]) -> None:
        items_of(artefacts)
        domain.files("train")

    def signature(self, artefacts: Artefacts, domain: Domain, row: Row) -> str:
        setup = artefacts.setup
        settings = json.dumps(row.settings, sort_keys=True)
        parts = [setup.model_signature(domain), f"method:{row.method}", f"settings:{settings}"]
        if row.method != "plain":
            parts += [_memory_signature(artefacts, domain), f"variants:{row.variants}", setup.store.signature()]
        parts += [f"contrast:{self.test_digest(artefacts, domain)}", setup.beam.signature()]
        return "|".join([*parts, f"batch:{setup.config.batch_size}"])

    def test_digest(self, artefacts: Artefacts, domain: Domain) -> str:
        config = artefacts.setup.config
        limit = f"-{config.limit}" if config.limit else ""
        return f"contrast-{config.half}-{items_of(artefacts).digest()}{limit}"

    def measure(self, artefacts: Artefacts, domain: Domain, row: Row) -> Measured:
        """Translate the contrast asks; then, unless the memory has variants, those of terminology."""
        items, config = items_of(artefacts), artefacts.setup.config
        every = [items.asks(terms, config.limit) for terms in (False, True)]
        asks, texts, signature, memories = list[Ask](), list[str](), "", dict[str, Any]()
        for terms, wanted in enumerate(every[:1] if row.variants else every):
            if not wanted:
                continue
            translator = make_system(artefacts, domain, row, bool(terms))
            with artefacts.progress_bar(f"contrast {domain.name} {row.name}") as progress:
                found = translator.translate([ask.source for ask in wanted], progress=progress)
            asks, texts = asks + wanted, texts + [translation.text for translation in found]
            signature = signature or translator.signature()
            if translator.datastore is not None:
                memories["terminology" if terms else "contrast"] = _described(translator.datastore)
        judged = [ask.judged(text) for ask, text in zip(asks, texts, strict=True)]
        evaluation = {"sentences": len(asks), "asks": judged, "signature": signature}
        facts = {"half": config.half, "items": items.digest(), "variants": row.variants, "memories": memories}
        pairs = [Pair(ask.source, ask.stored) for ask in (*every[0], *every[1])]
        return Measured(evaluation, texts, dict(row.settings), facts, pairs, not config.side_by_side)

    def tidy(self, artefacts: Artefacts, domain: Domain, row: Row) -> None:
        """Nothing is left but datastores, which other rows use."""

    def shown(self, artefacts: Artefacts, cell: Cell) -> Cell:
        """Replace the judgements of a cell by their counts, compared with those of the model alone."""
        base = artefacts.results.cell(cell.experiment, cell.domain, BASE)
        alone = None
        if base is not None and base.test == cell.test:
            alone = {ask["id"]: ask["right"] for ask in base.evaluation["asks"]}
        evaluation = {name: value for name, value in cell.evaluation.items() if name != "asks"}
        evaluation |= summary(cell.evaluation["asks"], None if cell.row == BASE else alone)
        return dataclasses.replace(cell, evaluation=evaluation)


def summary(judged: list[dict[str, Any]], alone: dict[str, bool] | None) -> dict[str, Any]:
    """Count the judgements of contrast and terminology; percentages are for the tables of metrics."""
    contrast = [ask for ask in judged if ask["words"] is not None]
    terms = [ask for ask in judged if ask["words"] is None]
    total, of_terms = count(contrast, alone), count(terms, alone)
    return {
        "right": percent(total["right"], total["asks"]),
        "kept": percent(total.get("kept"), total.get("alone")),
        "terms": percent(of_terms["right"], of_terms["asks"]),
        "counts": {"total": total, **divided(contrast, alone), "terminology": of_terms},
    }


def items_of(artefacts: Artefacts) -> Items:
    config = artefacts.setup.config
    return read_items(Path(config.items) if config.items else default_folder(), config.half)


def make_system(artefacts: Artefacts, domain: Domain, row: Row, terms: bool) -> Translator:
    setup, model = artefacts.setup, artefacts.model(domain)
    if row.method == "plain":
        return Translator(model, None, "plain", None, setup.beam, setup.config.batch_size)
    path = store_path(artefacts, domain, row, terms)
    store = Datastore.open(path, nominate=setup.store.nominate, device=setup.store.store_device or setup.device)
    return Translator(model, store, row.method, row.settings, setup.beam, setup.config.batch_size)


def store_path(artefacts: Artefacts, domain: Domain, row: Row, terms: bool) -> Path:
    """Return the path of the datastore of memory and items; build it if it is missing."""
    config, items = artefacts.setup.config, items_of(artefacts)
    name = "terminology" if terms else "ten" if row.variants else "once"
    path = artefacts.setup.out / "contrast" / f"{domain.name}.{config.half}.{name}"
    signature = f"{artefacts.setup.model_signature(domain)}|{_memory_signature(artefacts, domain)}|{items.digest()}"
    with made_once(artefacts.results, path, signature) as missing:
        if missing:
            model = artefacts.model(domain)
            memory = islice(domain.stream("train"), config.memory_limit)
            pairs = chain(memory, items.pairs(terms, row.variants))
            with artefacts.progress_bar(f"{path.name}: building the datastore") as progress:
                Datastore.build(path, pairs, model, overwrite=True, progress=progress)
    return path


def _memory_signature(artefacts: Artefacts, domain: Domain) -> str:
    return f"train:{domain.digest('train')}|pairs:{artefacts.setup.config.memory_limit or 'all'}"


def _described(store: Any) -> dict[str, Any]:
    manifest = store.manifest
    calibration = dataclasses.asdict(manifest.calibration)
    return {"pairs": manifest.pairs, "entries": manifest.entries, "calibration": calibration}
