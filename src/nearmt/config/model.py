"""Which model translates, and how it runs."""

from __future__ import annotations

from dataclasses import dataclass

from nearmt.config.base import Config, option

DEFAULT_MODEL = "de-en"
#: Number formats of the weights.
PRECISIONS = ("fp32", "bf16", "int8")
#: Decoder states that can be keys.
KEY_LAYERS = ("output", "feed-forward")


@dataclass(frozen=True)
class ModelConfig(Config):
    """Which model, and how it runs."""

    model: str = option(DEFAULT_MODEL, "model: the embedded de-en, a folder, or a hub id")
    source_lang: str | None = option(None, "source language (multilingual models need it)")
    target_lang: str | None = option(None, "target language (multilingual models need it)")
    precision: str = option(
        "auto",
        "number format of the weights; auto: bf16 on a GPU, int8 on a CPU with kernels for the model, else fp32",
        choices=("auto", *PRECISIONS),
    )
    device: str = option("auto", "where the model runs: cpu, cuda, cuda:1, ..., or auto")
    key_layer: str = option("output", "which decoder state is the key", choices=KEY_LAYERS)
