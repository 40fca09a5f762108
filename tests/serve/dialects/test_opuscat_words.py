"""Words of OPUS-CAT."""

from __future__ import annotations

from nearmt.models.alignment import Link
from nearmt.serve.dialects.opuscat.words import aligned_words


def test_texts_can_be_put_together_from_words() -> None:
    source, target = "Die Pumpe (neu), läuft.", "The new pump's on."
    found = aligned_words(source, target, [Link((4, 9), (8, 12))])
    assert "".join(found["segmentedSourceSentence"]).replace("▁", " ").strip() == source
    assert "".join(found["segmentedTranslation"]).replace("▁", " ").strip() == target
    assert found["alignmentString"] == "1-2"
    assert (found["segmentedAlignmentSourceToTarget"], found["segmentedAlignmentTargetToSource"]) == (
        {"1": [2]},
        {"2": [1]},
    )


def test_several_words_may_belong_to_one() -> None:
    links = [Link((0, 3), (0, 1)), Link((0, 3), (2, 3))]
    found = aligned_words("eins", "a b", links)
    assert found["segmentedAlignmentSourceToTarget"] == {"0": [0, 1]}


def test_without_words_there_is_no_alignment() -> None:
    assert aligned_words("", "", []) == {"alignmentString": None}
