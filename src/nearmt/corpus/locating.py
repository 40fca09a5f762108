"""Resolution of paths, folders, patterns and pairs of aligned files to input files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from nearmt.corpus.formats import ONLY_DOCUMENTS, PAIRED, READERS
from nearmt.corpus.language_files import language_pairs
from nearmt.corpus.report import Request
from nearmt.corpus.unpacking import COMPRESSED, inner_suffix
from nearmt.errors import InputError, did_you_mean
from nearmt.languages import same_language

_LANGUAGE = re.compile(r"\.[a-z]{2,3}([-_]\w+)?")
# Suffixes that look like a language code but are not.
_NO_LANGUAGE = (".txt", ".csv", ".zip", ".py", ".js", ".rtf", ".doc", ".pdf", *ONLY_DOCUMENTS)


@dataclass(frozen=True)
class Source:
    """A file of pairs, or two files, of the source and of the target language."""

    path: Path
    aligned: Path | None = None
    #: Its name, with as many parent folders as needed to be unique.
    name: str = ""


def locate(paths: Iterable[Path], request: Request) -> list[Source]:
    """List the files to read, in order; missing files and unknown formats are errors."""
    found: list[Source] = []
    waiting: Path | None = None  # the first of two aligned files
    paths = list(paths)
    files = [file for named in paths for file in _expand(named, request)]
    targets = dict(language_pairs((file for file in files if inner_suffix(file) in PAIRED), request))
    for path in files:
        if inner_suffix(path) in READERS:
            found.append(Source(path))
        elif path in targets:
            found.append(Source(path, targets[path]))
        elif inner_suffix(path) in PAIRED:
            if path in paths and path not in targets.values():
                raise _without_other_side(path, request)
        elif not _is_language(path):
            raise _unknown(path)
        elif waiting is None:
            waiting = path
        else:
            found.append(_aligned(waiting, path, request))
            waiting = None
    if waiting is not None:
        raise _unknown(waiting)
    if files and not found:
        raise _without_other_side(files[0], request)
    return _named(found)


def _without_other_side(path: Path, request: Request) -> InputError:
    languages = f"{request.source_lang or '?'} and {request.target_lang or '?'}"
    return InputError(
        f"{path}: has one language; give the files of both, {languages}, which a folder or the name tells apart, "
        "like de/app.ftl en/app.ftl"
    )


def _named(sources: list[Source]) -> list[Source]:
    """Give the sources unique names."""
    counts: Counter[tuple[str, ...]] = Counter()
    for path in {source.path for source in sources}:
        counts.update(path.parts[-length:] for length in range(1, len(path.parts) + 1))

    def name(parts: tuple[str, ...]) -> str:
        lengths = range(1, len(parts) + 1)
        return "/".join(next((parts[-length:] for length in lengths if counts[parts[-length:]] == 1), parts))

    return [replace(source, name=name(source.path.parts)) for source in sources]


def _aligned(first: Path, second: Path, request: Request) -> Source:
    """Pair two files named after the languages, in either order."""
    codes = [inner_suffix(path)[1:] for path in (first, second)]
    if same_language(request.source_lang, codes[0]) and same_language(request.target_lang, codes[1]):
        return Source(first, second)
    if same_language(request.source_lang, codes[1]) and same_language(request.target_lang, codes[0]):
        return Source(second, first)
    wanted = f"{request.source_lang or '?'} and {request.target_lang or '?'}"
    raise InputError(f"{first} and {second}: named after {codes[0]} and {codes[1]}, wanted are {wanted}")


def _expand(path: Path, request: Request) -> list[Path]:
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file() and _belongs(file, request))
        if not files:
            raise InputError(
                f"{path}: the folder has no files of known formats ({', '.join(sorted((*READERS, *PAIRED)))})"
            )
        return files
    if path.exists():
        return [path]
    if any(sign in str(path) for sign in "*?["):
        parts = path.parts[1:] if path.is_absolute() else path.parts
        root = Path(path.anchor) if path.is_absolute() else Path()
        files = sorted(file for file in root.glob(str(Path(*parts))) if file.is_file())
        if files:
            return files
        raise InputError(f"{path}: no file fits this pattern")
    siblings = [file.name for file in path.parent.iterdir()] if path.parent.is_dir() else []
    raise InputError(f"{path}: no such file{did_you_mean(path.name, siblings)}")


def _belongs(file: Path, request: Request) -> bool:
    """Whether to read a file of a folder: it has a known format, or is one of two aligned files."""
    suffix = inner_suffix(file)
    if suffix in READERS or suffix in PAIRED:
        return True
    siblings = [other for other in file.parent.iterdir() if _stem(other) == _stem(file) and _is_language(other)]
    codes = [inner_suffix(other)[1:] for other in siblings]
    wanted = (request.source_lang, request.target_lang)
    fitting = [code for code in codes if any(same_language(code, language) for language in wanted)]
    return _is_language(file) and len(siblings) == len(fitting) == 2


def _is_language(path: Path) -> bool:
    suffix = inner_suffix(path)
    return bool(_LANGUAGE.fullmatch(suffix)) and suffix not in (*_NO_LANGUAGE, *READERS, *PAIRED)


def _stem(path: Path) -> str:
    inner = path.with_suffix("") if path.suffix.lower() in COMPRESSED else path
    return str(inner.with_suffix(""))


def _unknown(path: Path) -> InputError:
    known = _known_formats()
    if inner_suffix(path) in ONLY_DOCUMENTS:
        return InputError(f"{path}: is a document to translate and has no translations; a memory is one of {known}")
    return InputError(
        f"{path}: unknown format '{inner_suffix(path)}'; give files of the formats {known} (also with .gz or .xz), "
        "or two aligned files that end in the two languages, like a.de a.en"
    )


def _known_formats() -> str:
    return ", ".join(sorted((*READERS, *PAIRED)))
