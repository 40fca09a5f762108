"""Text in, translations out, with their provenance."""

from __future__ import annotations

import pytest
import torch

from nearmt.contracts import Pair
from nearmt.corpus.marks import MarkedText
from nearmt.datastore import Datastore
from nearmt.decoding import BeamConfig
from nearmt.errors import ConfigError
from nearmt.methods import ChunkMethod, KnnMethod
from nearmt.models import TranslationModel
from nearmt.translator import SourcePart, Translator

BEAM = BeamConfig(beams=3, max_new_tokens=12)


def test_order_and_empty_units(tiny: TranslationModel) -> None:
    translator = Translator(tiny, beam=BEAM, batch_size=2)
    texts = ["ventil", "", "die pumpe vor der welle immer reinigen", " \t", "motor"]
    together = translator.translate(texts)
    assert [t.text == "" for t in together] == [False, True, False, True, False]
    assert [t.text for t in together] == [translator.translate(text).text for text in texts]
    assert [t.source for t in together] == ["ventil", "", "die pumpe vor der welle immer reinigen", "", "motor"]
    assert translator.translate([]) == []


@pytest.mark.parametrize("method", ["plain", "knn", "chunk", "efficient"])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_translation_does_not_depend_on_what_runs_beside_it(
    tiny: TranslationModel, tiny_store: Datastore, tiny_pairs: list[Pair], method: str, threads: int
) -> None:
    texts = [pair.source for pair in tiny_pairs]
    settings = {"reuse-scope": "source"} if method == "efficient" else {}
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        found = [
            Translator(tiny, tiny_store, method, settings, BEAM, batch_size).translate(texts)
            for batch_size in (1, 3, len(texts))
        ]
    finally:
        torch.set_num_threads(before)
    assert [each.text for each in found[0]] == [each.text for each in found[1]] == [each.text for each in found[2]]
    assert [each.searches for each in found[0]] == [each.searches for each in found[1]]
    assert [each.steps for each in found[0]] == [each.steps for each in found[2]]


