"""What users call a language, and what each family calls it."""

from __future__ import annotations

import pytest

from nearmt.errors import ModelError
from nearmt.languages import ENGLISH_NAME, NLLB_CODE, base_language
from nearmt.models.languages import english_name, find_tag, language_tags

MBART = ["<s>", "▁de", "de_DE", "en_XX", "fr_XX", "zh_CN", "pt_XX", "<mask>", "DE_de", "de_de"]
NLLB = ["</s>", "deu_Latn", "eng_Latn", "zho_Hans", "zho_Hant", "nob_Latn", "nno_Latn", "arb_Arab", "ary_Arab", "x_Y"]
M2M = ["▁__", "__de__", "__en__", "__zh__", "__no__", "__ast__", "__", "__DE__"]
MARIAN = [">>deu<<", ">>fra<<", ">>cmn_Hans<<", ">>por<<", ">>", "<<"]


def test_only_tags_are_tags() -> None:
    assert language_tags(MBART) == {code: code for code in ("de_DE", "en_XX", "fr_XX", "zh_CN", "pt_XX")}
    assert set(language_tags(NLLB)) == set(NLLB) - {"</s>", "x_Y"}
    assert language_tags(M2M) == {"de": "__de__", "en": "__en__", "zh": "__zh__", "no": "__no__", "ast": "__ast__"}
    assert language_tags(MARIAN) == {
        "deu": ">>deu<<",
        "fra": ">>fra<<",
        "cmn_Hans": ">>cmn_Hans<<",
        "por": ">>por<<",
    }
    assert language_tags(["the", "▁haus", "."]) == {}


@pytest.mark.parametrize(
    ("vocabulary", "language", "tag"),
    [
        (MBART, "de", "de_DE"),
        (MBART, "de-AT", "de_DE"),
        (MBART, "de_DE", "de_DE"),
        (MBART, "de-DE", "de_DE"),
        (MBART, "DE", "de_DE"),
        (MBART, "en", "en_XX"),
        (MBART, "zh", "zh_CN"),
        (MBART, "pt-BR", "pt_XX"),
        (NLLB, "de", "deu_Latn"),
        (NLLB, "deu_Latn", "deu_Latn"),
        (NLLB, "zh", "zho_Hans"),
        (NLLB, "zho_Hant", "zho_Hant"),
        (NLLB, "no", "nob_Latn"),
        (NLLB, "ar", "arb_Arab"),
        (NLLB, "deu", "deu_Latn"),
        (M2M, "de", "__de__"),
        (M2M, "de-CH", "__de__"),
        (M2M, "ast", "__ast__"),
        (MARIAN, "de", ">>deu<<"),
        (MARIAN, "fra", ">>fra<<"),
        (MARIAN, "pt", ">>por<<"),
    ],
)
def test_finds_the_tag(vocabulary: list[str], language: str, tag: str) -> None:
    assert find_tag(language, language_tags(vocabulary), "m") == tag


@pytest.mark.parametrize(("vocabulary", "shown"), [(MBART, "de_DE"), (NLLB, "deu_Latn"), (M2M, "ast")])
def test_an_unknown_language_lists_some(vocabulary: list[str], shown: str) -> None:
    with pytest.raises(ModelError) as caught:
        find_tag("xx", language_tags(vocabulary), "the-model")
    assert str(caught.value).startswith("the-model does not know the language 'xx'")
    assert shown in str(caught.value) and "\n" not in str(caught.value)


def test_a_misspelt_language_is_guessed() -> None:
    with pytest.raises(ModelError, match=r"'asd'; did you mean 'ast'\?"):
        find_tag("asd", language_tags(M2M), "m")
    with pytest.raises(ModelError, match=r"did you mean 'deu_Latn'\?"):
        find_tag("dau_Latn", language_tags(NLLB), "m")


def test_a_long_list_is_cut() -> None:
    tags = {f"l{chr(97 + n)}": f"__l{chr(97 + n)}__" for n in range(20)}
    with pytest.raises(ModelError, match=r"\(it has la, lb, .*, \.\.\.\)"):
        find_tag("zz", tags, "m")


def test_english_names() -> None:
    assert english_name("de-AT", "t5") == "German"
    with pytest.raises(ModelError, match="t5 does not know the language 'tlh'"):
        english_name("tlh", "t5")


def test_the_table_is_whole() -> None:
    """Every row has its three columns, no code twice."""
    assert len(NLLB_CODE) == len(ENGLISH_NAME) == len(set(NLLB_CODE.values())) >= 70
    assert set(language_tags(NLLB_CODE.values())) == set(NLLB_CODE.values())
    assert all(len(code) == 2 and name[0].isupper() for code, name in ENGLISH_NAME.items())
    from transformers.models.nllb.tokenization_nllb import FAIRSEQ_LANGUAGE_CODES

    assert set(NLLB_CODE.values()) <= set(FAIRSEQ_LANGUAGE_CODES)


@pytest.mark.parametrize("code", ["de", "DE", "de-AT", "de_DE", "De-Latn-DE"])
def test_base_language(code: str) -> None:
    assert base_language(code) == "de"
