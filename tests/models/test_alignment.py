"""Words of a translation and of its source, linked by what the decoder looks at."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nearmt.config.model import PRECISIONS
from nearmt.models import ModelConfig, Seq2SeqModel, TranslationModel, load_model
from nearmt.models.alignment import WORD, Link, align, subword_spans
from nearmt.timing import Timings
from tests.conftest import make_pairs
from tests.models.tokenizers import MAKERS, fsmt_folder, tokenizer_folder
from tests.tiny import FAMILIES, random_sources, tiny_model

every_family = pytest.mark.parametrize("family", FAMILIES)
every_precision = pytest.mark.parametrize("precision", PRECISIONS)

SOURCES = ["die pumpe öffnen .", "der motor", "(ventil) und 日本 nicht schließen ...", "Ölwelle ½ Ｍotor\u00a0-", "x"]
TARGETS = ["open the pump .", "the motor", "do not close (the valve) ...", "oil shaft ½ — motor", "日"]


# What the decoder attends to.


@every_family
@every_precision
def test_attention_is_that_of_transformers(family: str, precision: str) -> None:
    hf: Any = tiny_model(family, 1, decoder_layers=3, num_decoder_layers=3)
    model = Seq2SeqModel(hf, precision=precision)
    sources, targets = random_sources(1), random_sources(2)
    found = model.attention(sources, targets)
    hf.set_attn_implementation("eager")
    for source, target, mine_TS in zip(sources, targets, found, strict=True):
        token_BS, mask_BS = model.padded([source])
        inputs = {"input_ids": token_BS, "attention_mask": mask_BS, "decoder_input_ids": model._fed([target])}
        with torch.inference_mode():
            layers = hf(**inputs, use_cache=False, output_attentions=True, return_dict=True).cross_attentions
        expected_TS = torch.stack(layers[:2]).float().mean(dim=(0, 2))[0, len(model.prompt) :]
        assert mine_TS.shape == (len(target) - 1, len(source)) and mine_TS.dtype == torch.float32
        # Kernels also round activations to 8 bits.
        tolerance = 0.03 if precision == "bf16" else 5e-3 if precision == "int8" else 1e-5
        torch.testing.assert_close(mine_TS, expected_TS, rtol=0, atol=tolerance)


def _outcome(model: Seq2SeqModel) -> list[torch.Tensor]:
    """Everything that decoding is made of."""
    sources, targets = random_sources(3), random_sources(4)
    state = model.encode(sources)
    prompt = torch.tensor([model.prompt] * len(sources))
    token = torch.full((len(sources), 1), 7)
    steps = [*model.step(state, prompt), *model.step(state, token)]
    return [*steps, *model.force_decode(sources, targets), *model.score(sources, targets)]


@every_family
@every_precision
def test_looking_leaves_no_trace(family: str, precision: str) -> None:
    hf = tiny_model(family, 5)
    model = Seq2SeqModel(hf, precision=precision)
    hooks = [len(module._forward_hooks) for module in hf.modules()]
    before = _outcome(model)
    first = model.attention(random_sources(5), random_sources(6))
    assert all(torch.equal(mine, other) for mine, other in zip(_outcome(model), before, strict=True))
    again = model.attention(random_sources(5), random_sources(6))
    assert all(torch.equal(mine, other) for mine, other in zip(first, again, strict=True))
    with pytest.raises(IndexError):
        model.attention([[100_000, 2]], [[5, 2]])
    assert [len(module._forward_hooks) for module in hf.modules()] == hooks


def test_threads_look_for_themselves() -> None:
    model = Seq2SeqModel(tiny_model("marian", 6))
    rows = random_sources(6, count=4)
    expected = [(model.attention([row], [row])[0], model.force_decode([row], [row])[0]) for row in rows]
    wrong: list[int] = []

    def work(number: int) -> None:
        row = rows[number]
        for _ in range(20):
            found = model.attention([row], [row])[0], model.force_decode([row], [row])[0]
            if not all(
                mine.shape == other.shape and torch.allclose(mine, other, atol=1e-4)
                for mine, other in zip(found, expected[number], strict=True)
            ):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


# Spans of subwords.


@given(st.text(), st.lists(st.text()))
def test_spans_never_go_back(text: str, subwords: list[str]) -> None:
    spans = subword_spans(text, subwords)
    assert len(spans) == len(subwords)
    last_start = last_end = 0
    for start, end in spans:
        assert last_start <= start <= end <= len(text) and last_end <= end
        last_start, last_end = start, end


@given(st.lists(st.text(alphabet="aÄßé日１½-. ", min_size=1)))
def test_subwords_of_the_text_are_found(subwords: list[str]) -> None:
    text = "".join(subwords)
    spans, position = subword_spans(text, subwords), 0
    for subword, (start, end) in zip(subwords, spans, strict=True):
        assert text[start:end] == subword.strip()
        assert not subword.strip() or start == text.index(subword.strip(), position)
        position += len(subword)


@pytest.mark.parametrize(
    ("text", "subwords", "expected"),
    [
        ("Die Pumpe", [" Die", " Pum", "pe"], ["Die", "Pum", "pe"]),
        ("STRASSE straße", [" stra", "ße", " strasse"], ["STRA", "SSE", "straße"]),
        ("a\u0308rger", [" är", "ger"], ["a\u0308r", "ger"]),
        ("ein ﬁlter", [" ein", " f", "ilter"], ["ein", "ﬁ", "ﬁlter"]),
        ("ein \u200bFil\u00adter", [" ein", " Fil", "ter"], ["ein", "Fil", "ter"]),
        ("das 日本 öffnen", [" das", " ", "<unk>", " öffnen"], ["das", "", "", "öffnen"]),
        ('"Ein-Aus" &', ["&quot;", "Ein ", "@-@ ", "Aus ", "&quot; ", "&amp; "], ["", "Ein", "", "Aus", "", ""]),
        ("x" + "日" * 40 + "y z", ["x", "<unk>", "<unk>", "<unk>", " y", " z"], ["x", "", "", "", "y", "z"]),
    ],
)
def test_spans_of_normalised_subwords(text: str, subwords: list[str], expected: list[str]) -> None:
    assert [text[start:end] for start, end in subword_spans(text, subwords)] == expected


def test_a_subword_that_is_not_found_has_an_empty_span() -> None:
    assert subword_spans("das 日本 öffnen", [" das", "<unk>", " öffnen"]) == [(0, 3), (4, 4), (7, 13)]


# Links.


def _check(source: str, target: str, links: list[Link]) -> None:
    """Every target word has one link, in order, to a word."""
    source_words = [match.span() for match in WORD.finditer(source)]
    target_words = [match.span() for match in WORD.finditer(target)] if source_words else []
    assert [link.target for link in links] == target_words
    assert {link.source for link in links} <= set(source_words)


@pytest.fixture(scope="module")
def model_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], TranslationModel]:
    @cache
    def loaded(family: str) -> TranslationModel:
        folder = tmp_path_factory.mktemp(family)
        made = fsmt_folder(folder, same_vocabulary=False) if family == "fsmt" else tokenizer_folder(family, folder)
        config = ModelConfig(model=str(made), source_lang="de", target_lang="en", device="cpu")
        return load_model(config)

    return loaded


with_tokenizer = pytest.mark.parametrize("family", [*MAKERS, "fsmt"])


@with_tokenizer
def test_every_target_word_has_a_link(family: str, model_of: Any) -> None:
    found = align(model_of(family), SOURCES, TARGETS)
    for source, target, links in zip(SOURCES, TARGETS, found, strict=True):
        _check(source, target, links)


@with_tokenizer
def test_source_subwords_omit_special_tokens(family: str, model_of: Any) -> None:
    codec = model_of(family).codec
    text = "die pumpe öffnen ."
    subwords = codec.source_subwords(codec.source_ids(text))
    assert "".join(subwords).replace(" ", "") == text.replace(" ", "")
    spans = subword_spans(text, [subword for subword in subwords if subword.strip()])
    assert "".join(text[start:end] for start, end in spans) == text.replace(" ", "")


@with_tokenizer
@pytest.mark.parametrize(
    "text", ["</s>", "<s> motor </s> die", "<unk> <pad>", ">>fra<< motor", "de_DE motor en_XX", "__de__ x"]
)
def test_text_that_looks_like_special_tokens(family: str, text: str, model_of: Any) -> None:
    _check(text, "the motor", align(model_of(family), [text], ["the motor"])[0])
    _check("der motor", text, align(model_of(family), ["der motor"], [text])[0])


def test_a_folder_without_tags(tiny: TranslationModel) -> None:
    for source, target, links in zip(SOURCES, TARGETS, align(tiny, SOURCES, TARGETS), strict=True):
        _check(source, target, links)


def test_batches_do_not_matter(tiny: TranslationModel) -> None:
    pairs = make_pairs(40, seed=3)
    together = align(tiny, [pair.source for pair in pairs], [pair.target for pair in pairs])
    alone = [align(tiny, [pair.source], [pair.target])[0] for pair in pairs]
    assert together == alone


def test_links_differ_with_the_source(tiny: TranslationModel) -> None:
    """They come from the attention, not from the positions."""
    pairs = make_pairs(20, seed=4)
    links = align(tiny, [pair.source for pair in pairs], [pair.target for pair in pairs])
    assert any(mine.source[0] > other.source[0] for found in links for mine, other in pairwise(found))


@pytest.mark.parametrize(
    ("source", "target"), [("", ""), ("", "the pump"), ("die pumpe", ""), (" \t", "a"), ("a", "\n")]
)
def test_no_words_no_links(tiny: TranslationModel, source: str, target: str) -> None:
    assert align(tiny, [source], [target]) == [[]]


def test_nothing_to_align(tiny: TranslationModel) -> None:
    assert align(tiny, [], []) == []


@pytest.mark.parametrize(("sources", "targets"), [(8, 400), (400, 8), (400, 200)])
def test_long_texts_are_linked_along_the_diagonal(tiny: TranslationModel, sources: int, targets: int) -> None:
    source, target = " ".join(["die"] * sources), " ".join(["the"] * targets)
    short = align(tiny, ["der motor"], ["the motor"])[0]
    long, other = align(tiny, [source, "der motor"], [target, "the motor"])
    assert other == short
    assert [link.target for link in long] == [(4 * n, 4 * n + 3) for n in range(targets)]
    places = [link.source[0] // 4 for link in long]
    assert places == [min(round(n * sources / targets), sources - 1) for n in range(targets)]


@pytest.mark.parametrize("count", [60, 61, 62, 63, 64, 65])
def test_around_the_last_position(tiny: TranslationModel, count: int) -> None:
    text = " ".join(["die"] * count)
    _check(text, "the motor", align(tiny, [text], ["the motor"])[0])
    _check("der motor", text, align(tiny, ["der motor"], [text])[0])


@given(st.text(), st.text())
@settings(max_examples=60, deadline=None)
def test_any_text_can_be_aligned(tiny: TranslationModel, source: str, target: str) -> None:
    _check(source, target, align(tiny, [source], [target])[0])


def test_time_is_told(tiny: TranslationModel) -> None:
    with Timings().active() as timings:
        align(tiny, SOURCES, TARGETS)
    assert timings.calls["model/align"] == 1 and timings.calls["model/force_decode"] == 1


# A model that has learned something.

#: Source, target, and for every target word the source words that it may stand for: `der/2` is the second
#: "der", `*` is any word.
GOLD = [
    (
        "Der Motor muss vor der Wartung abgeschaltet werden.",
        "The motor must be switched off before maintenance.",
        "Der Motor muss werden|abgeschaltet abgeschaltet abgeschaltet vor Wartung .",
    ),
    (
        "Drücken Sie die rote Taste, um die Maschine zu stoppen.",
        "Press the red button to stop the machine.",
        "Drücken|Sie die rote Taste um|zu stoppen die/2 Maschine .",
    ),
    (
        "Die Schrauben dürfen nicht zu fest angezogen werden.",
        "The screws must not be tightened too much.",
        "Die Schrauben dürfen nicht werden|angezogen angezogen zu fest .",
    ),
    (
        "Öffnen Sie den Deckel, bevor Sie den Filter herausnehmen.",
        "Open the cover before you remove the filter.",
        "Öffnen|Sie den Deckel bevor Sie/2 herausnehmen den/2 Filter .",
    ),
    (
        "Das Getriebeöl wurde gestern von einem Techniker gewechselt.",
        "The gear oil was changed yesterday by a technician.",
        "Das Getriebeöl Getriebeöl wurde gewechselt gestern von einem Techniker .",
    ),
    (
        "Wenn die Lampe blinkt, ist der Akku leer.",
        "When the lamp flashes, the battery is empty.",
        "Wenn die Lampe blinkt , der Akku ist leer .",
    ),
    (
        "In diesem Kapitel wird die Montage der Pumpe beschrieben.",
        "This chapter describes the assembly of the pump.",
        "diesem Kapitel beschrieben|wird die Montage der der Pumpe .",
    ),
    (
        "Vor jedem Start prüft das Steuergerät die Temperatur.",
        "The control unit checks the temperature before each start.",
        "das Steuergerät Steuergerät prüft die Temperatur Vor jedem Start .",
    ),
    (
        "Ich habe den Bericht noch nicht gelesen.",
        "I have not read the report yet.",
        "Ich habe nicht gelesen den Bericht noch .",
    ),
    (
        "Der Luftdruck in den Reifen sollte regelmäßig kontrolliert werden.",
        "The air pressure in the tyres should be checked regularly.",
        "Der Luftdruck Luftdruck in den Reifen sollte werden|kontrolliert kontrolliert regelmäßig .",
    ),
    (
        "Nach dem Einschalten leuchtet die grüne Anzeige auf.",
        "After switching on, the green indicator lights up.",
        "Nach Einschalten Einschalten * die grüne Anzeige leuchtet|auf auf|leuchtet .",
    ),
    (
        "Ersetzen Sie beschädigte Kabel sofort.",
        "Replace damaged cables immediately.",
        "Ersetzen|Sie beschädigte Kabel sofort .",
    ),
    (
        "Die Datei, die Sie gesucht haben, wurde gelöscht.",
        "The file that you were looking for has been deleted.",
        "Die Datei die|, Sie haben|gesucht gesucht gesucht wurde wurde gelöscht .",
    ),
    (
        "Klicken Sie auf OK, um die Einstellungen zu speichern.",
        "Click OK to save the settings.",
        "Klicken|Sie OK um|zu speichern die Einstellungen .",
    ),
    (
        "Das Kühlwasser muss alle zwei Jahre erneuert werden.",
        "The cooling water must be renewed every two years.",
        "Das Kühlwasser Kühlwasser muss werden|erneuert erneuert alle zwei Jahre .",
    ),
    (
        "Gestern hat der Kunde drei neue Ventile bestellt.",
        "Yesterday the customer ordered three new valves.",
        "Gestern der Kunde bestellt|hat drei neue Ventile .",
    ),
    (
        "Die Sicherheitshinweise finden Sie auf der letzten Seite.",
        "You will find the safety instructions on the last page.",
        "Sie finden|Sie finden Die Sicherheitshinweise Sicherheitshinweise auf der letzten Seite .",
    ),
    (
        "Ohne Schutzbrille darf niemand an der Fräsmaschine arbeiten.",
        "Nobody may work on the milling machine without safety goggles.",
        "niemand darf arbeiten an der Fräsmaschine Fräsmaschine Ohne Schutzbrille Schutzbrille .",
    ),
    (
        "Es ist möglich, dass der Sensor falsch eingestellt ist.",
        "It is possible that the sensor is set incorrectly.",
        "Es ist möglich dass der Sensor ist/2|eingestellt eingestellt falsch .",
    ),
    (
        "Kabel und Stecker dürfen nur von Elektrikern repariert werden.",
        "Cables and plugs may only be repaired by electricians.",
        "Kabel und Stecker dürfen nur werden|repariert repariert von Elektrikern .",
    ),
    (
        "Der Behälter, in dem das Öl gelagert wird, ist aus Stahl.",
        "The container in which the oil is stored is made of steel.",
        "Der Behälter in dem das Öl wird|gelagert gelagert ist ist|aus aus Stahl .",
    ),
    (
        "Bei starkem Regen schaltet sich der Scheibenwischer automatisch ein.",
        "In heavy rain, the windscreen wiper switches on automatically.",
        "Bei starkem Regen * der Scheibenwischer Scheibenwischer schaltet|ein ein|schaltet automatisch .",
    ),
    (
        "Warum hat die Anlage so viel Strom verbraucht?",
        "Why did the system use so much electricity?",
        "Warum hat die Anlage verbraucht so viel Strom ?",
    ),
    (
        "Wir liefern die Ersatzteile innerhalb von 24 Stunden (werktags).",
        "We deliver the spare parts within 24 hours (on weekdays).",
        "Wir liefern die Ersatzteile Ersatzteile innerhalb 24 Stunden ( werktags|( werktags ) .",
    ),
    (
        "Die Breite des Tisches beträgt 1200 mm, seine Höhe 750 mm.",
        "The table is 1200 mm wide and 750 mm high.",
        "des|Die Tisches beträgt 1200 mm Breite *|, 750 mm/2 Höhe .",
    ),
    (
        "Lassen Sie den Motor mindestens zehn Minuten abkühlen.",
        "Let the engine cool down for at least ten minutes.",
        "Lassen|Sie den Motor abkühlen abkühlen * mindestens mindestens zehn Minuten .",
    ),
]


def _is_right(link: Link, source: str, answers: str) -> bool | None:
    """None where any word would do."""
    right = set()
    for answer in answers.split("|"):
        if answer == "*":
            return None
        spelling, _, number = answer.partition("/")
        places = [match.span() for match in WORD.finditer(source) if match.group() == spelling]
        right.add(places[int(number or 1) - 1])
    return link.source in right


def _accuracy(model: TranslationModel) -> float:
    found = align(model, [source for source, _, _ in GOLD], [target for _, target, _ in GOLD])
    marks = [
        mark
        for (source, _, answers), links in zip(GOLD, found, strict=True)
        for link, answer in zip(links, answers.split(), strict=True)
        if (mark := _is_right(link, source, answer)) is not None
    ]
    assert len(marks) > 240
    return sum(marks) / len(marks)


@pytest.mark.embedded
def test_the_embedded_model_links_the_right_words(embedded: TranslationModel) -> None:
    """Measured: 0.988."""
    assert _accuracy(embedded) > 0.96


@pytest.mark.embedded
@pytest.mark.parametrize("precision", ["int8", "bf16"])
def test_other_number_formats_link_as_well(precision: str) -> None:
    """Measured: 0.988 for both."""
    assert _accuracy(load_model(ModelConfig(device="cpu", precision=precision))) > 0.96
