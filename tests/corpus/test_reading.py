"""Reading of translation memories as streams of pairs."""

from __future__ import annotations

import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest

from nearmt.contracts import Pair
from nearmt.corpus import numbered_lines, read_pairs
from nearmt.corpus.encoding import Encoding, sniff_po, sniff_xml
from nearmt.errors import InputError

TEXT = "Die Pumpe.\tThe pump.\nDas Ventil.\tThe valve.\n"
EXPECTED = [("Die Pumpe.", "The pump."), ("Das Ventil.", "The valve.")]

PACK: dict[str, Callable[[bytes], bytes]] = {
    ".tsv": bytes,
    ".tab": bytes,
    ".tsv.gz": gzip.compress,
    ".tsv.xz": lzma.compress,
}


def texts(pairs: list[Pair]) -> list[tuple[str, str]]:
    return [(pair.source, pair.target) for pair in pairs]


def written(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


@pytest.mark.parametrize("suffix", PACK)
def test_reads_tsv_plain_and_compressed(suffix: str, tmp_path: Path) -> None:
    path = written(tmp_path, "memory" + suffix, PACK[suffix](TEXT.encode()))
    pairs = list(read_pairs(path))
    assert texts(pairs) == EXPECTED
    assert {pair.origin for pair in pairs} == {path.name}
    assert texts(list(read_pairs(str(path)))) == EXPECTED


def test_third_column_is_the_origin(tmp_path: Path) -> None:
    path = written(tmp_path, "m.tsv", "a\tb\tmanual\nc\td\ne\tf\tcatalogue\tignored\n")
    assert [(p.source, p.target, p.origin) for p in read_pairs(path)] == [
        ("a", "b", "manual"),
        ("c", "d", "m.tsv"),
        ("e", "f", "catalogue"),
    ]


def test_files_are_read_in_order(tmp_path: Path) -> None:
    first = written(tmp_path, "b.tsv", "1\tone\n2\ttwo\n")
    second = written(tmp_path, "a.tsv.gz", gzip.compress(b"3\tthree\n"))
    pairs = list(read_pairs(first, second, first))
    assert [pair.target for pair in pairs] == ["one", "two", "three", "one", "two"]
    assert [pair.origin for pair in pairs] == ["b.tsv", "b.tsv", "a.tsv.gz", "b.tsv", "b.tsv"]


def test_no_files_give_no_pairs() -> None:
    assert list(read_pairs()) == []


@pytest.mark.parametrize("languages", [("de", "en"), (None, None)])
def test_aligned_files_are_read(languages: tuple[str | None, str | None], tmp_path: Path) -> None:
    source = written(tmp_path, "a.de", "eins\n\ndrei\nvier\n")
    target = written(tmp_path, "a.en", "one\ntwo\n\nfour\n")
    pairs = list(read_pairs(source, target, source_lang=languages[0], target_lang=languages[1]))
    assert texts(pairs) == [("eins", "one"), ("vier", "four")]
    assert pairs[0].origin == "a.de"


def test_aligned_files_may_be_compressed(tmp_path: Path) -> None:
    source = written(tmp_path, "a.de.xz", lzma.compress(b"eins\nzwei\n"))
    target = written(tmp_path, "a.en.gz", gzip.compress(b"one\ntwo\n"))
    assert texts(list(read_pairs(source, target, source_lang="de", target_lang="en"))) == [
        ("eins", "one"),
        ("zwei", "two"),
    ]


def test_tab_in_an_aligned_file_is_white_space(tmp_path: Path) -> None:
    source, target = written(tmp_path, "a.de", "eins\tzwei\n"), written(tmp_path, "a.en", "one two\n")
    assert texts(list(read_pairs(source, target))) == [("eins zwei", "one two")]


@pytest.mark.parametrize(
    ("source_text", "target_text", "short"),
    [("1\n2\n3\n", "1\n2\n", "a.en: ends before line 3"), ("1\n", "1\n2\n3\n", "a.de: ends before line 2")],
)
def test_aligned_files_of_unequal_length_are_refused(
    source_text: str, target_text: str, short: str, tmp_path: Path
) -> None:
    source, target = written(tmp_path, "a.de", source_text), written(tmp_path, "a.en", target_text)
    with pytest.raises(InputError, match=short):
        list(read_pairs(source, target))


def test_aligned_files_may_be_given_in_either_order(tmp_path: Path) -> None:
    source, target = written(tmp_path, "a.de", "eins\n"), written(tmp_path, "a.en", "one\n")
    assert texts(list(read_pairs(target, source, source_lang="de", target_lang="en"))) == [("eins", "one")]
    with pytest.raises(InputError, match="named after de and en, wanted are fr and en"):
        list(read_pairs(source, target, source_lang="fr", target_lang="en"))


def test_several_pairs_of_aligned_files(tmp_path: Path) -> None:
    files = [written(tmp_path, name, text) for name, text in (("a.de", "1\n"), ("a.en", "2\n"), ("b.de", "3\n"))]
    files += [written(tmp_path, "m.tsv", "5\t6\n"), written(tmp_path, "b.en", "4\n")]
    found = texts(list(read_pairs(*files, source_lang="de", target_lang="en")))
    assert found == [("1", "2"), ("5", "6"), ("3", "4")]
    with pytest.raises(InputError, match=r"b\.de: unknown format"):
        read_pairs(*files[:3], source_lang="de", target_lang="en")


@pytest.mark.parametrize("name", ["a.txt", "b.csv"])
def test_suffix_that_is_not_a_language_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown format"):
        read_pairs(written(tmp_path, name, "1\n"), written(tmp_path, "c.txt", "2\n"))


def test_line_without_a_tab_is_reported(tmp_path: Path) -> None:
    path = written(tmp_path, "m.tsv", "a\tb\n\nno tab here\nc\td\n")
    with pytest.raises(InputError, match=r"m\.tsv, line 3: no tab"):
        list(read_pairs(path))


@pytest.mark.parametrize("suffix", [".tsv", ".tsv.gz", ".tsv.xz"])
def test_invalid_utf8_is_reported_with_its_line(suffix: str, tmp_path: Path) -> None:
    raw = "a\tb\nc\td\ngrün\tgreen\n".encode("latin-1")
    path = written(tmp_path, "m" + suffix, PACK[suffix](raw))
    with pytest.raises(InputError, match=r"line 3: not UTF-8 \(byte 3\)") as caught:
        list(read_pairs(path))
    assert path.name in str(caught.value) and "\n" not in str(caught.value)


def test_pairs_before_the_bad_line_are_streamed(tmp_path: Path) -> None:
    stream = read_pairs(written(tmp_path, "m.tsv", b"a\tb\n\xff\tc\n"))
    assert next(stream).source == "a"
    with pytest.raises(InputError, match="line 2"):
        next(stream)


def test_byte_order_mark_is_removed(tmp_path: Path) -> None:
    path = written(tmp_path, "m.tsv", b"\xef\xbb\xbfa\tb\nc\td\n")
    assert texts(list(read_pairs(path))) == [("a", "b"), ("c", "d")]
    assert list(numbered_lines(path)) == [(1, "a\tb"), (2, "c\td")]


def test_crlf_and_missing_last_line_end(tmp_path: Path) -> None:
    assert texts(list(read_pairs(written(tmp_path, "m.tsv", b"a\tb\r\nc\td\r\n")))) == [("a", "b"), ("c", "d")]
    assert texts(list(read_pairs(written(tmp_path, "n.tsv", b"a\tb\nc\td")))) == [("a", "b"), ("c", "d")]
    path = written(tmp_path, "o.tsv", b"a\tb\tmanual\r\n")
    assert list(numbered_lines(path)) == [(1, "a\tb\tmanual")]
    assert [pair.origin for pair in read_pairs(path)] == ["manual"]


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\r"])
def test_only_line_feeds_end_a_line(separator: str, tmp_path: Path) -> None:
    """str.splitlines would split here and misalign the corpus."""
    path = written(tmp_path, "m.tsv", f"a{separator}b\tc\nd\te\n")
    assert len(list(numbered_lines(path))) == 2
    pairs = list(read_pairs(path))
    assert [pair.target for pair in pairs] == ["c", "e"]
    assert pairs[0].source == ("ab" if separator == "\x1c" else "a b")


def test_empty_lines_and_empty_sides_are_left_out(tmp_path: Path) -> None:
    path = written(tmp_path, "m.tsv", "\na\tb\n\t\n \t \nc\t\n\td\n\ufeff\t\x00\n   \ne\tf\n")
    assert texts(list(read_pairs(path))) == [("a", "b"), ("e", "f")]


def test_empty_file_has_no_pairs(tmp_path: Path) -> None:
    assert list(read_pairs(written(tmp_path, "m.tsv", ""))) == []


def test_texts_are_cleaned(tmp_path: Path) -> None:
    path = written(tmp_path, "m.tsv", "  a  b\x00 \tc\u00a0d\n")
    assert texts(list(read_pairs(path))) == [("a b", "c\u00a0d")]


def test_limit_counts_kept_pairs(tmp_path: Path) -> None:
    path = written(tmp_path, "m.tsv", "\n\t\na\tb\nc\t\nd\te\nf\tg\n")
    assert texts(list(read_pairs(path, limit=2))) == [("a", "b"), ("d", "e")]
    assert len(list(read_pairs(path, limit=99))) == 3


def test_limit_of_zero_gives_no_pairs(tmp_path: Path) -> None:
    assert list(read_pairs(written(tmp_path, "m.tsv", TEXT), limit=0)) == []


def test_reading_stops_at_the_limit(tmp_path: Path) -> None:
    path = written(tmp_path, "m.tsv", "a\tb\nno tab\n")
    assert texts(list(read_pairs(path, limit=1))) == [("a", "b")]


def long_text() -> bytes:
    return "".join(f"Satz {n * 7919 % 100_003}\tsentence {n * 104_729 % 99_991}\n" for n in range(5000)).encode()


@pytest.mark.parametrize("suffix", [".tsv.gz", ".tsv.xz"])
def test_truncated_compressed_file_is_refused(suffix: str, tmp_path: Path) -> None:
    packed = PACK[suffix](long_text())
    path = written(tmp_path, "m" + suffix, packed[: len(packed) * 3 // 4])
    with pytest.raises(InputError, match=r"damaged compressed file") as caught:
        list(read_pairs(path))
    assert path.name in str(caught.value)


@pytest.mark.parametrize("suffix", [".tsv.gz", ".tsv.xz"])
def test_damaged_compressed_file_is_refused(suffix: str, tmp_path: Path) -> None:
    packed = PACK[suffix](long_text())
    path = written(tmp_path, "m" + suffix, packed[:24] + b"\xff" * 40 + packed[64:])
    with pytest.raises(InputError, match=r"m\.tsv\..*damaged compressed file"):
        list(read_pairs(path))


@pytest.mark.parametrize("suffix", [".tsv.gz", ".tsv.xz"])
def test_uncompressed_file_with_a_compressed_suffix_is_refused(suffix: str, tmp_path: Path) -> None:
    path = written(tmp_path, "m" + suffix, TEXT)
    with pytest.raises(InputError, match="damaged compressed file"):
        list(read_pairs(path))


def test_error_of_a_missing_file_suggests_a_similar_name(tmp_path: Path) -> None:
    written(tmp_path, "memory.tsv", TEXT)
    with pytest.raises(InputError, match=r"memroy\.tsv: no such file; did you mean 'memory\.tsv'\?"):
        list(read_pairs(tmp_path / "memroy.tsv"))
    with pytest.raises(InputError, match=r"no such file$"):
        list(read_pairs(tmp_path / "nowhere" / "memory.tsv"))


def test_missing_file_is_reported_before_reading(tmp_path: Path) -> None:
    path = written(tmp_path, "memory.tsv", TEXT)
    with pytest.raises(InputError, match=r"gone\.tsv"):
        next(read_pairs(path, tmp_path / "gone.tsv"))


def test_folder_is_expanded_to_files_of_known_formats(tmp_path: Path) -> None:
    written(tmp_path, "z.tsv", "1\t2\n")
    written(tmp_path, "README.md", "nothing\n")
    (tmp_path / "inner").mkdir()
    written(tmp_path / "inner", "a.jsonl", '{"source": "3", "target": "4"}\n')
    written(tmp_path / "inner", "b.de", "5\n")
    written(tmp_path / "inner", "b.en", "6\n")
    written(tmp_path / "inner", "lonely.de", "7\n")
    found = texts(list(read_pairs(tmp_path, source_lang="de", target_lang="en")))
    assert found == [("3", "4"), ("5", "6"), ("1", "2")]


def test_folder_without_memories_is_refused(tmp_path: Path) -> None:
    (tmp_path / "corpus.tsv").mkdir()
    with pytest.raises(InputError, match="has no files of known formats"):
        list(read_pairs(tmp_path / "corpus.tsv"))


def test_patterns_are_expanded(tmp_path: Path) -> None:
    written(tmp_path, "b.tsv", "1\t2\n")
    written(tmp_path, "a.tsv", "3\t4\n")
    assert texts(list(read_pairs(tmp_path / "*.tsv"))) == [("3", "4"), ("1", "2")]
    with pytest.raises(InputError, match="no file fits"):
        read_pairs(tmp_path / "*.tmx")


def test_problems_are_reported_without_strict(tmp_path: Path) -> None:
    bad = written(tmp_path, "a.tsv", b"1\t2\nno tab\n\xff\t4\n5\t6\n")
    damaged = written(tmp_path, "b.tsv.gz", b"no gzip")
    good = written(tmp_path, "c.tsv", "7\t8\n9\t\n")
    stream = read_pairs(bad, damaged, good, strict=False)
    assert texts(list(stream)) == [("1", "2"), ("5", "6"), ("7", "8")]
    problems = stream.report.problems
    assert [problem.split(": ")[0].removeprefix(f"{tmp_path}/") for problem in problems] == [
        "a.tsv, line 2",
        "a.tsv, line 3",
        "b.tsv.gz",
    ]
    assert stream.report.problem_count == 3
    assert stream.report.pairs == 3 and stream.report.skipped == {"empty": 1}


@pytest.mark.parametrize("name", ["memory.docx", "memory", "memory.docx.gz"])
def test_error_of_an_unknown_suffix_lists_formats(name: str, tmp_path: Path) -> None:
    path = written(tmp_path, name, TEXT)
    with pytest.raises(InputError, match=r"unknown format .*\.tsv") as caught:
        list(read_pairs(path))
    assert name in str(caught.value) and "\n" not in str(caught.value)


def test_unreadable_files_are_reported(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        list(numbered_lines(tmp_path))


@pytest.mark.parametrize("name", ["utf-8-sig", "UTF-16", "CHARSET", "utf8"])
def test_impossible_declarations_are_read_as_utf8(name: str, tmp_path: Path) -> None:
    assert sniff_xml(written(tmp_path, "a.tmx", f'<?xml version="1.0" encoding="{name}"?><tmx/>')) == Encoding()


@pytest.mark.parametrize("name", ["idna", "punycode", "undefined", "unicode_escape", "base64", "rot13", "klingon"])
def test_unknown_encodings_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"declares the encoding '{name}'"):
        sniff_xml(written(tmp_path, "a.tmx", f"<?xml version='1.0' encoding='{name}'?><tmx/>"))


def test_charset_in_a_message_is_ignored(tmp_path: Path) -> None:
    entry = 'msgid "mail"\nmsgstr "Content-Type: text/html; charset=latin-1"\n'
    assert sniff_po(written(tmp_path, "a.po", entry)) == Encoding()
    header = '# x\nmsgid ""\nmsgstr ""\n"Language: de\\n"\n"Content-Type: text/plain; charset=ISO-8859-1\\n"\n\n'
    assert sniff_po(written(tmp_path, "b.po", header + entry)).name == "iso8859-1"
    assert sniff_po(written(tmp_path, "c.po", 'msgid ""\nmsgstr "Language: de\\n"\n\n' + entry)) == Encoding()
