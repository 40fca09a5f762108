"""Text to ids and back with the real tokenizers of every family, against transformers itself."""

from __future__ import annotations

import json
import shutil
import threading
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from nearmt.decoding import BeamConfig
from nearmt.errors import ModelError
from nearmt.models import ModelConfig, TranslationModel, load_model
from nearmt.translator import Translator
from tests.models.tokenizers import MAKERS, fsmt_folder, tokenizer_folder

TEXTS = ["die pumpe öffnen .", "der motor", "ventil und deckel nicht schließen", "welle"]
#: How each family writes German and English.
TAGS = {
    "mbart": ("de_DE", "en_XX"),
    "mbart50": ("de_DE", "en_XX"),
    "nllb": ("deu_Latn", "eng_Latn"),
    "m2m_100": ("__de__", "__en__"),
}
#: The prompt that T5 was trained with.
PROMPT = "translate German to English: "

multilingual = pytest.mark.parametrize("family", MAKERS)
tagged = pytest.mark.parametrize("family", TAGS)


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory: pytest.TempPathFactory) -> Any:
    @cache
    def made(family: str) -> Path:
        return tokenizer_folder(family, tmp_path_factory.mktemp(family))

    return made


@pytest.fixture(scope="module")
def model_of(folder_of: Any) -> Any:
    @cache
    def loaded(family: str, source: str = "de", target: str = "en") -> TranslationModel:
        config = ModelConfig(str(folder_of(family)), source, target, precision="fp32", device="cpu")
        return load_model(config)

    return loaded


