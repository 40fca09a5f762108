"""The data of experiments: a folder for each domain.

DATA/<domain>/train*   pairs of the datastore, in one file or several
DATA/<domain>/dev.*    pairs to tune on
DATA/<domain>/test.*   pairs to measure on
DATA/news/             dev and test of general text

Files have any format that `read_pairs` reads; two aligned files (test.de, test.en) count as one.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from pathlib import Path

from nearmt.contracts import Pair
from nearmt.corpus import PairStream, read_pairs
from nearmt.datastore.disk.files import sha256
from nearmt.errors import ConfigError, InputError, did_you_mean
from nearmt.models import ModelConfig

#: The folder of general text.
GENERAL = "news"
#: Order of domains in the paper's tables; others follow.
PAPER_ORDER = ("medical", "law", "it", "koran")
#: A language pair in a folder's name, for the experiment `languages`.
_DIRECTION = re.compile(r"(?:^|[._])([a-z]{2,3})-([a-z]{2,3})(?:$|[._])")


@dataclass(frozen=True)
class Domain:
    """The data of one domain."""

    folder: Path
    source_lang: str | None = None
    target_lang: str | None = None
    #: Pairs read so far by part, and digests by part and limit.
    _known: dict[str, list[Pair]] = field(default_factory=dict, compare=False)
    _digests: dict[tuple[str, int | None], str] = field(default_factory=dict, compare=False)

    @property
    def name(self) -> str:
        return self.folder.name

    def files(self, part: str) -> list[Path]:
        """The files of train, dev or test."""
        pattern = "train*" if part == "train" else f"{part}.*"
        found = sorted(path for path in self.folder.glob(pattern) if not path.name.endswith((".partial", "~")))
        if not found:
            raise InputError(f"{self.folder}: has no file {pattern}; see the layout in docs/experiments.md")
        return found

    def has(self, *parts: str) -> bool:
        return all(any(self.folder.glob("train*" if part == "train" else f"{part}.*")) for part in parts)

    def stream(self, part: str) -> PairStream:
        """Read the pairs of a part as a stream."""
        return read_pairs(*self.files(part), source_lang=self.source_lang, target_lang=self.target_lang)

    def pairs(self, part: str, limit: int | None = None) -> list[Pair]:
        """Return the pairs of a part, or the first `limit`."""
        if part not in self._known:
            self._known[part] = list(self.stream(part))
            if not self._known[part]:
                raise InputError(f"{self.files(part)[0]}: has no pairs")
        return self._known[part][:limit]

    def digest(self, part: str, limit: int | None = None) -> str:
        """Hash the content: the files of train, the pairs of dev and test."""
        if (part, limit) not in self._digests:
            if part == "train":
                content = "\0".join(f"{path.name}\0{sha256(path)}" for path in self.files(part))
            else:
                content = "\0".join(f"{pair.source}\0{pair.target}" for pair in self.pairs(part, limit))
            digest = hashlib.sha256(content.encode("utf-8", "surrogateescape")).hexdigest()
            self._digests[part, limit] = digest[:16]
        return self._digests[part, limit]


def find_domains(data: Path, asked: list[str], model: ModelConfig) -> list[Domain]:
    """Return the domains in `asked`, or without any all folders that have train and test files."""
    if not data.is_dir():
        raise InputError(f"{data}: no such folder; --data takes a folder with one subfolder for each domain")
    folders = sorted((path for path in data.iterdir() if path.is_dir()), key=lambda path: paper_order(path.name))
    names = [path.name for path in folders]
    for name in asked:
        if name not in names:
            raise InputError(f"{data}: has no folder '{name}'{did_you_mean(name, names)}")
    domains = [domain_of(path, model) for path in folders]
    if asked:
        return sorted((domain for domain in domains if domain.name in asked), key=lambda d: asked.index(d.name))
    found = [domain for domain in domains if domain.has("train", "test")]
    if not found:
        raise InputError(f"{data}: has no folder with train and test files; see the layout in docs/experiments.md")
    return found


def domain_of(folder: Path, model: ModelConfig) -> Domain:
    """Make the domain of a folder; its languages are the model's, or those in the folder's name."""
    found = _DIRECTION.search(folder.name)
    if model.source_lang or model.target_lang or not found:
        return Domain(folder, model.source_lang, model.target_lang)
    return Domain(folder, found[1], found[2])


def check_domain_name(name: str) -> None:
    if not re.fullmatch(r"[\w-]+", name):
        raise ConfigError(f"domain '{name}': only letters, digits, - and _ are allowed in the name of a domain")


def paper_order(domain: str) -> tuple[int, str]:
    """Sort key: the paper's domains in its order, then the others by name."""
    return (PAPER_ORDER.index(domain) if domain in PAPER_ORDER else len(PAPER_ORDER)), domain
