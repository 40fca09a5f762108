"""Translations with the chunks retrieved for them, like the paper's appendix: stored as JSON, shown as HTML."""

from __future__ import annotations

import dataclasses
import json
from html import escape
from typing import TYPE_CHECKING, Any

from nearmt.contracts import Pair, Progress, Silenced, TokenProvenance, Translation, Witness
from nearmt.corpus.encoding import Encoding
from nearmt.corpus.output import open_file
from nearmt.research.experiments.cells import Cell, ResultFiles
from nearmt.research.experiments.rows import Experiment

if TYPE_CHECKING:
    from nearmt.research.experiments.artefacts import Artefacts
    from nearmt.translator import Translator

_SPECIAL = ("</s>", "<pad>", "<unk>")
_CHUNKS_SHOWN = 4
#: Colours of a sentence's searches, in turn.
_HUES = (195, 300, 120, 40, 225, 0)
_STYLE = """
body { font: 16px/1.6 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
:root { color-scheme: light dark }
section { border-top: 1px solid #8888; padding: .5rem 0 1rem }
dl { display: grid; grid-template-columns: 6rem 1fr; gap: .2rem .8rem; margin: 0 }
dt { color: #888 } dd { margin: 0 }
.t { color: hsl(var(--h) 70% 42%) } .m { color: inherit }
.b { font-weight: 650; text-decoration: underline 2px hsl(var(--h) 70% 55% / .5) }
.s { background: hsl(var(--h) 70% 55% / .25); border-radius: .2em }
ol { margin: .4rem 0 0; padding: 0; list-style: none } li { margin: .1rem 0; font-size: .9em }
li b { background: hsl(var(--h) 70% 55% / .25); border-radius: .2em; padding: 0 .4em; margin-right: .5em }
li span + span::before { content: " | "; color: #888 }
""".strip()


def explain(translator: Translator, pairs: list[Pair], progress: Progress | None) -> tuple[dict[str, Any], list[str]]:
    """Translate with provenance; return one JSON line for each translation."""
    found = translator.translate([pair.source for pair in pairs], explain=True, progress=progress)
    evaluation = {
        "sentences": len(found),
        "tokens": sum(translation.tokens for translation in found),
        "searches_per_sentence": round(sum(translation.searches for translation in found) / len(found), 2),
        "signature": translator.signature(),
    }
    return evaluation, [json.dumps(dataclasses.asdict(translation), ensure_ascii=False) for translation in found]


def read_examples(results: ResultFiles, cell: Cell) -> list[tuple[Translation, str]]:
    """Read the translations, with provenance, and their references."""
    references = results.test_lines(cell.test, "reference")
    return list(zip((_translation(line) for line in results.translations(cell)), references, strict=True))


def _translation(line: str) -> Translation:
    values = json.loads(line)
    provenance = tuple(
        TokenProvenance(
            **{
                **token,
                "witnesses": tuple(Witness(**witness) for witness in token["witnesses"]),
                "chunks": tuple(token["chunks"]),
                "silenced": tuple(Silenced(**silenced) for silenced in token["silenced"]),
            }
        )
        for token in values["provenance"] or ()
    )
    return Translation(**{**values, "provenance": provenance})


def write_examples(artefacts: Artefacts, experiment: Experiment, cells: list[Cell]) -> list[str]:
    """Write one self-contained HTML page for all domains."""
    name = f"{experiment.name}.html"
    parts = []
    for cell in cells:
        parts.append(f"<h2>{escape(cell.domain)}</h2>")
        parts += [
            example_html(translation, reference) for translation, reference in read_examples(artefacts.results, cell)
        ]
    with open_file(artefacts.setup.out / name, Encoding()) as file:
        file.write(_page(experiment.title, "\n".join(parts)))
    return [name]


def _page(title: str, body: str) -> str:
    legend = (
        "Each search has a colour: its step is shaded, and the retrieved chunks are listed below. "
        "Underlined words come from retrieved entries; the others are the model's own."
    )
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style>'
    content = f"<h1>{escape(title)}</h1><p>{legend}</p>\n{body}"
    return f"<!doctype html><html><head>{head}</head><body>{content}\n</body></html>\n"


def example_html(translation: Translation, reference: str) -> str:
    """Render one sentence: source, reference, output in colour, and the chunks of every search."""
    words: list[str] = []
    searches: list[str] = []
    hue = 0
    for step, token in enumerate(translation.provenance or (), 1):
        if token.searched:
            hue = _HUES[len(searches) % len(_HUES)]
            chunks = "".join(f"<span>{escape(chunk)}</span>" for chunk in token.chunks[:_CHUNKS_SHOWN])
            searches.append(f'<li style="--h:{hue}"><b>step {step}</b>{chunks}</li>')
        if token.token not in _SPECIAL:
            kind = ("t b" if token.origin != "model" else "m") + (" s" if token.searched else "")
            words.append(f'<span class="{kind}" style="--h:{hue}">{escape(token.token)}</span>')
    terms = {"source": escape(translation.source), "reference": escape(reference), "output": "".join(words)}
    shown = "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in terms.items())
    return f"<section><dl>{shown}</dl><ol>{''.join(searches)}</ol></section>"
