"""PCA against numpy, and reductions on disk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from nearmt.errors import DatastoreError
from nearmt.reduction import FittingSample, Reduction

SIZE = 12


def made_states(count: int = 500, seed: int = 0) -> Tensor:
    """States with a mean far from zero and a different variance in every direction."""
    generator = torch.Generator().manual_seed(seed)
    rotation, _ = torch.linalg.qr(torch.randn(SIZE, SIZE, generator=generator))
    scale = torch.linspace(4.0, 0.2, SIZE)
    states: Tensor = (torch.randn(count, SIZE, generator=generator) * scale) @ rotation + 7.0
    return states


def fitted(states: Tensor, columns: int = 256, block: int = 10_000) -> Reduction:
    sample = FittingSample(states.shape[1])
    for start in range(0, len(states), block):
        sample.add(states[start : start + block])
    return Reduction.fit(sample, columns)


def distances(states: Tensor) -> Tensor:
    return torch.cdist(states.double(), states.double(), compute_mode="donot_use_mm_for_euclid_dist")


def test_equals_the_svd_of_numpy_up_to_sign() -> None:
    states = made_states()
    reduction = fitted(states, 5)
    array = states.double().numpy()
    centred = array - array.mean(axis=0)
    _, singular, right = np.linalg.svd(centred, full_matrices=False)
    expected = centred @ right[:5].T
    found = reduction.apply(states).numpy()
    signs = np.sign((found * expected).sum(axis=0))
    np.testing.assert_allclose(found, expected * signs, atol=1e-4)
    np.testing.assert_allclose(reduction.variance_D, singular[:5] ** 2 / len(array), rtol=1e-4)
    np.testing.assert_allclose(reduction.mean_H, array.mean(axis=0), rtol=1e-5)


def test_columns_are_ordered_by_variance_and_uncorrelated() -> None:
    states = made_states()
    reduction = fitted(states)
    keys = reduction.apply(states).double()
    covariance = torch.cov(keys.T, correction=0)
    variance = covariance.diagonal()
    assert bool((variance.diff() <= 0).all())
    torch.testing.assert_close(variance, reduction.variance_D.double(), rtol=1e-4, atol=1e-6)
    assert float((covariance - variance.diag()).abs().max()) < 1e-4
    assert float(keys.mean(dim=0).abs().max()) < 1e-4


def test_the_first_columns_are_the_smaller_reduction() -> None:
    states = made_states()
    torch.testing.assert_close(fitted(states, 9).apply(states)[:, :4], fitted(states, 4).apply(states))


def test_full_width_keeps_distances() -> None:
    states = made_states(60)
    reduction = fitted(states)
    assert reduction.columns == SIZE  # more columns than the state has are not made up
    keys = reduction.apply(states)
    torch.testing.assert_close(distances(keys), distances(states), rtol=1e-4, atol=1e-5)


def test_reduced_distances_never_exceed_full_ones() -> None:
    states = made_states(60)
    keys = fitted(states, 3).apply(states)
    assert bool((distances(keys) <= distances(states) + 1e-5).all())


@pytest.mark.parametrize("block", [1, 7, 100])
def test_moments_in_blocks_equal_all_at_once(block: int) -> None:
    states = made_states()
    sample, whole = FittingSample(SIZE), FittingSample(SIZE)
    for start in range(0, len(states), block):
        sample.add(states[start : start + block])
    whole.add(states)
    assert sample.count == whole.count == len(states)
    for mine, theirs in zip(sample.moments(), whole.moments(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-10)
    mean, covariance = whole.moments()
    torch.testing.assert_close(mean, states.double().mean(dim=0))
    torch.testing.assert_close(covariance, torch.cov(states.double().T, correction=0))
    torch.testing.assert_close(fitted(states, block=block).component_HD, fitted(states).component_HD)


def test_enough_means_twenty_states_a_dimension() -> None:
    sample = FittingSample(SIZE)
    sample.add(made_states(20 * SIZE - 1))
    assert not sample.enough
    sample.add(made_states(1))
    assert sample.enough


def test_the_same_states_give_the_same_identity() -> None:
    assert fitted(made_states()).identity == fitted(made_states()).identity
    assert fitted(made_states()).identity != fitted(made_states(seed=1)).identity
    assert fitted(made_states(), 3).identity != fitted(made_states(), 4).identity
    assert Reduction.identity_of(4).identity != Reduction.identity_of(5).identity


def test_signs_are_fixed() -> None:
    component = fitted(made_states()).component_HD
    largest = component.gather(0, component.abs().argmax(dim=0)[None])
    assert bool((largest > 0).all())


def test_the_identity_keeps_states_whole() -> None:
    reduction = Reduction.identity_of(SIZE)
    states = made_states(5)
    assert not reduction.fitted and reduction.columns == SIZE
    assert torch.equal(reduction.apply(states), states)
    assert bool((reduction.variance_D > 0).all())


@pytest.mark.parametrize("whole", [False, True])
def test_save_and_load(whole: bool, tmp_path: Path) -> None:
    reduction = Reduction.identity_of(SIZE) if whole else fitted(made_states(), 5)
    reduction.save(tmp_path / "r.safetensors")
    again = Reduction.load(tmp_path / "r.safetensors")
    assert again.fitted is reduction.fitted is not whole
    assert again.identity == reduction.identity
    assert again.columns == reduction.columns
    for name in ("mean_H", "component_HD", "variance_D"):
        assert torch.equal(getattr(again, name), getattr(reduction, name))
    assert torch.equal(again.apply(made_states(9)), reduction.apply(made_states(9)))


@pytest.mark.parametrize("damage", ["cut", "garbage", "empty", "missing", "other"])
def test_a_damaged_file_is_named(damage: str, tmp_path: Path) -> None:
    from safetensors.torch import save_file

    path = tmp_path / "r.safetensors"
    fitted(made_states(), 5).save(path)
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-20])
    elif damage == "garbage":
        path.write_bytes(b"\xff" * 200)
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "missing":
        path.unlink()
    else:
        save_file({"something": torch.ones(2)}, path)
    with pytest.raises(DatastoreError, match=r"r\.safetensors: not a readable reduction") as caught:
        Reduction.load(path)
    assert "\n" not in str(caught.value)


def test_moving_keeps_the_projection() -> None:
    reduction = fitted(made_states(), 5)
    assert reduction.to(torch.device("cpu")) is reduction
    meta = reduction.to(torch.device("meta"))
    assert meta.component_HD.device.type == "meta" and meta.fitted


@pytest.mark.parametrize(
    "altered",
    [
        {"mean": torch.zeros(5)},
        {"mean": torch.full((4,), torch.nan)},
        {"mean": torch.zeros(4, dtype=torch.float64)},
        {"component": torch.zeros(4)},
        {"component": torch.full((4, 3), torch.inf)},
        {"component": torch.full((4, 3), 3e38)},
        {"component": torch.zeros(4, 3, dtype=torch.int8)},
        {"variance": torch.zeros(4)},
        {"variance": torch.full((3,), -1.0)},
    ],
)
def test_numbers_that_are_no_projection_are_refused(altered: dict[str, torch.Tensor], tmp_path: Path) -> None:
    from safetensors.torch import save_file

    sound = {"mean": torch.zeros(4), "component": torch.eye(4)[:, :3].contiguous(), "variance": torch.ones(3)}
    path = tmp_path / "reduction.safetensors"
    save_file(sound, path, {"fitted": "True"})
    assert Reduction.load(path, 3).columns == 3
    with pytest.raises(DatastoreError, match="not a readable reduction"):
        Reduction.load(path, 4)
    save_file(sound, path)  # the identity, and not square
    with pytest.raises(DatastoreError, match="not a readable reduction"):
        Reduction.load(path)
    save_file({**sound, **altered}, path, {"fitted": "True"})
    with pytest.raises(DatastoreError, match="not a readable reduction"):
        Reduction.load(path)
