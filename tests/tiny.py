"""Tiny random models: every supported family in a fraction of a second, without downloads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import PreTrainedModel

from nearmt.models.families import family_of

VOCABULARY = 60
_SIZES: dict[str, Any] = {
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "max_position_embeddings": 64,
}
# Large initial weights make peaked distributions: random models otherwise end in ties.
_INIT = {"init_std": 0.6}

FAMILIES = ("marian", "fsmt", "mbart", "mbart50", "m2m_100", "nllb", "t5")


def tiny_model(family: str, seed: int = 0, **changes: Any) -> PreTrainedModel:
    """A random model of a family, with that family's start, end and forced tokens."""
    torch.manual_seed(seed)
    config = _CONFIGS[family]()
    for name, value in changes.items():
        if hasattr(config, name):
            setattr(config, name, value)
    model: PreTrainedModel = transformers.AutoModelForSeq2SeqLM.from_config(config)
    assert model.generation_config is not None
    for name, value in {**_GENERATION.get(family, {}), **changes}.items():
        setattr(model.generation_config, name, value)
    _sharpen(model)
    return model.eval()


def restless_model(family: str, seed: int = 0, **changes: Any) -> PreTrainedModel:
    """A random model whose translations end early, late, or at the bound.

    Tied to the embeddings, a random projection repeats the last token for ever: here it is untied, and the
    end of sentence is loud. (Untied weights do not survive saving, so model folders are made of tiny models.)
    """
    model = tiny_model(family, seed, **changes)
    assert model.generation_config is not None
    projection = family_of(model).output_projection(model)
    assert isinstance(projection, torch.nn.Linear)
    with torch.no_grad():
        weight = torch.randn_like(projection.weight) * 0.35
        weight[model.generation_config.eos_token_id] *= 3
    projection.weight = torch.nn.Parameter(weight)
    return model


def _sharpen(model: PreTrainedModel) -> None:
    """Random layers say nearly the same for every prefix; larger weights make them differ."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1 and "embed_positions" not in name:
                parameter.normal_(0, 0.35)


def _marian() -> Any:
    return transformers.MarianConfig(
        vocab_size=VOCABULARY,
        decoder_vocab_size=VOCABULARY,
        pad_token_id=VOCABULARY - 1,
        decoder_start_token_id=VOCABULARY - 1,
        eos_token_id=0,
        forced_eos_token_id=0,
        **_SIZES,
        **_INIT,
    )


def _fsmt() -> Any:
    sizes = {**_SIZES, "max_position_embeddings": 64}
    return transformers.FSMTConfig(
        langs=["de", "en"],
        src_vocab_size=VOCABULARY,
        tgt_vocab_size=VOCABULARY,
        pad_token_id=1,
        bos_token_id=0,
        eos_token_id=2,
        decoder_start_token_id=2,
        forced_eos_token_id=2,
        **sizes,
        **_INIT,
    )


def _mbart() -> Any:
    return transformers.MBartConfig(
        vocab_size=VOCABULARY,
        pad_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=50,
        forced_eos_token_id=2,
        **_SIZES,
        **_INIT,
    )


def _m2m() -> Any:
    return transformers.M2M100Config(
        vocab_size=VOCABULARY, pad_token_id=1, eos_token_id=2, decoder_start_token_id=2, **_SIZES, **_INIT
    )


def _t5() -> Any:
    return transformers.T5Config(
        vocab_size=VOCABULARY,
        d_model=16,
        d_kv=8,
        d_ff=32,
        num_layers=2,
        num_heads=2,
        n_positions=64,
        pad_token_id=0,
        eos_token_id=1,
        decoder_start_token_id=0,
    )


_CONFIGS = {
    "marian": _marian,
    "fsmt": _fsmt,
    "mbart": _mbart,
    "mbart50": _mbart,
    "m2m_100": _m2m,
    "nllb": _m2m,
    "t5": _t5,
}
_GENERATION: dict[str, dict[str, Any]] = {
    "marian": {"bad_words_ids": [[VOCABULARY - 1]]},
    "mbart50": {"decoder_start_token_id": 2, "forced_bos_token_id": 51},
    "m2m_100": {"forced_bos_token_id": 52},
    "nllb": {"forced_bos_token_id": 53, "max_length": 200},
}


def random_sources(seed: int, count: int = 5, longest: int = 12) -> list[list[int]]:
    """Token ids of unequal lengths, each closed by the end of sentence (id 2 serves every family)."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, longest, (count,), generator=generator).tolist()
    return [[*torch.randint(4, 50, (length,), generator=generator).tolist(), 2] for length in lengths]


WORDS = (
    "die der das ein eine pumpe ventil welle motor schraube deckel öffnen schließen prüfen reinigen ersetzen "
    "vor nach und nicht immer the a pump valve shaft motor screw cover open close check clean replace before "
    "after and not always ."
).split()


def sentencepiece_model(folder: Path, seed: int = 0) -> tuple[Path, list[tuple[str, float]]]:
    """A unigram model of the tiny words, and its pieces with their scores."""
    import sentencepiece

    generator = torch.Generator().manual_seed(seed)
    rows = [torch.randint(0, len(WORDS), (8,), generator=generator).tolist() for _ in range(400)]
    text = folder / "text.txt"
    text.write_text("\n".join(" ".join(WORDS[place] for place in row) for row in rows), encoding="utf-8")
    sentencepiece.SentencePieceTrainer.train(
        input=str(text),
        model_prefix=str(folder / "spm"),
        vocab_size=120,
        character_coverage=1.0,
        minloglevel=2,
        hard_vocab_limit=False,
    )
    processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / "spm.model"))
    pieces = [(processor.id_to_piece(n), processor.get_score(n)) for n in range(processor.get_piece_size())]
    return folder / "spm.model", pieces


def tiny_marian_folder(folder: Path, seed: int = 0, **changes: Any) -> Path:
    """A Marian folder with a real (tiny) SentencePiece tokenizer, as users have them on disk."""
    pieces = [piece for piece, _ in sentencepiece_model(folder, seed)[1]]
    ordered = ["</s>", "<unk>", *[piece for piece in pieces if piece not in ("<s>", "</s>", "<unk>")], "<pad>"]
    vocabulary = {piece: number for number, piece in enumerate(ordered)}
    for name in ("source.spm", "target.spm"):
        (folder / name).write_bytes((folder / "spm.model").read_bytes())
    (folder / "vocab.json").write_text(json.dumps(vocabulary, ensure_ascii=False), encoding="utf-8")
    settings = {"source_lang": "de", "target_lang": "en", "tokenizer_class": "MarianTokenizer", "model_max_length": 64}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    size = len(vocabulary)
    tiny_model(
        "marian",
        seed,
        vocab_size=size,
        decoder_vocab_size=size,
        pad_token_id=size - 1,
        decoder_start_token_id=size - 1,
        bad_words_ids=[[size - 1]],
        **changes,
    ).save_pretrained(folder)
    for name in ("spm.model", "spm.vocab", "text.txt"):
        (folder / name).unlink()
    return folder
