"""Glossaries of all formats, good and bad."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearmt.corpus import LimitsConfig, Report
from nearmt.corpus.glossary import Term, TermStatus, read_glossary
from nearmt.errors import InputError

TBX_2 = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE martif SYSTEM "TBXcoreStructV02.dtd">
<martif type="TBX" xml:lang="en"><text><body>
<termEntry id="1"><descrip type="definition">x</descrip>
 <langSet xml:lang="de-DE"><tig><term>Ventil</term></tig><tig><term>Hahn</term>
  <termNote type="administrativeStatus">deprecatedTerm-admn-sts</termNote></tig></langSet>
 <langSet xml:lang="en"><ntig><termGrp><term> main  valve </term></termGrp></ntig>
  <ntig><termGrp><term>tap</term>
   <termNote type="administrativeStatus">supersededTerm-admn-sts</termNote></termGrp></ntig>
 </langSet>
 <langSet xml:lang="fr"><tig><term>vanne</term></tig></langSet></termEntry>
<termEntry id="2"><langSet xml:lang="de"><tig><term>Motor</term></tig></langSet></termEntry>
</body></text></martif>
"""
TBX_3 = """<?xml version="1.0"?>
<tbx type="TBX-Min" style="{style}" xml:lang="de" xmlns="urn:iso:std:iso:30042:ed-2"
 xmlns:min="http://www.tbxinfo.net/ns/min">
<text><body><conceptEntry id="c1">
 <langSec xml:lang="de"><termSec><term>Ventil</term></termSec></langSec>
 <langSec xml:lang="en-GB"><termSec><term>valve</term>{status}</termSec></langSec>
</conceptEntry></body></text></tbx>
"""


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def plain(terms: list[Term]) -> list[tuple[str, str, str]]:
    return [(term.source, term.target, term.status.value) for term in terms]


ROWS = ["Ventil,valve", "Störung,error,forbidden", "Tropfwart,,do-not-translate", ",utilize,Forbidden"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tsv", "\n".join(ROWS).replace(",", "\t")),
        ("a.csv", "\n".join(["Source,Target", "# made by hand", "", *ROWS]).replace("do-not-", "Do not ")),
        ("a.csv", "\ufeff" + "\r\n".join(ROWS).replace(",", ";").replace("do-not-", "do_not_") + "\r\n"),
        ("a.csv", "\n".join('"' + row.replace(",", '","') + '"' for row in ROWS)),
    ],
)
def test_tables(tmp_path: Path, name: str, content: str) -> None:
    assert plain(read_glossary(written(tmp_path / name, content))) == [
        ("Ventil", "valve", "use"),
        ("Störung", "error", "forbidden"),
        ("Tropfwart", "Tropfwart", "do-not-translate"),
        ("", "utilize", "forbidden"),
    ]


def test_quoted_columns_keep_their_commas(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", 'Rohr 1,rohr\n"Rohr, dick","pipe, ""thick"""\n')
    assert plain(read_glossary(path))[1] == ("Rohr, dick", 'pipe, "thick"', "use")


def test_tbx_2(tmp_path: Path) -> None:
    terms = read_glossary(written(tmp_path / "a.tbx", TBX_2), "de", "en")
    assert plain(terms) == [("Ventil", "main valve", "use"), ("Ventil", "tap", "forbidden")]
    assert terms[0].line == 4
    assert plain(read_glossary(tmp_path / "a.tbx", "fr", "de"))[0] == ("vanne", "Ventil", "use")


@pytest.mark.parametrize(
    ("style", "status", "expected"),
    [
        ("dct", "", "use"),
        ("dct", "<min:administrativeStatus>preferredTerm-admn-sts</min:administrativeStatus>", "use"),
        ("dct", "<min:administrativeStatus>notRecommended</min:administrativeStatus>", "use"),
        ("dct", "<min:administrativeStatus>deprecatedTerm-admn-sts</min:administrativeStatus>", "forbidden"),
        ("dca", '<termNote type="administrativeStatus">supersededTerm-admn-sts</termNote>', "forbidden"),
        ("dca", '<termNote type="partOfSpeech">noun</termNote>', "use"),
    ],
)
def test_tbx_3(tmp_path: Path, style: str, status: str, expected: str) -> None:
    content = TBX_3.format(style=style, status=status)
    path = written(tmp_path / "a.tbx.gz", gzip.compress(content.encode()))
    assert plain(read_glossary(path, "de", "en")) == [("Ventil", "valve", expected)]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", "a\tb", "unknown format '.txt'"),
        ("a.tsv", "", "has no terms that can be used"),
        ("a.tsv", "Ventil\n", "line 1: no target term"),
        ("a.tsv", "\tvalve\n", "line 1: no source term"),
        ("a.tsv", "a\tb\tmaybe\n", "line 1: third column 'maybe'; expected forbidden"),
        ("a.tsv", b"\xff\xfe\tb\n", "not UTF-8"),
        ("a.tsv", "a" * 400 + "\tb\n", "a term of more than 300 characters"),
        ("a.csv", '"' + "a" * 140_000 + ',"\n', "a term of more than 300 characters"),
        ("a.tbx", "<martif><text><body><termEntry>", "broken XML"),
        ("a.tbx", "no XML", "broken XML"),
        ("a.tbx", '<!DOCTYPE a [<!ENTITY b "c">]><martif/>', "declares the entity 'b'"),
        ("a.tbx", "<martif></martif>", "has no terms that can be used"),
    ],
)
def test_bad_files(tmp_path: Path, name: str, content: str | bytes, message: str) -> None:
    with pytest.raises(InputError, match=message) as failed:
        read_glossary(written(tmp_path / name, content), "de", "en")
    assert "\n" not in str(failed.value)


def test_bad_rows_are_reported_and_others_used(tmp_path: Path) -> None:
    path, report = written(tmp_path / "a.tsv", "Ventil\tvalve\nMotor\n" + "x" * (1 << 20) + "\tb\n"), Report()
    assert plain(read_glossary(path, report=report, limits=LimitsConfig(max_unit=1))) == [("Ventil", "valve", "use")]
    assert report.problem_count == 2
    with pytest.raises(InputError, match="line 2: no target term"):
        read_glossary(path, strict=True)


def test_tbx_needs_languages(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="give --source-lang and --target-lang"):
        read_glossary(written(tmp_path / "a.tbx", TBX_2), "de")


@given(st.lists(st.tuples(st.text(max_size=8), st.text(max_size=8), st.sampled_from(["", "forbidden", "?"]))))
def test_any_table_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str, str]]
) -> None:
    path = tmp_path_factory.mktemp("glossary") / "a.csv"
    path.write_text("\n".join(",".join(row) for row in rows), encoding="utf-8", errors="replace", newline="")
    try:
        terms = read_glossary(path)
    except InputError:
        return
    assert all(term.target and (term.source or term.status is TermStatus.FORBIDDEN) for term in terms)
