"""The networks of other papers against their formulas in float64, one neighbour at a time."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from nearmt.contracts import Scores
from nearmt.datastore import Datastore
from nearmt.decoding import BeamConfig
from nearmt.engines.base import Retrieved
from nearmt.errors import ConfigError, InputError
from nearmt.methods import make_method
from nearmt.methods.adaptive import AdaptiveMixer, HeadShape, NetworkOrigin, load_adaptive, save_adaptive
from nearmt.methods.mixing import Votes
from nearmt.methods.networks import Network, new_network
from nearmt.models import TranslationModel
from nearmt.translator import Translator
from tests.conftest import make_pairs

K, COLUMNS, VOCABULARY, SCALE = 4, 3, 12, 5.0
NETWORKS = ("kernel-smoothed", "robust")
BEAM = BeamConfig(beams=3, max_new_tokens=12)
TEXTS = [pair.source for pair in make_pairs(6, seed=5)]

Weights = dict[str, np.ndarray]


def made(network: str, seed: int = 0, k: int = K, columns: int = COLUMNS) -> Network:
    """With weights that matter."""
    torch.manual_seed(seed)
    head = new_network(HeadShape(k, False, SCALE, network, columns), 1.0)
    with torch.no_grad():
        for weight in head.parameters():
            weight.copy_(torch.randn_like(weight))
    return head.requires_grad_(False)


def weights_of(head: Network) -> Weights:
    return {name: value.double().numpy() for name, value in head.state_dict().items()}


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def shares(scores: list[float], counts: list[float]) -> list[float]:
    """n_j exp(s_j), normalised."""
    terms = [count * math.exp(score - max(scores)) for score, count in zip(scores, counts, strict=True)]
    return [term / sum(terms) for term in terms]


def kernel_smoothed(
    w: Weights, query: np.ndarray, keys: list[np.ndarray], counts: list[float]
) -> tuple[float, list[float]]:
    """lambda, and the share of each neighbour."""
    query, keys = query / math.sqrt(SCALE), [key / math.sqrt(SCALE) for key in keys]
    mean = sum(keys) / len(keys)
    h = math.exp(float(w["bandwidth.weight"][0] @ np.concatenate([query, mean]) + w["bandwidth.bias"][0]))
    found = shares([-float(np.linalg.norm(query - key)) / h for key in keys], counts)
    smooth = sum(share * key for share, key in zip(found, keys, strict=True))
    hidden = np.maximum(0, w["hidden.weight"] @ np.concatenate([query, smooth]) + w["hidden.bias"])
    return sigmoid(float(w["output.weight"][0] @ hidden + w["output.bias"][0])), found


def robust(
    w: Weights, distances: list[float], tokens: list[int], counts: list[float], log_prob_V: np.ndarray
) -> tuple[float, list[float]]:
    """lambda, and the share of each neighbour; what is missing of K counts as far, and as impossible."""

    def confidence(x: float) -> float:
        return max(x, -12.0) / 12.0

    missing = K - len(distances)
    near = [min(d / SCALE, 8.0) for d in distances] + [8.0] * missing
    different = [len(set(tokens[: r + 1])) / K for r in range(K)]
    h = np.tanh(w["hidden.weight"] @ np.array(near + different) + w["hidden.bias"])
    s_knn, steepness = w["output.weight"] @ h + w["output.bias"]
    spoken = [confidence(float(log_prob_V[token])) for token in tokens] + [-1.0] * missing
    best = [confidence(float(x)) for x in sorted(log_prob_V, reverse=True)[:8]]
    s_nmt = float(w["confidence.weight"][0] @ np.array(best + spoken) + w["confidence.bias"][0])
    corrections = [
        float(
            w["calibration.2.weight"][0] @ np.tanh(w["calibration.0.weight"][:, 0] * x + w["calibration.0.bias"])
            + w["calibration.2.bias"][0]
        )
        for x in spoken
    ]
    inverse = 4 * sigmoid(float(steepness)) / SCALE
    scores = [-d * inverse + c for d, c in zip(distances, corrections, strict=False)]
    return sigmoid(float(s_knn) - s_nmt), shares(scores, counts)


def neighbours(seed: int, there: int) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Query, keys, squared distances, tokens and counts of a row with so many neighbours, nearest first."""
    generator = torch.Generator().manual_seed(seed)
    query_BD, key_BKD = (3 * torch.randn(1, *size, COLUMNS, generator=generator) for size in ((), (K,)))
    distance_BK, order_BK = (key_BKD - query_BD[:, None]).square().sum(dim=2).sort(dim=1)
    distance_BK[:, there:] = torch.inf
    token_BK = torch.randint(0, 3, (1, K), generator=generator)
    count_BK = torch.randint(1, 4, (1, K), generator=generator).float()
    return query_BD, key_BKD.gather(1, order_BK[:, :, None].expand(-1, -1, COLUMNS)), distance_BK, token_BK, count_BK


