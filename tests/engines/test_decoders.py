"""Every engine's decoder gives what transformers gives for each row on its own, and what the reference gives.

Without a GPU, the engine with CUDA graphs runs its steps on static batches without capturing them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from nearmt.config.model import KEY_LAYERS
from nearmt.decoding import BeamConfig, beam_search
from nearmt.engines.cpu.decoder import KernelDecoder
from nearmt.engines.cpu.encoder import KernelEncoder
from nearmt.engines.cuda import decoder as cuda_decoder
from nearmt.engines.cuda.decoder import GraphDecoder
from nearmt.engines.cuda.forcing import TorchEncoder
from nearmt.engines.decoders import Network, WholePassEncoder, kernels_support
from nearmt.engines.reference import decoder_state
from nearmt.engines.reference.decoder import TorchDecoder
from nearmt.methods.plain import PlainMethod
from nearmt.models import Seq2SeqModel
from tests.engines.decoder_runs import Run, check_replaced
from tests.kernels import needs_kernels
from tests.tiny import FAMILIES, random_sources, restless_model, tiny_model

Opened = Callable[..., Seq2SeqModel]

ENGINES = {"reference": TorchDecoder, "cpu": KernelDecoder, "cuda": GraphDecoder}


def on_graphs(model: Seq2SeqModel) -> Seq2SeqModel:
    """The model as on a GPU, without capturing."""
    layers = model.network.decoder
    assert isinstance(layers, TorchDecoder)
    parts = model.family.encoder
    encoder = model.network.encoder if parts is None else TorchEncoder(parts(model._model))
    model.network = Network(encoder, GraphDecoder(layers))
    return model


@pytest.fixture
def opened(request: pytest.FixtureRequest) -> Opened:
    """Opens a model with one engine."""
    engine: str = request.param
    if engine != "cpu":
        request.getfixturevalue("no_kernels")

    def open_model(hf: Any, **settings: Any) -> Seq2SeqModel:
        model = Seq2SeqModel(hf, **settings)
        model = on_graphs(model) if engine == "cuda" else model
        assert type(model.network.decoder) is ENGINES[engine]
        return model

    return open_model


def served(families: tuple[str, ...], engines: tuple[str, ...] = tuple(ENGINES)) -> pytest.MarkDecorator:
    """All pairs of engine and family; kernels do not serve T5, whose positions are biases of attention."""
    pairs = [(engine, family) for engine in engines for family in families if (engine, family) != ("cpu", "t5")]
    marked = [pytest.param(*pair, marks=needs_kernels if pair[0] == "cpu" else ()) for pair in pairs]
    return pytest.mark.parametrize(("opened", "family"), marked, indirect=["opened"])


every_engine_and_family = served(FAMILIES)
every_engine = served(("marian",))


@pytest.fixture(params=["small", "usual"])
def capacity(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With little capacity, states and static batches grow and are compacted often."""
    if request.param == "small":
        monkeypatch.setattr(decoder_state, "_CAPACITY", 4)
        monkeypatch.setattr(cuda_decoder, "_TOKENS", 8)


@every_engine_and_family
@pytest.mark.usefixtures("capacity")
def test_rows_are_those_of_their_prefixes(opened: Opened, family: str) -> None:
    hf: Any = tiny_model(family, 3)
    run = Run(opened(hf), random_sources(3, count=5, longest=8), seed=1)
    still_open = [0, 1, 2, 3, 4]
    for time in range(12):
        run.check(hf)
        if time in (4, 8):
            still_open.pop(1)
        run.choose(still_open, rows_each=1 if time == 10 else 3)


@every_engine_and_family
@pytest.mark.usefixtures("capacity")
@pytest.mark.parametrize("longest", [3, 8, 40])
def test_sentences_are_replaced_in_their_slots(opened: Opened, family: str, longest: int) -> None:
    hf: Any = tiny_model(family, 3)
    run = check_replaced(opened(hf), hf, longest)
    assert run.state.source_lengths == [len(run.sources[owner]) for owner in dict.fromkeys(run.owner)]


