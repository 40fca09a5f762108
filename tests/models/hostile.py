"""Model folders that carry code, and a way to tell whether it ran."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import torch


def with_code(folder: Path, marker: Path, kind: str = "hostile") -> Path:
    """A model of a type that transformers does not know, with the Python that would define it."""
    folder.mkdir(parents=True, exist_ok=True)
    code = f"from pathlib import Path\nPath({str(marker)!r}).touch()\nclass Hostile:\n    pass\n"
    (folder / "hostile.py").write_text(code, encoding="utf-8")
    classes = ("AutoConfig", "AutoModelForSeq2SeqLM", "AutoTokenizer")
    auto_map = dict.fromkeys(classes, "hostile.Hostile")
    config = {"model_type": kind, "auto_map": auto_map, "architectures": ["Hostile"]}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    settings = {"tokenizer_class": "Hostile", "auto_map": {"AutoTokenizer": ["hostile.Hostile", None]}}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return folder


def with_code_of_a_known_type(good: Path, folder: Path, marker: Path) -> Path:
    """A sound model whose tokenizer and generation come with Python of their own."""
    other = with_code(folder.with_name(folder.name + "-code"), marker)
    shutil.copytree(good, folder)
    for name in ("hostile.py", "tokenizer_config.json"):
        shutil.copyfile(other / name, folder / name)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    hostile = json.loads((other / "config.json").read_text(encoding="utf-8"))
    config |= {"auto_map": hostile["auto_map"], "attn_implementation": "hostile/kernels"}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "custom_generate").mkdir()
    shutil.copyfile(other / "hostile.py", folder / "custom_generate" / "generate.py")
    return folder


class _Runs:
    def __init__(self, marker: Path) -> None:
        self._marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self._marker),)


def with_pickle(good: Path, folder: Path, marker: Path) -> Path:
    """A model whose weights are a pickle that makes a folder when it is read without care."""
    shutil.copytree(good, folder)
    (folder / "model.safetensors").unlink()
    torch.save({"weight": _Runs(marker)}, folder / "pytorch_model.bin", pickle_module=pickle)
    return folder