@pytest.mark.parametrize("together", [1, 3, 256])
@pytest.mark.parametrize("family", [*MAKERS, "fsmt", "marian"])
def test_many_texts_are_tokenized_as_each_alone(
    family: str, together: int, folder_of: Any, model_of: Any, tiny: TranslationModel, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("nearmt.models.codec._TOGETHER", together)
    if family == "fsmt":
        codec = load_model(
            ModelConfig(str(fsmt_folder(tmp_path, same_vocabulary=False)), precision="fp32", device="cpu")
        ).codec
    else:
        codec = tiny.codec if family == "marian" else model_of(family).codec
    texts = [*TEXTS, "", " ", "</s> welle", "unbekannt"] * 2
    assert codec.source_batch(texts) == [codec.source_ids(text) for text in texts]
    assert codec.target_batch(texts) == [codec.target_ids(text) for text in texts]
    assert codec.source_batch([]) == codec.target_batch([]) == []


@tagged
def test_language_tags_are_forced(family: str, folder_of: Any, model_of: Any) -> None:
    model = model_of(family)
    tokenizer = AutoTokenizer.from_pretrained(folder_of(family))
    english = tokenizer.convert_tokens_to_ids(TAGS[family][1])
    assert english != tokenizer.unk_token_id
    if family == "mbart":  # the language is the start token
        assert model.seq2seq.prompt == [english]
    else:
        assert model.seq2seq.prompt == [tokenizer.eos_token_id, english]
    french = model_of(family, "de", "fr")
    assert (
        french.seq2seq.prompt[-1]
        == tokenizer.convert_tokens_to_ids({"fr_XX", "fra_Latn", "__fr__"} & set(tokenizer.get_vocab()))[0]
    )
    assert french.fingerprint == model.fingerprint


@tagged
def test_sources_carry_their_language_once(family: str, folder_of: Any, model_of: Any) -> None:
    model = model_of(family)
    tokenizer = AutoTokenizer.from_pretrained(folder_of(family))
    german = tokenizer.convert_tokens_to_ids(TAGS[family][0])
    ids = model.codec.source_ids(TEXTS[0])
    assert ids.count(german) == 1 and ids.count(tokenizer.eos_token_id) == 1
    assert tokenizer.unk_token_id not in ids
    # |x|: subwords and end of sentence
    assert model.codec.source_length(ids) == len(ids) - 1
    # what the tokenizer of transformers makes of it
    tokenizer.src_lang = TAGS[family][0].strip("_")
    assert ids == tokenizer(TEXTS[0]).input_ids


@multilingual
def test_targets_end_and_have_no_tags(family: str, folder_of: Any, model_of: Any) -> None:
    codec = model_of(family).codec
    tokenizer = AutoTokenizer.from_pretrained(folder_of(family))
    tags = set(tokenizer.convert_tokens_to_ids(list(TAGS.get(family, ()))))
    for text in ("the pump .", "open the valve and close the cover", "a"):
        ids = codec.target_ids(text)
        assert ids[-1] == tokenizer.eos_token_id and ids.count(tokenizer.eos_token_id) == 1
        assert not tags & set(ids)
        assert ids[:-1] == tokenizer(text, add_special_tokens=False).input_ids
        assert codec.text(ids) == text
    assert codec.target_ids("") == [tokenizer.eos_token_id]


@multilingual
def test_reading_a_target_leaves_the_source_side_alone(family: str, model_of: Any) -> None:
    codec = model_of(family).codec
    before = codec.source_ids(TEXTS[0])
    codec.target_ids("the pump .")
    assert codec.source_ids(TEXTS[0]) == before


@multilingual
def test_threads_do_not_mix_the_sides(family: str, model_of: Any) -> None:
    codec = model_of(family).codec
    source, target = codec.source_ids(TEXTS[0]), codec.target_ids("the pump .")
    wrong: list[str] = []

    def work(side: str) -> None:
        for _ in range(40):
            if side == "source" and codec.source_ids(TEXTS[0]) != source:
                wrong.append(side)
            if side == "target" and codec.target_ids("the pump .") != target:
                wrong.append(side)

    threads = [threading.Thread(target=work, args=(side,)) for side in ("source", "target") * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def generated(family: str, folder: Path, beams: int) -> list[str]:
    """What transformers alone translates, told the languages as its documentation says."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    hf: Any = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    told: dict[str, Any] = {}
    texts = [PROMPT + text for text in TEXTS] if family == "t5" else TEXTS
    if family in TAGS:
        tokenizer.src_lang = TAGS[family][0].strip("_")
        english = tokenizer.convert_tokens_to_ids(TAGS[family][1])
        told = {"decoder_start_token_id" if family == "mbart" else "forced_bos_token_id": english}
    if beams > 1:
        told |= {"early_stopping": False, "length_penalty": 1.0}
    found = []
    for text in texts:  # one at a time: padding is another test's business
        encoded = tokenizer(text, return_tensors="pt")
        out = hf.generate(**encoded, num_beams=beams, do_sample=False, max_new_tokens=20, **told)
        found.append(tokenizer.decode(out[0], skip_special_tokens=True).strip())
    return found


@pytest.mark.parametrize("beams", [1, 4])
@multilingual
def test_translates_like_transformers(family: str, beams: int, folder_of: Any, model_of: Any) -> None:
    translator = Translator(model_of(family), beam=BeamConfig(beams=beams, max_new_tokens=20))
    found = [translation.text for translation in translator.translate(TEXTS)]
    assert found == generated(family, folder_of(family), beams)
    assert len(set(found)) > 1


@pytest.mark.parametrize("beams", [1, 4])
def test_marian_translates_like_transformers(beams: int, tiny: TranslationModel, tiny_folder: Path) -> None:
    translator = Translator(tiny, beam=BeamConfig(beams=beams, max_new_tokens=20))
    found = [translation.text for translation in translator.translate(TEXTS)]
    assert found == generated("marian", tiny_folder, beams)
    assert len(set(found)) > 1


@multilingual
def test_both_languages_are_asked_for(family: str, folder_of: Any) -> None:
    for languages in ({}, {"source_lang": "de"}, {"target_lang": "en"}):
        with pytest.raises(ModelError, match="is multilingual: give --source-lang and --target-lang"):
            load_model(ModelConfig(model=str(folder_of(family)), device="cpu", **languages))


@multilingual
def test_an_unknown_language_is_one_line(family: str, folder_of: Any) -> None:
    config = ModelConfig(model=str(folder_of(family)), source_lang="de", target_lang="tlh", device="cpu")
    with pytest.raises(ModelError, match="does not know the language 'tlh'") as caught:
        load_model(config)
    assert "\n" not in str(caught.value)


def test_t5_is_asked_in_english(model_of: Any, folder_of: Any) -> None:
    model = model_of("t5")
    tokenizer = AutoTokenizer.from_pretrained(folder_of("t5"))
    ids = model.codec.source_ids("die pumpe")
    assert ids == tokenizer(PROMPT + "die pumpe").input_ids
    assert tokenizer.unk_token_id not in ids
    # The prompt is no part of |x|.
    assert model.codec.source_length(ids) == len(tokenizer("die pumpe").input_ids)
    assert model.seq2seq.prompt == [0]


# Marian.


def test_marian_sides(tiny: TranslationModel, tiny_folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny_folder)
    assert tiny.codec.source_ids(TEXTS[0]) == tokenizer(TEXTS[0]).input_ids
    ids = tiny.codec.target_ids("the pump .")
    assert ids == tokenizer(text_target="the pump .").input_ids and ids[-1] == 0
    assert tiny.codec.text(ids) == "the pump ."
    assert tiny.codec.source_length(tiny.codec.source_ids(TEXTS[0])) == len(tiny.codec.source_ids(TEXTS[0]))
    assert tiny.codec.target_ids("") == [0]


def test_an_end_of_sentence_within_the_text_is_not_two(tiny: TranslationModel) -> None:
    ids = tiny.codec.target_ids("the pump </s> the valve")
    assert ids.count(0) == 1 and ids[-1] == 0


@pytest.fixture(scope="module")
def many_targets(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Marian model that is told its target language by a token before the source."""
    folder = Path(shutil.copytree(tiny_folder, tmp_path_factory.mktemp("many") / "many"))
    vocabulary = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    for piece, tag in (("▁always", ">>fra<<"), ("▁immer", ">>eng<<")):
        vocabulary[tag] = vocabulary.pop(piece)
    (folder / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    settings = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    (folder / "tokenizer_config.json").write_text(json.dumps({**settings, "target_lang": "mul"}), encoding="utf-8")
    return folder


@pytest.mark.parametrize(("language", "tag"), [("fr", ">>fra<<"), ("en", ">>eng<<")])
def test_marian_with_many_targets_is_told_which(language: str, tag: str, many_targets: Path) -> None:
    model = load_model(ModelConfig(model=str(many_targets), target_lang=language, device="cpu", precision="fp32"))
    tokenizer = AutoTokenizer.from_pretrained(many_targets)
    ids = model.codec.source_ids("die pumpe")
    assert ids[0] == tokenizer.convert_tokens_to_ids(tag)
    assert model.codec.source_length(ids) == len(ids) - 1
    assert model.language_pair == ("de", language)
    assert model.codec.target_ids("the pump") == tokenizer(text_target="the pump").input_ids
    assert model.seq2seq.prompt == [model.seq2seq.start_id]


def test_marian_with_many_targets_names_them(many_targets: Path) -> None:
    with pytest.raises(ModelError, match=r"does not know the language 'xx'.*eng, fra"):
        load_model(ModelConfig(model=str(many_targets), target_lang="xx", device="cpu"))


# FSMT.


def test_fsmt_translates_like_transformers(tmp_path: Path) -> None:
    folder = fsmt_folder(tmp_path, same_vocabulary=True)
    model = load_model(ModelConfig(model=str(folder), device="cpu", precision="fp32"))
    assert model.language_pair == ("de", "en")
    found = Translator(model, beam=BeamConfig(beams=4, max_new_tokens=20)).translate(TEXTS)
    assert [translation.text for translation in found] == generated("fsmt", folder, 4)


def test_fsmt_targets_end(tmp_path: Path) -> None:
    codec = load_model(ModelConfig(model=str(fsmt_folder(tmp_path, same_vocabulary=True)), device="cpu")).codec
    ids = codec.target_ids("the pump")
    assert ids[-1] == 2 and ids.count(2) == 1 and None not in ids
    assert codec.text(ids) == "the pump"


def test_fsmt_targets_are_of_the_target_vocabulary(tmp_path: Path) -> None:
    codec = load_model(ModelConfig(model=str(fsmt_folder(tmp_path, same_vocabulary=False)), device="cpu")).codec
    assert codec.text(codec.target_ids("the pump")) == "the pump"