@every_engine
def test_sentences_are_removed(opened: Opened, family: str) -> None:
    hf: Any = tiny_model(family, 3)
    run, still_open = Run(opened(hf), random_sources(3, count=4, longest=8), seed=1), [0, 1, 2, 3]
    while still_open:
        run.check(hf)
        run.choose(still_open, rows_each=3)
        run.check(hf)
        still_open.pop(len(still_open) // 2)
        if still_open:
            run.choose(still_open, rows_each=2)


@every_engine
def test_rows_that_are_not_reordered_stay(opened: Opened, family: str) -> None:
    hf: Any = tiny_model(family, 3)
    run = Run(opened(hf), random_sources(3, count=2, longest=8), seed=1)
    for _ in range(2):
        run.step()
        run.choose([0, 1], rows_each=2)
    run.step()
    run.prefixes = [[*prefix, 5] for prefix in run.prefixes]  # without `reorder`
    run.check(hf)


@every_engine
def test_tokens_that_no_row_attends_to_are_dropped(
    opened: Opened, family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoder_state, "_CAPACITY", 16)
    monkeypatch.setattr(cuda_decoder, "_TOKENS", 16)
    run = Run(opened(tiny_model(family, 3)), random_sources(3, count=2, longest=8), seed=2)
    used = []
    for _ in range(40):
        run.step()
        used.append(run.state.used)
        # All rows continue the first one: of every step but the last, one cached token is in use.
        run.state.reorder(torch.tensor([0] * 4 + [run.state.rows_each] * 4))
        run.prefixes = [[*run.prefixes[0], 5 + row] for row in range(8)]
    assert max(used) <= 64  # not the 160 of all rows of all steps


@every_engine
def test_a_sentence_does_not_attend_to_padding(opened: Opened, family: str) -> None:
    model = opened(tiny_model(family, 3))
    short, long = [7, 8, 0], [4, 5, 6, 7, 8, 9, 10, 11, 0]
    together, alone = Run(model, [short, long], 1).step(), Run(model, [short], 1).step()
    torch.testing.assert_close(together[:1], alone, rtol=1e-5, atol=1e-5)


# Whole targets.


def by_steps(model: Seq2SeqModel, sources: list[list[int]], fed_ST: Tensor) -> tuple[Tensor, Tensor]:
    """Logits and keys of every position, fed one by one, each [S, T, ...]."""
    state = model.encode(sources)
    steps = [model.step(state, token_S1) for token_S1 in fed_ST[:, :, None].unbind(1)]
    return torch.stack([logits.clone() for logits, _ in steps], 1), torch.stack([key.clone() for _, key in steps], 1)


@every_engine_and_family
@pytest.mark.parametrize("key_layer", KEY_LAYERS)
@torch.inference_mode()
def test_whole_targets_give_what_steps_give(opened: Opened, family: str, key_layer: str) -> None:
    model = opened(tiny_model(family, 3), key_layer=key_layer)
    sources = random_sources(3, count=4, longest=8)
    fed_ST = torch.randint(4, 50, (4, 6), generator=torch.Generator().manual_seed(0))
    logits_STV, key_STH = by_steps(model, sources, fed_ST)

    def encoded() -> decoder_state.DecoderState:
        return model.encode(sources)

    torch.testing.assert_close(model.network.force(encoded(), fed_ST), key_STH, rtol=1e-4, atol=1e-4)
    found_STV, found_STH = model.network.force_with_logits(encoded(), fed_ST)
    torch.testing.assert_close(found_STV, logits_STV, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(found_STH, key_STH, rtol=1e-4, atol=1e-4)


# Compared with the reference.


def numbers_of(model: Seq2SeqModel) -> list[Tensor]:
    """Encoded sources, logits and keys of steps whose rows are reordered, and keys and attention of whole targets."""
    sources = random_sources(5, count=3, longest=9)
    run = Run(model, sources, seed=4)
    found = [run.state.encoded_SFH * run.state.mask_SF[..., None]]
    for rows_each in (1, 3, 2):
        newest = run.prefixes if run.is_new else [prefix[-1:] for prefix in run.prefixes]
        run.is_new = False
        found += [part.clone() for part in model.step(run.state, torch.tensor(newest))]
        run.choose([0, 1, 2], rows_each)
    targets = random_sources(6, count=3)
    return [*found, *model.force_decode(sources, targets), *model.attention(sources, targets)]


@served(FAMILIES, engines=("cpu", "cuda"))
@pytest.mark.parametrize("key_layer", KEY_LAYERS)
def test_numbers_are_those_of_the_reference(
    opened: Opened, family: str, key_layer: str, request: pytest.FixtureRequest
) -> None:
    found = numbers_of(opened(tiny_model(family, 3), key_layer=key_layer))
    request.getfixturevalue("no_kernels")
    reference = Seq2SeqModel(tiny_model(family, 3), key_layer=key_layer)
    assert type(reference.network.decoder) is TorchDecoder
    for mine, expected in zip(found, numbers_of(reference), strict=True):
        torch.testing.assert_close(mine, expected, rtol=1e-4, atol=1e-4)


@served(FAMILIES, engines=("cpu", "cuda"))
@pytest.mark.parametrize("together", [2, 6])
def test_translations_are_those_of_the_reference(
    opened: Opened, family: str, together: int, request: pytest.FixtureRequest
) -> None:
    sources = random_sources(5, count=6)

    def tokens(model: Seq2SeqModel) -> list[list[int]]:
        lengths, config = [len(source) for source in sources], BeamConfig(max_new_tokens=30)
        found, _ = beam_search(model, PlainMethod(), sources, lengths, config, slots=together)
        return [hypothesis.tokens for hypothesis in found]

    found = tokens(opened(restless_model(family)))
    request.getfixturevalue("no_kernels")
    assert found == tokens(Seq2SeqModel(restless_model(family)))


# The choice of an engine.


def engines_of(model: Seq2SeqModel) -> tuple[type, type]:
    return type(model.network.encoder), type(model.network.decoder)


TORCH, KERNELS = (WholePassEncoder, TorchDecoder), (KernelEncoder, KernelDecoder)


@needs_kernels
@pytest.mark.parametrize("family", [family for family in FAMILIES if family != "t5"])
@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_kernels_run_what_they_can_read(family: str, precision: str) -> None:
    assert engines_of(Seq2SeqModel(tiny_model(family, 3), precision=precision)) == KERNELS


def test_kernels_do_not_run_t5() -> None:
    """Positions are biases there, and its norms have no shift."""
    assert engines_of(Seq2SeqModel(tiny_model("t5", 3))) == TORCH


@pytest.mark.parametrize("activation", ["tanh", "gelu_new", "quick_gelu", "leaky_relu"])
def test_kernels_do_not_have_every_activation(activation: str) -> None:
    assert engines_of(Seq2SeqModel(tiny_model("marian", 3, activation_function=activation))) == TORCH


def test_kernels_do_not_read_bf16() -> None:
    assert engines_of(Seq2SeqModel(tiny_model("marian", 3), precision="bf16")) == TORCH


@pytest.mark.parametrize("side", ["get_encoder", "get_decoder"])
def test_kernels_do_not_read_norms_without_a_shift(side: str) -> None:
    hf: Any = tiny_model("marian", 3)
    layer = getattr(hf, side)().layers[1]
    layer.final_layer_norm = nn.LayerNorm(layer.final_layer_norm.normalized_shape, bias=False)
    assert engines_of(Seq2SeqModel(hf)) == TORCH


@pytest.mark.usefixtures("no_kernels")
@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_without_kernels_torch_runs_everything(precision: str) -> None:
    assert engines_of(Seq2SeqModel(tiny_model("marian", 3), precision=precision)) == TORCH
    assert not kernels_support(precision, "cpu")


@needs_kernels
def test_what_kernels_support() -> None:
    assert kernels_support("int8", "cpu") and kernels_support("fp32", "cpu")
    assert not kernels_support("bf16", "cpu")
    assert not kernels_support("fp32", "cuda") and not kernels_support("bf16", "cuda:1")