@pytest.mark.parametrize(("batch_size", "threads", "count"), [(2, 1, 4), (2, 3, 6), (40, 4, 2)])
def test_runs_are_alike_and_begin_with_the_longest(
    tiny: TranslationModel,
    tiny_pairs: list[Pair],
    batch_size: int,
    threads: int,
    count: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("nearmt.translator.workers", lambda: threads)
    translator = Translator(tiny, batch_size=batch_size)
    sources = [
        part for number, pair in enumerate(tiny_pairs) for part in translator._parts(number, MarkedText(pair.source))
    ]
    requests = translator._requests(sources, explain=False)
    assert len(requests) == count
    assert sorted(position for request in requests for position in request) == list(range(len(sources)))
    work = []
    for request in requests:
        lengths = [sources[position].length for position in request]
        assert lengths == sorted(lengths, reverse=True)
        work.append(sum(lengths))
    # The work of two requests differs by one batch at most.
    assert max(work) - min(work) <= batch_size * max(source.length for source in sources)
    assert {len(request) for request in translator._requests(sources, explain=True)} <= {
        batch_size,
        len(sources) % batch_size,
    }


def test_the_next_batch_goes_to_the_request_with_the_least_work(
    tiny: TranslationModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearmt.translator.workers", lambda: 2)
    sources = [SourcePart(number, [1] * length, length) for number, length in enumerate([9, 9, 5, 5, 3, 3])]
    assert Translator(tiny, batch_size=2)._requests(sources, explain=False) == [[0, 1], [2, 3, 4, 5]]


def test_methods_that_share_a_batch_keep_it(tiny: TranslationModel, tiny_store: Datastore) -> None:
    translator = Translator(tiny, tiny_store, "chunk", {"scope": "batch"}, BEAM, 2)
    sources = [part for number in range(5) for part in translator._parts(number, MarkedText("motor " * (number + 1)))]
    assert translator._requests(sources, explain=False) == [[0, 1], [2, 3], [4]]


def test_one_unit_is_one_translation(tiny: TranslationModel) -> None:
    assert Translator(tiny, beam=BEAM).translate("motor").tokens > 0


def test_control_characters_do_not_matter(tiny: TranslationModel) -> None:
    translator = Translator(tiny, beam=BEAM)
    assert translator.translate("die\u0000 \u200b".replace("\u200b", "") + "\tpumpe").text == (
        translator.translate("die pumpe").text
    )


def test_defaults_follow_the_datastore(tiny: TranslationModel, tiny_store: Datastore) -> None:
    assert "method:plain" in Translator(tiny).signature()
    assert "method:chunk" in Translator(tiny, tiny_store).signature()
    assert "method:knn" in Translator(tiny).with_datastore(tiny_store, "knn").signature()
    method = KnnMethod(tiny_store)
    assert Translator(tiny, tiny_store, method).method is method


def test_temperatures_come_from_the_store(tiny: TranslationModel, tiny_store: Datastore) -> None:
    signature = Translator(tiny, tiny_store).signature()
    assert "temperature:None" not in signature
    given = Translator(tiny, tiny_store, "knn", {"temperature": 7.0, "lambda": 0.25}).signature()
    assert "temperature:7" in given and "lambda:0.25" in given


def test_bad_use(tiny: TranslationModel, tiny_store: Datastore) -> None:
    with pytest.raises(ConfigError, match="batch-size = 0"):
        Translator(tiny, batch_size=0)
    with pytest.raises(ConfigError, match="needs a datastore"):
        Translator(tiny, None, "knn")
    with pytest.raises(ConfigError, match="unknown setting 'lamda'"):
        Translator(tiny, tiny_store, "knn", {"lamda": 0.5})
    with pytest.raises(ConfigError, match="must be one of"):
        Translator(tiny, tiny_store, "nearest")


def test_a_long_source_is_split_and_joined(tiny: TranslationModel) -> None:
    translator = Translator(tiny, beam=BeamConfig(beams=1, max_new_tokens=20))
    sentence = "die pumpe prüfen und den motor reinigen."
    long = translator.translate(" ".join([sentence] * 40))
    assert long.source_parts > 1
    assert long.text.count(" ") >= long.source_parts - 1
    assert long.tokens > 20
    assert translator.translate("pumpe" * 600).source_parts > 1


def test_provenance_adds_up(tiny: TranslationModel, tiny_store: Datastore) -> None:
    translator = Translator(tiny, tiny_store, "chunk", {"ends": "all", "agreement": 0}, BEAM)
    plain, explained = translator.translate("die pumpe prüfen"), translator.translate("die pumpe prüfen", explain=True)
    assert plain.provenance is None and explained.provenance is not None
    assert (plain.text, plain.searches) == (explained.text, explained.searches)
    assert len(explained.provenance) == explained.tokens
    assert explained.provenance[0].searched
    known = {pair.id for pair in tiny_store.pairs()}
    for token in explained.provenance:
        share = sum(witness.share for witness in token.witnesses)
        assert 0 <= share <= 1 + 1e-5
        assert {witness.pair_id for witness in token.witnesses} <= known
        assert bool(token.chunks) == token.searched
        assert (token.origin == "model") == (not token.witnesses)
        # Equation 3 for this token: (1 - lambda) p_NMT + lambda p_kNN, lambda as the step had it.
        assert isinstance(translator.method, ChunkMethod)
        weight = translator.method.config.weight or 0.0
        if token.searched:
            expected = (1 - weight) * token.model_probability + weight * share
            assert token.probability == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("method", ["knn", "chunk"])
def test_provenance_names_silenced_neighbours(tiny: TranslationModel, tiny_store: Datastore, method: str) -> None:
    """With all that neighbours lost given to the model, the step's equation still adds up."""
    settings = {"ends": "all", "agreement": 0.75, "guard": False}
    translator = Translator(tiny, tiny_store, method, settings, BEAM)
    text = "die pumpe prüfen"
    plain, explained = translator.translate(text), translator.translate(text, explain=True)
    assert explained.provenance is not None and plain.text == explained.text
    known = {pair.id for pair in tiny_store.pairs()}
    silenced = [each for token in explained.provenance for each in token.silenced]
    assert silenced and {each.pair_id for each in silenced} <= known
    for token in explained.provenance:
        shares = [each.share for each in token.silenced]
        assert shares == sorted(shares, reverse=True) and 0 <= sum(shares) <= 0.75 + 1e-5
    off = Translator(tiny, tiny_store, method, {**settings, "agreement": 0}, BEAM).translate(text, explain=True)
    assert not any(token.silenced for token in off.provenance or ())


@pytest.mark.parametrize("method", ["plain", "knn"])
def test_provenance_of_other_methods(tiny: TranslationModel, tiny_store: Datastore, method: str) -> None:
    translator = Translator(tiny, tiny_store if method == "knn" else None, method, beam=BEAM)
    found = translator.translate("der motor", explain=True)
    assert found.provenance is not None
    assert all(token.searched == (method == "knn") for token in found.provenance)
    if method == "plain":
        for token in found.provenance:
            assert token.probability == pytest.approx(token.model_probability, abs=1e-5)


def test_a_memory_is_followed(tiny: TranslationModel, tmp_path: object) -> None:
    """With all weight on one stored pair, its source becomes its target."""
    pair = Pair("die pumpe immer reinigen", "always clean the pump")
    store = Datastore.build(f"{tmp_path}/one", [pair], tiny)
    sure = {"lambda": 1.0, "k": 1, "cache-lambda": 1.0}
    assert Translator(tiny, store, "chunk", sure).translate(pair.source).text == pair.target


@pytest.mark.embedded
def test_precisions_of_the_embedded_model_mean_the_same() -> None:
    from nearmt.models import ModelConfig

    text = "Die Kinder spielen im Garten."
    fp32 = Translator(ModelConfig(device="cpu", precision="fp32")).translate(text)
    assert "children" in fp32.text.lower() and "garden" in fp32.text.lower()
    for precision in ("bf16", "int8"):
        other = Translator(ModelConfig(device="cpu", precision=precision)).translate(text)
        assert "children" in other.text.lower() and "garden" in other.text.lower()
        assert other.score == pytest.approx(fp32.score, abs=0.1)


@pytest.mark.embedded
def test_the_embedded_model_is_bilingual(embedded: TranslationModel) -> None:
    assert embedded.language_pair == ("de", "en")
    assert embedded.seq2seq.positions == 512
    units = ["Das ist ein Satz. " * 400, "Wort " * 10_000]
    translator = Translator(embedded, beam=BeamConfig(beams=1, max_new_tokens=8))
    assert [found.source_parts > 3 for found in translator.translate(units)] == [True, True]


def test_old_names_work_with_a_warning(tiny: TranslationModel, tiny_store: Datastore) -> None:
    with pytest.warns(DeprecationWarning, match=r"Translator\(search=...\) is now beam"):
        translator = Translator(tiny, search=BEAM)
    with pytest.warns(DeprecationWarning, match="Translator.search is now beam"):
        assert translator.search is translator.beam is BEAM
    found = translator.translate("motor")
    with pytest.warns(DeprecationWarning, match="Translation.pieces is now source_parts"):
        assert found.pieces == found.source_parts == 1
    with pytest.warns(DeprecationWarning, match=r"Datastore.open\(search=...\) is now nominate"):
        assert len(Datastore.open(tiny_store.path, search="exact")) == len(tiny_store)
