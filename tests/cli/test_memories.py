"""Several datastores and filters on the command line."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from nearmt.cli.setup import make_plan, weighted_stores
from nearmt.contracts import Pair
from nearmt.datastore import Datastore
from nearmt.datastore.disk import Manifest
from nearmt.errors import ConfigError, DatastoreError
from nearmt.models import TranslationModel
from tests.cli.conftest import Nearmt
from tests.conftest import make_pairs

GIVEN = (
    *("--method", "knn", "--set", "lambda=0.6", "--set", "temperature=20", "--set", "ends=all"),
    *("--set", "guard=false", "--set", "max-new-tokens=8", "--beams", 2),
)


@pytest.fixture(scope="module")
def stores(tiny: TranslationModel, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """A domain's memory, a customer's, and one of all their pairs."""
    folder = tmp_path_factory.mktemp("memories")
    pairs = make_pairs(44, seed=5)
    pairs = [Pair(p.source, p.target, origin=f"{n % 2}.tmx", metadata={"n": str(n)}) for n, p in enumerate(pairs)]
    parts = {"domain": pairs[:30], "customer": pairs[30:], "both": pairs}
    built = [Datastore.build(folder / name, part, tiny).path for name, part in parts.items()]
    return built[0], built[1], built[2]


def test_two_stores_translate_as_one_of_both(stores: tuple[Path, Path, Path], text: Path, nearmt: Nearmt) -> None:
    domain, customer, both = stores
    joined = nearmt("translate", text, *GIVEN, "--datastore", domain, "--datastore", f"{customer}=1")
    assert joined.code == 0
    assert joined.out == nearmt("translate", text, *GIVEN, "--datastore", both).out
    assert joined.out != nearmt("translate", text, *GIVEN, "--datastore", domain).out


def test_weights_count(stores: tuple[Path, Path, Path], text: Path, nearmt: Nearmt) -> None:
    domain, customer, _ = stores
    absent = nearmt("translate", text, *GIVEN, "--datastore", domain, "--datastore", f"{customer}=0")
    assert absent.out == nearmt("translate", text, *GIVEN, "--datastore", domain).out
    named = ("--datastore", domain, "--datastore", f"{customer}=0.5")
    weighted = nearmt("translate", text, *GIVEN, *named, "--verbose")
    assert weighted.code == 0 and "*1+" in weighted.err and "*0.5|" in weighted.err


def test_a_file_names_stores_and_filters(
    stores: tuple[Path, Path, Path], text: Path, tmp_path: Path, nearmt: Nearmt
) -> None:
    domain, customer, both = stores
    (tmp_path / "two.toml").write_text(f'datastore = ["{domain}", "{customer}"]\n', encoding="utf-8")
    (tmp_path / "one.toml").write_text(f'datastore = "{both}"\nfilter = "origin=1.tmx"\n', encoding="utf-8")
    joined = nearmt("translate", text, *GIVEN, "--config", tmp_path / "two.toml")
    assert joined.out == nearmt("translate", text, *GIVEN, "--datastore", both).out
    filtered = nearmt("translate", text, *GIVEN, "--config", tmp_path / "one.toml")
    assert filtered.code == 0
    assert filtered.out == nearmt("translate", text, *GIVEN, "--datastore", both, "--filter", "origin=1.*").out
    (tmp_path / "bad.toml").write_text("datastore = [1]\n", encoding="utf-8")
    failed = nearmt("translate", text, "--config", tmp_path / "bad.toml")
    assert failed.code == 2 and "datastore = (1,): must be text, or a list of texts" in failed.err


def test_evaluate_compares_with_and_without_a_filter(
    stores: tuple[Path, Path, Path], tmp_path: Path, memory: Path, nearmt: Nearmt
) -> None:
    domain, customer, both = stores
    options = ("evaluate", "--test", memory, "--limit", 3, *GIVEN, "--json")
    joined = nearmt(*options, "--datastore", domain, "--datastore", customer)
    alone = nearmt(*options, "--datastore", both)
    filtered = nearmt(*options, "--datastore", domain, "--datastore", customer, "--filter", "n=4*")
    found = [json.loads(result.out) for result in (joined, alone, filtered)]
    assert found[0]["bleu"] == found[1]["bleu"] and found[0]["chrf"] == found[1]["chrf"]
    assert "filter[n=4*]" in filtered.out and "filter" not in joined.out


def test_tune_takes_several_stores(
    stores: tuple[Path, Path, Path], memory: Path, tmp_path: Path, nearmt: Nearmt
) -> None:
    domain, customer, _ = stores
    out = tmp_path / "tuned.toml"
    options = ("--dev", memory, "--limit", 2, "--budget", 1, "--set", "max-new-tokens=4", "--out", out, "--json")
    tuned = nearmt("tune", domain, f"{customer}=0.5", "--filter", "n=*", *options)
    assert tuned.code == 0, tuned.err
    assert "*0.5-filter[n=*]" in json.loads(tuned.out)["signature"]
    assert nearmt("tune", "--dev", memory).code == 2


def test_pairs_are_held_out_of_several_stores(stores: tuple[Path, Path, Path], tmp_path: Path, nearmt: Nearmt) -> None:
    domain, customer, _ = stores
    options = ("--limit", 2, "--budget", 1, "--set", "max-new-tokens=4", "--out", tmp_path / "tuned.toml", "--json")
    assert nearmt("tune", domain, customer, *options).code == 0
    few = nearmt("tune", domain, customer, "--filter", "n=1*", *options)
    assert few.code == 1 and "11 pairs are too few to hold out a part of the memory" in few.err


# How they are named.


def test_names_and_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b", "b=0.5", "c=x"):
        Path(name).mkdir()
    assert weighted_stores(["a", "b=0.5"]) == (("a", 1.0), ("b=0.5", 1.0))  # a folder of this name is there
    shutil.rmtree("b=0.5")
    assert weighted_stores(["a", "b=0.5"]) == (("a", 1.0), ("b", 0.5))
    assert weighted_stores(["c=x", "c=x=2", "b=0"][1:]) == (("c=x", 2.0),)
    assert weighted_stores(["no=such"]) == (("no=such", 1.0),)
    for text in ("b=-1", "b=nan", "b=inf", "b=half", "b="):
        with pytest.raises(ConfigError, match="must be a number of at least 0"):
            weighted_stores([text])
    with pytest.raises(ConfigError, match="named twice"):
        weighted_stores(["a", "./a=2"])
    with pytest.raises(ConfigError, match="no datastore has a weight above 0"):
        weighted_stores(["a=0"])


def test_what_cannot_be_used_is_one_line(stores: tuple[Path, Path, Path], text: Path, nearmt: Nearmt) -> None:
    domain, *_ = stores
    failures = [
        nearmt("translate", text, "--datastore", domain, "--datastore", "nowhere=0.5"),
        nearmt("translate", text, "--filter", "n=1"),
        nearmt("translate", text, "--datastore", domain, "--filter", "n"),
        nearmt("translate", text, "--datastore", domain, "--filter", "m=1"),
    ]
    messages = [
        "nowhere: no such datastore",
        "there is nothing to filter; give --datastore DIR",
        "give KEY=VALUE, for example project=manual",
        "no pair has 'm'; known are id, origin, n",
    ]
    for failure, message in zip(failures, messages, strict=True):
        assert failure.code in (1, 2) and failure.out == ""
        assert message in failure.err and failure.err.count("\n") == 1


def test_stores_that_do_not_fit_are_refused_before_anything_is_loaded(
    stores: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    domain, customer, _ = stores
    other = tmp_path / "other"
    shutil.copytree(customer, other)
    replace(Manifest.load(other), fingerprint="another").save(other)
    with pytest.raises(DatastoreError, match="cannot be searched together: built with models"):
        make_plan({"datastore": (str(domain), str(other))})