@given(st.integers(0, 1000), st.integers(1, K), st.sampled_from(NETWORKS), st.booleans())
def test_a_network_is_its_formula(seed: int, there: int, network: str, pruned: bool) -> None:
    head = made(network, seed)
    query_BD, key_BKD, distance_BK, token_BK, count_BK = neighbours(seed, there)
    log_prob_BV = torch.log_softmax(3 * torch.randn(1, VOCABULARY, generator=torch.Generator().manual_seed(seed)), 1)
    counts = count_BK[0, :there].tolist() if pruned else [1.0] * there
    if network == "robust":
        tokens, log_probs = token_BK[0, :there].tolist(), log_prob_BV[0].double().numpy()
        expected = robust(weights_of(head), distance_BK[0, :there].tolist(), tokens, counts, log_probs)
    else:
        keys = [key.double().numpy() for key in key_BKD[0, :there]]
        expected = kernel_smoothed(weights_of(head), query_BD[0].double().numpy(), keys, counts)
    found = Retrieved(torch.ones(1, dtype=torch.long), torch.arange(K)[None].clone(), distance_BK)
    found.entry_BK[:, there:] = -1
    votes = Votes(found, token_BK, count_BK if pruned else None, None, query_BD, key_BKD)
    mixer = AdaptiveMixer({"search": head}, NetworkOrigin("made", "identity", "model"))
    evidence = mixer.evidence(votes, Scores(log_prob_BV, torch.zeros(1)))
    assert float(evidence.share_B) == pytest.approx(expected[0], abs=1e-4)
    assert evidence.weight_BK[0].tolist() == pytest.approx([*expected[1], *[0.0] * (K - there)], abs=1e-4)


@pytest.mark.parametrize("network", NETWORKS)
def test_it_is_saved_and_loaded(network: str, tmp_path: Path) -> None:
    head = made(network)
    save_adaptive(tmp_path / "net", {"search": head}, {"model": "f00"})
    found = load_adaptive(tmp_path / "net", K, None, columns=COLUMNS)
    assert found.heads["search"].shape == head.shape and type(found.heads["search"]) is type(head)
    assert found.sees_keys == (network == "kernel-smoothed")
    for name, weight in head.state_dict().items():
        assert torch.equal(found.heads["search"].state_dict()[name], weight)


def test_keys_of_another_size_are_refused(tmp_path: Path) -> None:
    save_adaptive(tmp_path / "net", {"search": made("kernel-smoothed")}, {"model": "f00"})
    with pytest.raises(ConfigError, match="keys of 3 columns, those of this datastore have 5"):
        load_adaptive(tmp_path / "net", K, None, columns=5)
    save_adaptive(tmp_path / "net", {"search": made("robust")}, {"model": "f00"})
    assert load_adaptive(tmp_path / "net", K, None, columns=5).heads["search"].shape.columns == COLUMNS


@pytest.mark.parametrize("change", [{"network": "magic"}, {"columns": -1}, {"columns": 10**9}, {"network": ["robust"]}])
def test_a_shape_that_cannot_be_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    import json

    from safetensors.torch import save_file

    shape = {"k": K, "confidence": False, "scale": SCALE, "network": "robust", "columns": COLUMNS, **change}
    tensors = {f"search.{name}": weight for name, weight in made("robust").state_dict().items()}
    save_file(tensors, tmp_path / "net", {"nearmt": json.dumps({"heads": {"search": shape}, "model": "f00"})})
    with pytest.raises(InputError, match="not a network made by"):
        load_adaptive(tmp_path / "net", K, None)


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("method", ["knn", "subset", "sk-mt", "retomaton"])
def test_translating_with_it(
    network: str, method: str, tiny: TranslationModel, tiny_store: Datastore, tmp_path: Path
) -> None:
    """In every batch alike, and weights that say nothing else than the model give the model's translation."""
    columns = tiny_store.snapshot().columns
    head = made(network, columns=columns)
    save_adaptive(tmp_path / "net", {"search": head}, {"model": tiny.fingerprint})
    settings = {"adaptive": str(tmp_path / "net"), "k": K, "guard": False}

    def translated(batch: int) -> list[tuple[str, float]]:
        found = Translator(tiny, tiny_store, method, settings, BEAM, batch).translate(TEXTS)
        return [(each.text, round(each.score, 3)) for each in found]

    alone = [(each.text, round(each.score, 3)) for each in Translator(tiny, None, "plain", beam=BEAM).translate(TEXTS)]
    assert translated(8) == translated(1) != alone
    signature = make_method(method, tiny_store, settings).signature()
    assert str(tmp_path) not in signature and "|adaptive:" in signature
    for name, weight in head.named_parameters():
        if name == "output.bias":
            weight[0] = -1e4
    save_adaptive(tmp_path / "net", {"search": head}, {"model": tiny.fingerprint})
    assert translated(8) == alone


@pytest.mark.parametrize("network", NETWORKS)
def test_an_empty_datastore(network: str, tiny: TranslationModel, tmp_path: Path) -> None:
    store = Datastore.build(tmp_path / "store", [], tiny)
    head = made(network, columns=store.snapshot().columns)
    save_adaptive(tmp_path / "net", {"search": head}, {"model": tiny.fingerprint})
    settings = {"adaptive": str(tmp_path / "net"), "k": K}
    found = Translator(tiny, store, "knn", settings, BEAM).translate(TEXTS)
    plain = Translator(tiny, None, "plain", beam=BEAM).translate(TEXTS)
    assert [each.text for each in found] == [each.text for each in plain]
