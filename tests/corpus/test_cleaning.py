"""Cleaning: default rules rewrite texts, optional rules leave out pairs."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearmt.contracts import Pair
from nearmt.corpus.cleaning import _CONTROL as CONTROL
from nearmt.corpus.cleaning import _SPACE as SPACE
from nearmt.corpus.cleaning import DROPS, REWRITES, Cleaner, CleaningConfig, clean, digest
from nearmt.corpus.report import Report
from nearmt.corpus.scripts import is_in_wrong_script, letters_by_script, script_of_letter, scripts_of_language
from nearmt.errors import ConfigError

#: Any text that UTF-8 can encode, with special characters frequent.
ANY = st.text(
    st.one_of(
        st.characters(codec="utf-8"),
        st.sampled_from(" \t\n\r\x0b\x0c\x00\x07\x1b\x7f\x80\x85\x9f\u00a0\u202f\u2028\u2029\ufeff\ufff9\u200b\u00ad"),
    ),
    max_size=40,
)
PAIRS = st.builds(Pair, source=ANY, target=ANY, id=st.sampled_from(["", "7"]))
#: Few texts of different lengths, so that rules apply often.
WORDS = st.sampled_from(["a", "b", " a ", "Pumpe", "насос", "насос на", "x" * 29, "x" * 30, "y" * 61, "", "\x00"])
LIKELY = st.lists(st.builds(Pair, source=WORDS, target=WORDS), max_size=12)

EVERYTHING: dict[str, Any] = {
    "drop_identical": True,
    "drop_wrong_script": True,
    "drop_duplicates": True,
    "max_length": 60,
    "max_ratio": 3,
}


@given(ANY)
def test_texts_without_anything_to_clean_take_no_other_way(text: str) -> None:
    """A printable text is told from others without looking for each character of the rules."""
    assert clean(text) == SPACE.sub(" ", CONTROL.sub("", text)).strip(" ")


def test_all_that_cleaning_changes_is_not_printable() -> None:
    changed = [chr(code) for code in range(0x110000) if clean(f"a{chr(code)}b") != f"a{chr(code)}b"]
    expected = [chr(code) for code in range(0x110000) if SPACE.sub(" ", CONTROL.sub("", chr(code))) != chr(code)]
    assert changed == expected and len(changed) > 60


def cleaned(
    pairs: list[Pair], source_lang: str | None = "de", target_lang: str | None = "en", **settings: Any
) -> tuple[list[Pair], Report]:
    report = Report()
    cleaner = Cleaner(CleaningConfig(**settings), source_lang, target_lang, report)
    return [result for pair in pairs if (result := cleaner(pair)) is not None], report


def pairs_of(*texts: tuple[str, str]) -> list[Pair]:
    return [Pair(source=source, target=target) for source, target in texts]


class TestTexts:
    @given(ANY)
    def test_cleaning_is_idempotent(self, text: str) -> None:
        assert clean(clean(text)) == clean(text)

    @given(ANY)
    def test_no_control_characters_are_left(self, text: str) -> None:
        assert not [character for character in clean(text) if unicodedata.category(character) in ("Cc", "Zl", "Zp")]

    @given(ANY)
    def test_blanks_are_single_and_inside(self, text: str) -> None:
        result = clean(text)
        assert "  " not in result
        assert not result.startswith(" ") and not result.endswith(" ")

    @given(ANY)
    def test_other_characters_keep_their_order(self, text: str) -> None:
        def visible(part: str) -> list[str]:
            return [
                c
                for c in part
                if unicodedata.category(c) not in ("Cc", "Zl", "Zp") and c not in " \ufeff\ufff9\ufffa\ufffb"
            ]

        assert visible(clean(text)) == visible(text)

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("a\u00a0b", "a\u00a0b"),
            ("\u00a0a\u202fb\u00a0", "\u00a0a\u202fb\u00a0"),
            ("a\u2028b", "a b"),
            ("a \t\r\n b", "a b"),
            ("a\x00b", "ab"),
            ("a \x00 b", "a b"),
            ("\ufeffa", "a"),
            ("zero\u200bwidth soft\u00adhyphen", "zero\u200bwidth soft\u00adhyphen"),
            ("e\u0301 é 👩\u200d👩\u200d👧", "e\u0301 é 👩\u200d👩\u200d👧"),
            ("", ""),
            (" \t ", ""),
        ],
    )
    def test_clean_examples(self, text: str, expected: str) -> None:
        assert clean(text) == expected


class TestRewriting:
    @given(PAIRS)
    def test_default_rules_equal_clean(self, pair: Pair) -> None:
        kept, report = cleaned([pair])
        texts = clean(pair.source), clean(pair.target)
        assert [(p.source, p.target, p.id) for p in kept] == ([(*texts, pair.id)] if all(map(str.strip, texts)) else [])
        assert report.skipped["empty"] == (not kept)
        assert not report.dropped

    @given(PAIRS)
    def test_texts_are_unchanged_without_rules(self, pair: Pair) -> None:
        kept, report = cleaned([pair], whitespace=False, control_characters=False)
        assert all(result is pair for result in kept)
        assert not report.changed

    @given(st.lists(PAIRS, max_size=5), st.booleans(), st.booleans())
    def test_changed_pairs_are_counted_by_rule(self, pairs: list[Pair], whitespace: bool, controls: bool) -> None:
        kept, report = cleaned(pairs, whitespace=whitespace, control_characters=controls)
        assert all(report.changed[name] <= len(kept) for name in REWRITES)
        assert report.changed["whitespace"] == 0 or whitespace
        assert report.changed["control-characters"] == 0 or controls

    def test_changes_are_counted(self) -> None:
        pairs = pairs_of(("a  b", "c"), ("a", "\x00c "), ("a", "b"), (" ", "b"))
        kept, report = cleaned(pairs)
        assert [(p.source, p.target) for p in kept] == [("a b", "c"), ("a", "c"), ("a", "b")]
        assert report.changed == {"whitespace": 2, "control-characters": 1}
        assert report.skipped == {"empty": 1}

    @pytest.mark.parametrize("blank", ["", " ", "\t\n", "\u00a0", "\u3000", "\x00", "\ufeff"])
    def test_empty_sides_are_always_left_out(self, blank: str) -> None:
        assert cleaned(pairs_of(("a", blank), (blank, "a")))[0] == []

    def test_dropped_pairs_do_not_count_as_changed(self) -> None:
        _, report = cleaned(pairs_of(("a ", "a")), drop_identical=True)
        assert report.dropped == {"drop-identical": 1}
        assert not report.changed


class TestLeavingOut:
    @given(LIKELY)
    def test_every_pair_is_accounted_for(self, pairs: list[Pair]) -> None:
        kept, report = cleaned(pairs, **EVERYTHING)
        assert len(kept) + report.dropped.total() + report.skipped.total() == len(pairs)
        assert set(report.dropped) <= set(DROPS)

    @given(LIKELY)
    def test_dropping_is_idempotent(self, pairs: list[Pair]) -> None:
        kept, _ = cleaned(pairs, **EVERYTHING)
        again, report = cleaned(kept, **EVERYTHING)
        assert again == kept
        assert not report.dropped and not report.changed

    @given(LIKELY)
    def test_first_of_duplicates_is_kept(self, pairs: list[Pair]) -> None:
        kept, report = cleaned(pairs, drop_duplicates=True)
        everything, _ = cleaned(pairs)
        texts = [(pair.source, pair.target) for pair in kept]
        assert texts == list(dict.fromkeys((pair.source, pair.target) for pair in everything))
        assert report.dropped["drop-duplicates"] == len(everything) - len(kept)

    def test_duplicates_are_found_after_rewriting(self) -> None:
        kept, report = cleaned(pairs_of(("a b", "c"), (" a  b", "c\x00"), ("a", "b c")), drop_duplicates=True)
        assert [(pair.source, pair.target) for pair in kept] == [("a b", "c"), ("a", "b c")]
        assert report.dropped == {"drop-duplicates": 1}

    @given(LIKELY)
    def test_identical_sides_are_dropped(self, pairs: list[Pair]) -> None:
        kept, report = cleaned(pairs, drop_identical=True)
        everything, _ = cleaned(pairs)
        assert kept == [pair for pair in everything if pair.source != pair.target]
        assert report.dropped["drop-identical"] == len(everything) - len(kept)

    @given(PAIRS, st.integers(1, 50))
    def test_long_pairs_are_dropped(self, pair: Pair, most: int) -> None:
        kept, report = cleaned([pair], max_length=most)
        assert all(max(len(p.source), len(p.target)) <= most for p in kept)
        if report.dropped:
            assert max(len(clean(pair.source)), len(clean(pair.target))) > most

    @given(st.integers(1, 200), st.integers(1, 200), st.floats(1, 10))
    def test_unequal_pairs_are_dropped(self, source: int, target: int, most: float) -> None:
        pair = Pair("x" * source, "y" * target)
        kept, _ = cleaned([pair], max_ratio=most)
        longer, shorter = max(source, target), min(source, target)
        assert bool(kept) == (longer < 30 or longer <= most * shorter)
        assert bool(kept) == bool(cleaned([Pair(pair.target, pair.source)], max_ratio=most)[0])

    @pytest.mark.parametrize(
        ("source", "target", "is_kept"),
        [(1, 29, True), (1, 30, False), (10, 30, True), (10, 31, False), (1000, 1, False)],
    )
    def test_short_pairs_may_have_any_ratio(self, source: int, target: int, is_kept: bool) -> None:
        assert bool(cleaned([Pair("x" * source, "y" * target)], max_ratio=3)[0]) == is_kept

    def test_a_pair_counts_for_one_rule(self) -> None:
        _, report = cleaned(pairs_of(("насос", "насос")), drop_identical=True, drop_wrong_script=True, max_length=2)
        assert report.dropped == {"drop-identical": 1}

    def test_pairs_dropped_by_other_rules_are_not_duplicates(self) -> None:
        report = Report()
        cleaner = Cleaner(CleaningConfig(drop_duplicates=True, max_length=3), "de", "en", report)
        assert cleaner(Pair("aaaa", "b")) is None
        assert cleaner(Pair("aaaa", "b")) is None
        assert report.dropped == {"max-length": 2}

    @pytest.mark.parametrize("settings", [{"max_ratio": 0.5}, {"max_length": 0}, {"max_ratio": float("nan")}])
    def test_values_out_of_range_are_refused(self, settings: dict[str, Any]) -> None:
        with pytest.raises(ConfigError):
            CleaningConfig(**settings)

    def test_every_rule_has_a_setting(self) -> None:
        assert {*REWRITES, *DROPS} == set(CleaningConfig.public_fields())


@given(st.lists(ANY, max_size=3), st.lists(ANY, max_size=3))
def test_digests_tell_texts_apart(one: list[str], other: list[str]) -> None:
    assert (digest(*one) == digest(*other)) == (one == other)
    assert len(digest(*one)) == 8


class TestScripts:
    @pytest.mark.parametrize(
        ("language", "scripts"),
        [
            ("de", {"LATIN"}),
            ("de-AT", {"LATIN"}),
            ("deu_Latn", {"LATIN"}),
            ("deu", {"LATIN"}),
            ("RU", {"CYRILLIC"}),
            ("uk_UA", {"CYRILLIC"}),
            ("ru_RU.UTF-8", {"CYRILLIC"}),
            ("sr", {"CYRILLIC", "LATIN"}),
            ("sr-Latn-RS", {"LATIN"}),
            ("sr@latin", {"LATIN"}),
            ("sr_RS@latin", {"LATIN"}),
            ("ja", {"CJK", "HIRAGANA", "KATAKANA"}),
            ("zh-Hant-TW", {"CJK", "BOPOMOFO"}),
            ("kor_Hang", {"HANGUL"}),
            ("he", {"HEBREW"}),
            (None, set()),
            ("", set()),
            ("und", set()),
            ("xx", set()),
            ("de-Brai", set()),
        ],
    )
    def test_scripts_of_languages(self, language: str | None, scripts: set[str]) -> None:
        assert scripts_of_language(language) == scripts

    @pytest.mark.parametrize(
        ("characters", "script"),
        [
            ("aßÀ", "LATIN"),
            ("\uff21", "LATIN"),
            ("жЇ", "CYRILLIC"),
            ("ωἄ", "GREEK"),
            ("عپ", "ARABIC"),
            ("ש", "HEBREW"),
            ("हे"[0], "DEVANAGARI"),
            ("漢\U00020000", "CJK"),
            ("ひ", "HIRAGANA"),
            ("カー\uff76", "KATAKANA"),
            ("한", "HANGUL"),
            ("ไ", "THAI"),
            ("ქ", "GEORGIAN"),
            ("հ", "ARMENIAN"),
            ("1 .%\u0301µª\U0001d400😀\x00\u200f", ""),
        ],
    )
    def test_scripts_of_letters(self, characters: str, script: str) -> None:
        assert {script_of_letter(character) for character in characters} == {script}

    @pytest.mark.parametrize(
        ("text", "language", "wrong"),
        [
            ("Die Pumpe prüfen", "de", False),
            ("Проверьте насос", "de", True),
            ("Check the pump", "ru", True),
            ("Насос SIEMENS", "ru", True),
            ("Насос BOSCH", "ru", False),
            ("Насос 1234567890 %s", "ru", False),
            ("USB", "ru", False),
            ("12.34.5678", "ru", False),
            ("ポンプを確認する", "ja", False),
            ("检查泵", "ja", False),
            ("ポンプを確認する", "zh", True),
            ("펌프를 확인", "ko", False),
            ("אנא בדוק", "he", False),
            ("אנא בדוק", "ar", True),
            ("Проверьте насос", None, False),
            ("Проверьте насос", "und", False),
            ("", "de", False),
        ],
    )
    def test_texts_in_a_wrong_script(self, text: str, language: str | None, wrong: bool) -> None:
        assert is_in_wrong_script(text, language) == wrong

    @given(ANY)
    def test_letters_are_counted_once(self, text: str) -> None:
        counts = letters_by_script(text)
        assert counts.total() <= sum(character.isalpha() for character in text)
        assert counts.total() == sum(bool(script_of_letter(character)) for character in text)

    @given(ANY)
    def test_no_text_is_wrong_for_an_unknown_language(self, text: str) -> None:
        assert not is_in_wrong_script(text, "und")

    @given(ANY, st.sampled_from(["de", "ru", "ja", "ar", "hi"]))
    def test_only_letters_have_a_script(self, text: str, language: str) -> None:
        assert is_in_wrong_script(text + " 12 %.", language) == is_in_wrong_script(text, language)

    def test_both_sides_are_checked(self) -> None:
        pairs = pairs_of(("Die Pumpe", "Насосы"), ("Die Pumpe", "The pump"), ("насосы", "The pump"))
        kept, report = cleaned(pairs, "de", "ru", drop_wrong_script=True)
        assert [(pair.source, pair.target) for pair in kept] == [("Die Pumpe", "Насосы")]
        assert report.dropped == {"drop-wrong-script": 2}
        assert len(cleaned(pairs, None, None, drop_wrong_script=True)[0]) == 3


def test_all_languages_of_models_have_scripts() -> None:
    from nearmt.languages import NLLB_CODE

    for language, code in NLLB_CODE.items():
        assert scripts_of_language(code) & scripts_of_language(language), language
        assert scripts_of_language(code.split("_")[0]) == scripts_of_language(language), language
