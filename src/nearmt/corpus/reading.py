"""Reading of pairs from files of all formats, with cleaning and a report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from nearmt.contracts import Pair
from nearmt.corpus.cleaning import Cleaner, CleaningConfig
from nearmt.corpus.formats import PAIRED, READERS
from nearmt.corpus.labels import LabelsConfig
from nearmt.corpus.limits import DEFAULT_LIMITS, LimitsConfig
from nearmt.corpus.locating import Source, locate
from nearmt.corpus.moses import read_aligned
from nearmt.corpus.report import Report, Request
from nearmt.corpus.unpacking import inner_suffix
from nearmt.errors import InputError


class PairStream(Iterator[Pair]):
    """An iterator over cleaned pairs of files, with a report of those left out."""

    def __init__(
        self,
        paths: list[Path],
        request: Request | None = None,
        cleaning: CleaningConfig | None = None,
        *,
        limit: int | None = None,
        strict: bool = False,
    ) -> None:
        self.report = Report(strict=strict)
        self.cleaning = cleaning or CleaningConfig()
        self._request = request or Request()
        self._clean = Cleaner(self.cleaning, self._request.source_lang, self._request.target_lang, self.report)
        self._limit = limit
        self._raw = raw_pairs(locate(paths, self._request), self._request, self.report)

    @property
    def signature(self) -> str:
        """The cleaning rules that are on."""
        return self.cleaning.signature()

    def __next__(self) -> Pair:
        while self._limit is None or self.report.pairs < self._limit:
            pair = self._clean(next(self._raw))
            if pair is not None:
                self.report.pairs += 1
                return pair
        raise StopIteration


def read_pairs(
    *paths: str | Path,
    source_lang: str | None = None,
    target_lang: str | None = None,
    cleaning: CleaningConfig | None = None,
    unconfirmed: bool = False,
    limit: int | None = None,
    strict: bool = True,
    limits: LimitsConfig = DEFAULT_LIMITS,
    file_languages: str | None = None,
) -> PairStream:
    """Read cleaned pairs of all files, in order; pairs with an empty side are left out.

    The format follows the suffix (`.gz` and `.xz` are unpacked); folders are searched for files of known formats, and
    patterns such as `memories/*.tmx` are expanded. Two files whose suffixes are the two languages (`a.de a.en`) are
    aligned plain text. Unreadable units, and those beyond the `limits`, are errors; without `strict`, they are left
    out and listed in the stream's `report`. `file_languages` overrules what PO, MO and XLIFF files say, as `en:de`.
    """
    request = Request(source_lang, target_lang, unconfirmed, limits, LabelsConfig(file_languages))
    return PairStream([Path(path) for path in paths], request, cleaning, limit=limit, strict=strict)


def raw_pairs(sources: list[Source], request: Request, report: Report) -> Iterator[Pair]:
    """Read pairs without cleaning. An error in one file does not stop the reading of others."""
    for source in sources:
        reader = PAIRED.get(inner_suffix(source.path))
        if source.aligned is not None and reader is not None:
            yield from reader(source.path, source.aligned, replace(request, file_name=source.name), report)
            continue
        if source.aligned is not None:
            # A difference in length raises an error: the lines may have been misaligned long before.
            yield from read_aligned(source.path, source.aligned, request, report)
            continue
        try:
            named = replace(request, file_name=source.name)
            yield from READERS[inner_suffix(source.path)](source.path, named, report)
        except InputError as error:
            report.failure(error)
