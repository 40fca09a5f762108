"""The embedded model: what a server translates is what `nearmt translate` translates, whoever else it works for."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nearmt.contracts import Translation
from nearmt.corpus import read_pairs
from nearmt.datastore import Datastore, JoinedStore
from nearmt.demo import HELD_OUT, MEMORY
from nearmt.models import ModelConfig, load_model
from nearmt.scheduler import Priority, Scheduler, SchedulerConfig, Ticket
from nearmt.translator import Translator


@pytest.mark.embedded
@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_mixed_requests_equal_the_command(precision: str, tmp_path: Path) -> None:
    model = load_model(ModelConfig(precision=precision, device="cpu"))
    pairs = list(read_pairs(MEMORY))[:90]
    one = Datastore.build(tmp_path / "one", pairs[:60], model)
    other = Datastore.build(tmp_path / "other", pairs[40:], model)
    texts = [pair.source for pair in read_pairs(HELD_OUT)][:10]
    plain = Translator(model)
    translators = [
        plain,
        plain.with_datastore(one, "knn"),
        plain.with_datastore(other, "chunk"),
        plain.with_datastore(JoinedStore([one, (other, 0.5)]), "chunk"),
    ]
    scheduler = Scheduler(SchedulerConfig(slots=4, workers=2))

    def translated(job: tuple[int, str]) -> Translation:
        number, text = job
        ticket = Ticket(str(number), Priority(number % 2))
        return translators[number].decoding_with(scheduler.decoder(ticket)).translate(text)

    jobs = [(number, text) for text in texts for number in range(len(translators))]
    with ThreadPoolExecutor(12) as pool:
        shared = list(pool.map(translated, jobs))
    scheduler.close()
    for number, translator in enumerate(translators):
        alone = translator.translate(texts)
        found = [each for (owner, _), each in zip(jobs, shared, strict=True) if owner == number]
        assert [(t.text, t.score, t.searches) for t in found] == [(t.text, t.score, t.searches) for t in alone]
