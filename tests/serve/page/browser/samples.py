"""A memory and texts for tests of the page, written for them."""

from __future__ import annotations

PAIRS = [
    ("Der Tropfwart steuert bis zu acht Gießkreise.", "The Tropfwart controls up to eight watering zones."),
    ("Jeder Gießkreis hat einen eigenen Feuchtefühler.", "Every watering zone has its own moisture probe."),
    (
        "Das Steuergerät öffnet die Ventile nach dem Gießplan.",
        "The controller opens the valves according to the watering schedule.",
    ),
    ("Schließen Sie den Tropfschlauch an den Verteiler an.", "Connect the drip line to the manifold."),
    ("Prüfen Sie den Feuchtefühler einmal im Jahr.", "Check the moisture probe once a year."),
]
#: "Frostwächter" is in no memory: the model alone calls it something else than FROST_GUARD.
TEXT = "Der Frostwächter schließt das Ventil. Prüfen Sie den Frostwächter vor dem Winter.\n\nDer Frostwächter ist an."
FROST_GUARD = "The frost guard closes the valve."
#: What a page that parses text as markup would run.
HOSTILE = [
    "<script>window.ran = 1</script>",
    '<img src="x" onerror="window.ran = 2">',
    "<svg onload='window.ran = 3'><b>fett</b></svg>",
    "\"'><iframe srcdoc='<script>parent.ran = 4</script>'></iframe>",
    "</textarea></template><a href='javascript:window.ran = 5'>&lt;&amp;</a>",
    "${window.ran = 6} {{window.ran = 7}} `window.ran = 8`",
]


def tsv(pairs: list[tuple[str, str]]) -> bytes:
    return "".join(f"{source}\t{target}\n" for source, target in pairs).encode()


def upload(name: str, content: bytes) -> dict[str, object]:
    """A file as a user chooses it."""
    return {"name": name, "mimeType": "application/octet-stream", "buffer": content}
