"""With weight 0 a memory does not change how the model's generation config processes probabilities."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from nearmt.datastore import Datastore
from nearmt.decoding import BeamConfig
from nearmt.models import ModelConfig, TranslationModel, load_model
from nearmt.translator import Translator

TEXTS = ["die pumpe prüfen", "der motor und die welle", "ventil öffnen vor dem reinigen", "nicht immer"]
RULES = {
    "early_stopping": True,
    "renormalize_logits": True,
    "repetition_penalty": 1.4,
    "suppress_tokens": [20, 21, 22, 23, 24, 25],
}


@pytest.fixture(scope="module")
def ruled(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> TranslationModel:
    folder = Path(shutil.copytree(tiny_folder, tmp_path_factory.mktemp("ruled") / "model"))
    file = folder / "generation_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text(encoding="utf-8")), **RULES}), encoding="utf-8")
    return load_model(ModelConfig(model=str(folder), device="cpu", precision="fp32"))


@pytest.mark.parametrize("beams", [1, 4])
@pytest.mark.parametrize("method", ["knn", "chunk"])
def test_weight_0_is_the_model_with_its_rules(
    method: str, beams: int, ruled: TranslationModel, tiny: TranslationModel, tiny_store: Datastore
) -> None:
    beam = BeamConfig(beams=beams, max_new_tokens=15)
    weights = {"lambda": 0.0, **({"cache-lambda": 0.0} if method == "chunk" else {})}
    alone = Translator(ruled, None, "plain", {}, beam).translate(TEXTS)
    mixed = Translator(ruled, tiny_store, method, weights, beam).translate(TEXTS)
    assert [(one.text, one.tokens) for one in mixed] == [(one.text, one.tokens) for one in alone]
    assert [one.text for one in alone] != [
        one.text for one in Translator(tiny, None, "plain", {}, beam).translate(TEXTS)
    ]
