"""The default model that ships inside the package.

Storage: every large matrix as int8 with one fp16 scale per row, `weight = int8 * scale[:, None]`
(tensors `X` and `X.scale`), vectors as fp16, the shared embedding once. Expanded it is an ordinary
fp32 model: the product of an int8 and an fp16 fits fp32 exactly, so an exported folder and the
embedded model are the same model, with the same fingerprint.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from nearmt.errors import OutputError, writing

if TYPE_CHECKING:
    from transformers import PreTrainedModel

EMBEDDED = {"de-en": Path(__file__).parent.parent / "pretrained" / "de-en"}
WEIGHTS = "model.int8.safetensors"
REDUCTION = "reduction.safetensors"
_NOT_EXPORTED = {WEIGHTS, REDUCTION, "README.md"}


def load_embedded(name: str) -> PreTrainedModel:
    """The embedded model in fp32."""
    from safetensors.torch import load_file
    from transformers import GenerationConfig, MarianConfig, MarianMTModel, logging

    logging.disable_progress_bar()
    folder = EMBEDDED[name]
    model: PreTrainedModel
    model, report = MarianMTModel.from_pretrained(
        None,
        config=MarianConfig.from_pretrained(folder),
        state_dict=_expand(load_file(folder / WEIGHTS)),
        dtype=torch.float32,
        output_loading_info=True,
    )
    # What is tied or computed (embeddings, positions, the zero bias) is not stored; all else must be there.
    derived = ("embed_tokens", "embed_positions", "lm_head", "final_logits_bias")
    missing = [key for key in report["missing_keys"] if not any(part in key for part in derived)]
    assert not missing and not report["unexpected_keys"], report
    model.generation_config = GenerationConfig.from_pretrained(folder)
    return model


def export_embedded(name: str, folder: Path) -> None:
    """Write the embedded model as an ordinary Hugging Face folder that other tools can read."""
    if folder.exists() and any(folder.iterdir()):
        raise OutputError(f"{folder}: exists and is not empty; name a new folder")
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        load_embedded(name).save_pretrained(folder)
        for file in EMBEDDED[name].iterdir():
            if file.name not in _NOT_EXPORTED and not (folder / file.name).exists():
                shutil.copyfile(file, folder / file.name)


def _expand(stored: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    expanded = {}
    for name, tensor in stored.items():
        if name.endswith(".scale"):
            continue
        scale = stored.get(f"{name}.scale")
        expanded[name] = tensor.float() if scale is None else tensor.float() * scale.float()[:, None]
    return expanded
