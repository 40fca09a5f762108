"""ICU messages: flat branches, the categories of the target language, and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearmt.corpus.icu import Argument, Message, MessageError, parse_message


def parsed(text: str, source_lang: str = "de", target_lang: str = "en") -> Message:
    message = parse_message(text, source_lang, target_lang)
    assert message is not None
    return message


def branches(text: str, target_lang: str = "en") -> dict[str, str]:
    message = parsed(text, target_lang=target_lang)
    return {" ".join(keyword for _, _, keyword in branch.path): branch.text for branch in message.branches}


def rebuilt(text: str, target_lang: str = "en") -> str:
    message = parsed(text, target_lang=target_lang)
    return message.rebuild([branch.text for branch in message.branches])


def test_text_around_a_plural_is_part_of_its_branches() -> None:
    text = "Gestern {n, plural, one{wurde # Datei} other{wurden # Dateien}} gelöscht."
    expected = {"one": "Gestern wurde # Datei gelöscht.", "other": "Gestern wurden # Dateien gelöscht."}
    assert branches(text) == expected
    assert rebuilt(text) == "{n, plural, one {" + expected["one"] + "} other {" + expected["other"] + "}}"


def test_several_choices_are_nested() -> None:
    text = "{g, select, w {Sie} other {Er}} hat {n, plural, offset:1 =0 {nichts} one {# Tor} other {# Tore}}"
    assert branches(text) == {
        "w =0": "Sie hat nichts", "w one": "Sie hat # Tor", "w other": "Sie hat # Tore",
        "other =0": "Er hat nichts", "other one": "Er hat # Tor", "other other": "Er hat # Tore",
    }  # fmt: skip
    assert rebuilt(text).startswith("{g, select, w {{n, plural, offset:1 =0 {Sie hat nichts} one {")


def test_choices_of_one_argument_take_the_same_branch() -> None:
    text = "{n, plural, one {Tag} other {Tage}}: {n, plural, =0 {keiner} =1 {er} other {sie}}"
    assert branches(text) == {"=0": "Tage: keiner", "=1": "Tag: er", "one": "Tag: sie", "other": "Tage: sie"}


def test_branches_of_an_inner_choice_count_for_the_outer() -> None:
    text = "{n, plural, other {Tage {n, plural, one {er} other {sie}}}}"
    assert branches(text, "ru") == {"=1": "Tage er", **dict.fromkeys(("one", "few", "many", "other"), "Tage sie")}


def test_number_sign_belongs_to_its_plural() -> None:
    text = "{a, plural, other {# mal {b, plural, other {#}}}}"
    assert branches(text, "ja") == {"other other": "{a, number} mal #"}
    inside_select = "{a, plural, other {{g, select, other {# mal}}}}"
    assert branches(inside_select, "ja") == {"other other": "# mal"}
    with pytest.raises(MessageError, match="'#' of 'a' with an offset"):
        parsed("{a, plural, offset:2 other {# mal {b, plural, other {#}}}}")


@pytest.mark.parametrize(
    ("text", "target_lang", "expected"),
    [
        ("{n, plural, one {#} other {#e}}", "pl", {"one": "#", "few": "#e", "many": "#e", "other": "#e"}),
        ("{n, plural, one {# Tag} other {# Tage}}", "ja", {"other": "# Tage"}),
        ("{n, plural, one {ein Tag} other {# Tage}}", "fr", {"=1": "ein Tag", "one": "# Tage", "other": "# Tage"}),
        ("{n, plural, one {ein Tag} other {# Tage}}", "en", {"one": "ein Tag", "other": "# Tage"}),
        ("{n, plural, one {{n} Tag} other {{n} Tage}}", "fr", {"one": "{n} Tag", "other": "{n} Tage"}),
        ("{n, plural, =0 {nie} =1 {ein Tag} other {# Tage}}", "en", {"=0": "nie", "=1": "ein Tag", "other": "# Tage"}),
        ("{n, plural, few {ein paar} other {viele}}", "en", {"one": "viele", "other": "viele"}),
        ("{n, plural, one {einer} many {viele}}", "en", {"one": "einer", "other": "viele"}),
        ("{n, selectordinal, other {#.}}", "en", dict.fromkeys(("one", "two", "few", "other"), "#.")),
        ("{g, select, a {A} b {B}}", "en", {"a": "A", "b": "B"}),
    ],
)  # fmt: skip
def test_plurals_get_the_categories_of_the_target(text: str, target_lang: str, expected: dict[str, str]) -> None:
    assert branches(text, target_lang) == expected


def test_numbers_have_examples_of_their_category() -> None:
    message = parsed("{n, plural, offset:1 =3 {#} one {#} other {# {n} {m}}}", target_lang="ru")
    examples = {
        branch.path[0][2]: [piece.examples[:2] for piece in branch.pieces if isinstance(piece, Argument)]
        for branch in message.branches
    }
    assert examples["=3"] == [(2,)] and examples["one"] == [(21, 31)] and examples["many"] == [(13, 14), (14, 15), ()]
    assert examples["other"] == examples["many"]


def test_apostrophes_quote_as_in_icu() -> None:
    text = "{n, plural, other {it''s '{'#'}' '#' rock 'n' roll}}"
    (branch,) = parsed(text, target_lang="ja").branches
    assert branch.text == "it's '{'#'}' '#' rock 'n' roll"
    assert [piece.raw for piece in branch.pieces if isinstance(piece, Argument)] == ["'{'", "#", "'}'", "'#'"]
    assert rebuilt(text, "ja") == "{n, plural, other {it''s '{'#'}' '#' rock ''n'' roll}}"


@pytest.mark.parametrize(
    ("translation", "expected"),
    [
        ("{x} # 'a'", "{x} # ''a''"),
        ("a'b {x} '{'{x}", "a'b {x} '''{'''{x}"),
        ("{'}", "'{''}'"),
        ("{}{'", "'{}{'''"),
        ("{y} } #", "'{'y'}' '}' #"),
        ("l'{x}", "l''{x}"),
        ("a'", "a''"),
    ],
)
def test_syntax_in_a_translation_is_quoted(translation: str, expected: str) -> None:
    message = parsed("{n, plural, other {# {x}}}", target_lang="ja")
    assert message.rebuild([translation]) == f"{{n, plural, other {{{expected}}}}}"


def test_number_sign_outside_of_plurals_is_text() -> None:
    assert rebuilt("#1: {g, select, other {#}}") == "{g, select, other {#1: #}}"
    assert rebuilt("Nr. # {n, plural, other {Tage}}", "ja") == "{n, plural, other {Nr. '#' Tage}}"


@pytest.mark.parametrize(
    "text", ["", "Hallo {name}", "{n, number}", "{ und }", "plural, select", "'{n, plural, other {}}'"]
)
def test_other_texts_are_no_messages(text: str) -> None:
    assert parse_message(text, "de", "en") is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{n, plural, one {a} other {b}", "'}' is missing at character 30"),
        ("{n, plural, one {a} other {b}}}", "'}' without '{' at character 31"),
        ("{n, plural, eins {a} other {b}}", "'eins' is not a further branch of a plural"),
        ("{n, plural, other {a} other {b}}", "'other' is not a further branch of a plural"),
        ("{n, plural, }", "a plural without branches"),
        ("{n, select, one a}", "'}' is missing"),
        ("l'{n, plural, other {a}}", "an apostrophe quotes all that follows"),
        ("{n, plural, other {{}", "'}' is missing"),
        ("{n, plural, other {{+}}}", "'{' without an argument"),
        ("{n, select, other {" * 40 + "}}" * 40, "more than 16 levels"),
        ("".join(f"{{a{n}, select, a {{}} other {{}}}}" for n in range(9)), "more than 200 branches"),
        ("{a, select, other {}}" * 200, "more than 100 plurals and selections"),
        ("{a, select, other {" + "x" * 60_000 + "}}", "longer than 50,000 characters"),
    ],
)
def test_malformed_messages_are_named(text: str, reason: str) -> None:
    with pytest.raises(MessageError) as error:
        parse_message(text, "de", "en")
    assert reason in str(error.value)


TEXTS = st.text(alphabet="abc ä'#{}|", max_size=8)
PIECES = st.sampled_from(["Wort ", "'", "''", "#", "{x}", "{d, date, short}", "'{'", "{{y}}", ". "])
FLAT = st.lists(PIECES, max_size=4).map("".join)


@st.composite
def messages(draw: st.DrawFn, depth: int = 2) -> str:
    name, kind = draw(st.sampled_from("nmg")), draw(st.sampled_from(["plural", "select", "selectordinal"]))
    keywords = ["a", "b"] if kind == "select" else ["=0", "one", "few"]
    chosen = [*draw(st.lists(st.sampled_from(keywords), unique=True, max_size=2)), "other"]
    inner = messages(depth - 1) if depth else FLAT
    cases = " ".join(f"{keyword} {{{draw(st.one_of(FLAT, inner))}}}" for keyword in chosen)
    return draw(FLAT) + f"{{{name}, {kind}, {cases}}}" + draw(FLAT)


@given(messages(), st.sampled_from(["en", "ja", "ru"]))
def test_a_rebuilt_message_has_the_same_branches(text: str, target_lang: str) -> None:
    try:
        message = parse_message(text, "de", target_lang)
    except MessageError:
        return
    if message is None:
        return
    texts = [branch.text for branch in message.branches]
    again = parsed(message.rebuild(texts), target_lang, target_lang)
    assert [branch.path for branch in again.branches] == [branch.path for branch in message.branches]
    # A number sign that was text is quoted within a plural.
    assert [unquoted(branch.text) for branch in again.branches] == [unquoted(text) for text in texts]


def unquoted(text: str) -> str:
    return text.replace("'", "")


@given(messages(), st.data())
def test_any_translation_is_a_well_formed_message(text: str, data: st.DataObject) -> None:
    try:
        message = parse_message(text, "de", "en")
    except MessageError:
        return
    if message is None:
        return
    texts = [data.draw(TEXTS) for _ in message.branches]
    again = parsed(message.rebuild(texts), "en", "en")
    assert len(again.branches) == len(texts)


@given(st.text(alphabet="{},#' abn=10pluraselctoh", max_size=80))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    for each in (text, f"{{n, plural, other {{{text}}}}}"):
        try:
            message = parse_message(each, "de", "en")
            assert message is None or message.branches
        except MessageError:
            continue
