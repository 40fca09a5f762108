"""The embedded model through the service: the same as the command, explained."""

from __future__ import annotations

import io
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest

from nearmt.datastore import Datastore
from nearmt.documents import FillConfig, fill_document
from nearmt.models import ModelConfig, TranslationModel, load_model
from nearmt.serve.config import ServeConfig
from nearmt.serve.keys import ANONYMOUS
from nearmt.serve.models import Models
from nearmt.serve.service import MemoryUse, Service, TranslationRequest
from nearmt.translator import Translator
from tests.serve.waiting import finished

pytestmark = pytest.mark.embedded

_ROWS = (files("nearmt") / "demo" / "memory.tsv").read_text(encoding="utf-8").splitlines()
#: Learnt, and translated: some of these are in the memory, others resemble what is.
LEARNT, ASKED = _ROWS[:60], [row.split("\t")[0] for row in (*_ROWS[40:44], *_ROWS[100:106])]


@pytest.fixture(scope="module")
def int8() -> TranslationModel:
    return load_model(ModelConfig(device="cpu", precision="int8"))


@pytest.fixture(params=["int8", "embedded"])
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Service]:
    """A service with a memory that was imported."""
    model = request.getfixturevalue(request.param)
    service = Service(ServeConfig(memories=str(tmp_path / "memories")), Models([model]))
    service.create_memory(ANONYMOUS, "demo")
    job = service.import_file(ANONYMOUS, "demo", "demo.tsv", io.BytesIO("\n".join(LEARNT).encode()))
    assert finished(service, ANONYMOUS, job).result["added"] == len(LEARNT)
    yield service
    service.close()


def test_texts_are_translated_as_by_the_command(served: Service, tmp_path: Path) -> None:
    (model,) = served.models
    translator = Translator(model, Datastore.open(served.memories.folder / "demo"))
    (tmp_path / "a.txt").write_text("\n".join(ASKED) + "\n", encoding="utf-8")
    fill_document(tmp_path / "a.txt", tmp_path / "b.txt", translator, FillConfig())
    request = TranslationRequest(ASKED, memories=[MemoryUse("demo")])
    found = served.translate(ANONYMOUS, request).translations
    assert [translated.text for translated in found] == (tmp_path / "b.txt").read_text(encoding="utf-8").splitlines()
    assert {translated.origin for translated in found} == {"machine", "memory"}


def test_words_name_the_pairs_that_spoke_for_them(served: Service) -> None:
    request = TranslationRequest(ASKED[:2], memories=[MemoryUse("demo")], explain=True, exact=False, alternatives=2)
    for found in served.translate(ANONYMOUS, request).translations:
        assert "".join(word.text for word in found.words) == found.text.replace(" ", "")
        assert any(witness.source == found.source for word in found.words for witness in word.witnesses)
        assert all(0 <= word.before <= 1 and 0 <= word.after <= 1 for word in found.words)
        assert len(set(found.alternatives) | {found.text}) == 3
