"""Scores equal those of sacrebleu's command line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from nearmt.errors import ConfigError, InputError
from nearmt.research.evaluation import evaluate_file, find_comet, metrics, score
from tests.research.evaluation.outputs import fake_comet, made_references, sacrebleu_command, worsened, write_lines


def test_scores_and_signatures_equal_sacrebleus(tmp_path: Path) -> None:
    references = made_references(40)
    outputs = worsened(references, 0.3, seed=1)
    outputs[3] = ""
    files = (write_lines(tmp_path / "ref.txt", references), "-i", write_lines(tmp_path / "out.txt", outputs))
    printed = json.loads(sacrebleu_command(*files, "-m", "bleu", "chrf", "ter", "-w", 2))
    found = score(outputs, references, ter=True)
    assert [found.bleu, found.chrf, found.ter] == [metric["score"] for metric in printed]
    signatures = [found.bleu_signature, found.chrf_signature, found.ter_signature]
    assert signatures == [metric["signature"] for metric in printed]
    assert found.comet is None and found.comet_model is None


def test_ter_is_computed_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    references = made_references(5)
    with_ter = score(references, references, ter=True)
    monkeypatch.setitem(metrics.METRICS, "ter", "a metric that is not there")
    found = score(references, references)
    assert found == replace(with_ter, ter=None, ter_signature=None)


def test_perfect_and_empty_translations() -> None:
    references = made_references(5)
    best = score(references, references, ter=True)
    assert (best.bleu, best.chrf, best.ter) == (100.0, 100.0, 0.0)
    worst = score([""] * 5, references, ter=True)
    assert (worst.bleu, worst.chrf, worst.ter) == (0.0, 0.0, 100.0)


def test_unequal_lengths_are_refused() -> None:
    with pytest.raises(InputError, match="no pairs"):
        score([], [])
    with pytest.raises(InputError, match="3 translations for 2 references"):
        score(["a", "b", "c"], ["a", "b"])
    with pytest.raises(InputError, match="0 translations for 2 references"):
        score([], ["a", "b"])


def test_comet_needs_sources(tmp_path: Path) -> None:
    comet = find_comet(str(fake_comet(tmp_path / "bin")) + " --gpus 0", "some/model")
    found = score(["a", "b"], ["a", "c"], ["x", "y"], comet)
    assert (found.comet, found.comet_model) == (0.5, "some/model")
    with pytest.raises(ConfigError, match="sources"):
        score(["a", "b"], ["a", "c"], comet=comet)


def test_signature_of_a_file_depends_on_its_content() -> None:
    references = made_references(3)
    one, same = evaluate_file("a.txt", references, references), evaluate_file("a.txt", references, references)
    other = evaluate_file("a.txt", references[::-1], references)
    assert one == same and one.signature != other.signature
    assert "translations:a.txt@" in one.signature and one.sentences == 3
