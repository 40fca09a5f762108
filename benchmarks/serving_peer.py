"""CTranslate2 behind nearmt's HTTP server, for `serving.py`: the same endpoints, tokeniser and weights.

    python benchmarks/serving_peer.py PORT [--precision int8] [--threads 2]

Sentences that wait are translated together: each of the threads takes up to 32 of them as soon as it is free.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
from concurrent.futures import Future
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import uvicorn

from nearmt.config.beam import BeamConfig
from nearmt.models import ModelConfig, TranslationModel, export_embedded, load_model
from nearmt.research.bench import ctranslate2
from nearmt.scheduler import Ticket
from nearmt.serve.app import create_app
from nearmt.serve.config import ServeConfig
from nearmt.serve.keys import Principal
from nearmt.serve.models import Models
from nearmt.serve.service import Service
from nearmt.serve.values import Timing, Translated, TranslationRequest, TranslationResult

#: Sentences of a batch.
_TOGETHER = 32


class Batches:
    """Translates what waits, in batches."""

    def __init__(self, engine: Any, model: TranslationModel, beam: BeamConfig, threads: int) -> None:
        self._engine, self._model, self._beam = engine, model, beam
        self._id_of = model.codec.vocabulary()
        self._subword_of = {number: subword for subword, number in self._id_of.items()}
        self._waiting: SimpleQueue[tuple[list[int], Future[str]]] = SimpleQueue()
        for _ in range(threads):
            threading.Thread(target=self._run, daemon=True).start()

    def translate(self, text: str) -> Future[str]:
        result: Future[str] = Future()
        self._waiting.put((self._model.codec.source_ids(text), result))
        return result

    def _run(self) -> None:
        while True:
            batch = [self._waiting.get()]
            try:
                while len(batch) < _TOGETHER:
                    batch.append(self._waiting.get_nowait())
            except Empty:
                pass
            sources = [[self._subword_of[token] for token in ids] for ids, _ in batch]
            longest = max(self._beam.limit(self._model.seq2seq, len(source)) for source in sources)
            found = self._engine.translate_batch(
                sources, beam_size=self._beam.beams, max_input_length=0, max_decoding_length=longest
            )
            for (_, result), translation in zip(batch, found, strict=True):
                result.set_result(self._model.codec.text([self._id_of[each] for each in translation.hypotheses[0]]))


class PeerService(Service):
    """Texts are translated by CTranslate2."""

    batches: Batches

    def translate(
        self, principal: Principal, request: TranslationRequest, ticket: Ticket | None = None
    ) -> TranslationResult:
        waiting = [self.batches.translate(text) for text in request.texts]
        found = [
            Translated(text, each.result(), 0.0, "machine", False, 0, 0, ())
            for text, each in zip(request.texts, waiting, strict=True)
        ]
        return TranslationResult(found, "ctranslate2", "de", "en", ctranslate2.version(), Timing(0.0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("port", type=int)
    parser.add_argument("--precision", default="int8")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        converted = Path(folder) / "ctranslate2"
        export_embedded("de-en", Path(folder) / "model")
        ctranslate2.convert(str(Path(folder) / "model"), converted)
        model = load_model(ModelConfig(device="cpu", precision="fp32"))
        engine = ctranslate2.load(converted, arguments.precision, "cpu", arguments.threads)
        config = ServeConfig(port=arguments.port, memories=str(Path(folder) / "memories"))
        service = PeerService(config, Models([model]))
        service.batches = Batches(engine, model, BeamConfig(), arguments.threads)
        uvicorn.run(create_app(service), port=arguments.port, log_level="warning")


if __name__ == "__main__":
    main()
