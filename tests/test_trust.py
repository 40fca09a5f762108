"""No code of others: what the sources may not call, and how they may."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import nearmt

SOURCES = sorted(Path(nearmt.__file__).parent.rglob("*.py"))
#: Calls that run what they read, or may.
FORBIDDEN = {
    *("eval", "exec", "torch.load", "pickle.load", "pickle.loads"),
    *("yaml.load", "numpy.load", "np.load", "marshal.loads"),
}


def calls() -> Iterator[tuple[str, str, ast.Call]]:
    """Where a call is, its name as it is written, and the call."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                yield f"{path.name}:{node.lineno}", ast.unparse(node.func), node


def test_nothing_is_read_that_could_be_code() -> None:
    assert [f"{place} {name}" for place, name, _ in calls() if name in FORBIDDEN] == []


def test_transformers_is_told_to_trust_no_code() -> None:
    """A class that is chosen by what a model says is told so in the call, or by options that a function makes."""
    found = [
        (place, {word.arg: ast.unparse(word.value) for word in call.keywords})
        for place, name, call in calls()
        if name.startswith("Auto") and name.endswith(".from_pretrained")
    ]
    assert len(found) >= 4
    for place, words in found:
        assert words.get("trust_remote_code") == "False" or words.get(None) == "options", place
    made = [ast.unparse(node) for path in SOURCES for node in _dicts(path)]
    told = [text for text in made if "trust_remote_code" in text]
    assert told and all("'trust_remote_code': False" in text for text in told)


def _dicts(path: Path) -> Iterator[ast.Dict]:
    return (node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Dict))
