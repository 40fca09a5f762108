"""The options of the speed benchmark."""

from __future__ import annotations

from dataclasses import dataclass

from nearmt.config import Config, option
from nearmt.config.model import PRECISIONS
from nearmt.config.store import NOMINATORS
from nearmt.errors import ConfigError, did_you_mean

#: Other programs that can run the same weights.
PEERS = ("transformers", "ctranslate2")
#: nearmt's own methods.
OWN = ("plain", "knn", "chunk")
SYSTEMS = (*PEERS, *OWN)
#: Methods that need a datastore.
RETRIEVING = ("knn", "chunk")
#: Precisions of each peer; nearmt's methods run in all of them.
PEER_PRECISIONS = {"transformers": ("fp32", "bf16"), "ctranslate2": ("fp32", "bf16", "int8")}


@dataclass(frozen=True)
class BenchConfig(Config):
    """What the benchmark measures, and how."""

    datastore: str | None = option(None, "datastore for knn and chunk; without it they are left out")
    systems: str | None = option(None, f"some of {', '.join(SYSTEMS)}, joined by commas (default: all that can run)")
    precisions: str | None = option(None, "some of fp32, bf16, int8, joined by commas (default: all of the device)")
    batch_sizes: str | None = option(None, "batch sizes, joined by commas (default: 1,8,16; on a GPU 1,8,64)")
    beams: str = option("1,5", "beam sizes, joined by commas")
    limit: int | None = option(None, "use about this many pairs, as whole batches of the sorted test set", low=1)
    repeats: int = option(5, "times that each system translates everything", low=1)
    threads: int | None = option(None, "CPU threads of every system (default: torch's)", low=1)
    reference: str = option("transformers:fp32", "SYSTEM:PRECISION that speeds are divided by")
    quality: bool = option(True, "measure recall of the index and BLEU with exact search")
    profile: bool = option(True, "profile nearmt's systems in one more pass")
    max_new_tokens: int | None = option(None, "most output tokens of a sentence (default: as when translating)", low=1)
    model: str | None = option(None, "model: the embedded de-en, a folder, or a hub id (default: the datastore's)")
    source_lang: str | None = option(None, "source language (multilingual models need it)")
    target_lang: str | None = option(None, "target language (multilingual models need it)")
    device: str = option("auto", "where the models run: cpu, cuda, cuda:1, ..., or auto")
    nominate: str = option("auto", "index that nominates neighbours", choices=NOMINATORS)
    store_device: str | None = option(None, "device that searches the keys (default: the model's)")

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.system_names, self.precision_names, self.beam_sizes, self.sizes(on_gpu=False)
        self.parsed_reference()

    @property
    def system_names(self) -> list[str]:
        return _chosen("systems", self.systems, SYSTEMS)

    @property
    def precision_names(self) -> list[str]:
        return _chosen("precisions", self.precisions, PRECISIONS)

    @property
    def beam_sizes(self) -> list[int]:
        return _numbers("beams", self.beams)

    def sizes(self, on_gpu: bool) -> list[int]:
        """Batch sizes."""
        return _numbers("batch-sizes", self.batch_sizes or ("1,8,64" if on_gpu else "1,8,16"))

    def parsed_reference(self) -> tuple[str, str]:
        """Return system and precision of the reference."""
        system, _, precision = self.reference.partition(":")
        if system not in SYSTEMS or precision not in PRECISIONS:
            raise ConfigError(f"reference = {self.reference!r}: must be SYSTEM:PRECISION, such as plain:fp32")
        return system, precision


def _chosen(name: str, joined: str | None, known: tuple[str, ...]) -> list[str]:
    """Return the chosen names in the order of `known`; all if none is given."""
    found = _parts(joined)
    for part in found:
        if part not in known:
            raise ConfigError(f"{name}: no '{part}'{did_you_mean(part, known)}; there are {', '.join(known)}")
    return [part for part in known if not found or part in found]


def _numbers(name: str, joined: str) -> list[int]:
    found = _parts(joined)
    if not found or not all(part.isdecimal() and int(part) > 0 for part in found):
        raise ConfigError(f"{name} = {joined!r}: must be whole numbers of at least 1, joined by commas")
    return sorted({int(part) for part in found})


def _parts(joined: str | None) -> list[str]:
    return [part.strip() for part in (joined or "").split(",") if part.strip()]
