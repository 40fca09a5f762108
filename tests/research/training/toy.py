"""A toy language to learn: every German word has one English word, in the same order."""

from __future__ import annotations

from pathlib import Path

import torch

from nearmt.contracts import Pair
from nearmt.models import ModelConfig

LEXICON = {"die": "the", "pumpe": "pump", "ventil": "valve", "motor": "shaft", "und": "and", "deckel": "cover"}


def toy_pairs(count: int, seed: int = 0) -> list[Pair]:
    """Make different sentences: one of four words, which BLEU needs, the others of one to three."""
    generator = torch.Generator().manual_seed(seed)
    sources = {"die pumpe und motor": None}
    while len(sources) < count:
        length = int(torch.randint(1, 4, (1,), generator=generator))
        numbers = torch.randint(0, len(LEXICON), (length,), generator=generator).tolist()
        sources[" ".join(list(LEXICON)[number] for number in numbers)] = None
    return [Pair(source, " ".join(LEXICON[word] for word in source.split())) for source in sources]


def on_cpu(folder: Path, languages: bool = False) -> ModelConfig:
    pair = ("de", "en") if languages else (None, None)
    source_lang, target_lang = pair
    return ModelConfig(str(folder), source_lang, target_lang, precision="fp32", device="cpu")


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}
