"""Text of others never reaches a terminal as control characters, markup or emoji codes."""

from __future__ import annotations

import ast
import io
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import nearmt.cli
from nearmt.cli.safe_console import SafeConsole
from nearmt.cli.terminal import TerminalText, neutral
from nearmt.contracts import Pair
from nearmt.datastore import Datastore
from nearmt.datastore.disk import Manifest
from nearmt.models import TranslationModel
from tests.cli.conftest import Nearmt, Result
from tests.conftest import make_pairs

FAST = ("--beams", "1", "--set", "max-new-tokens=5", "--device", "cpu")
#: A title, a colour, DEL, C1's CSI, a bidirectional override, a bell, markup, an emoji code, a line separator.
HOSTILE = "gut\x1b]0;title\x07 \x1b[31mred\x7f \x9b2J \u202egnp\u202c \u2066x\u2069 [red]pump[/] :smile: \u2028"
FORMATS = "\u202a\u202b\u202d\u202e\u2066\u2069\u2028\u200e\U000e0041"
UNSAFE = [*map(chr, range(32)), *map(chr, range(127, 160)), *FORMATS]


def assert_harmless(text: str) -> None:
    # Colours are nearmt's own; no file has any of these.
    found = [character for character in UNSAFE if character in text and character not in "\n\t"]
    assert not found, (found, text)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def at_a_terminal(nearmt: Nearmt, monkeypatch: pytest.MonkeyPatch) -> Nearmt:
    """Run the command line with standard output at a terminal without colours."""
    monkeypatch.setenv("TERM", "dumb")

    def call(*arguments: object) -> Result:
        with monkeypatch.context() as patch:
            patch.setattr(sys.stdout, "isatty", lambda: True)
            return nearmt(*arguments)

    return call


@pytest.fixture
def hostile_store(tiny: TranslationModel, tmp_path: Path) -> Path:
    """Pairs, a name, and a manifest that speak to terminals."""
    pairs = [*make_pairs(12), Pair("die pumpe", HOSTILE, id="a\x1b[2J", origin=HOSTILE)]
    folder = tmp_path / "evil\x1b[31m [red] :smile:"
    Datastore.build(folder, pairs, tiny)
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    assert manifest == manifest | {"cleaning": ""}
    return folder


@given(st.text())
def test_text_is_harmless_and_json_keeps_its_content(text: str) -> None:
    shown = neutral(text)
    assert_harmless(shown.replace("\n", "\x00"))
    assert json.loads(neutral(json.dumps(text, ensure_ascii=False))) == text
    assert text.isprintable() <= (shown == text)


def test_what_words_are_written_with_stays() -> None:
    words = "Fuß\u00ad\u00a0ball नमस्\u200dते می\u200cخواهم 👩\u200d🔧 e\u0301\n\tzwei"
    assert neutral(words, keep="\n\t") == words


def test_a_screen_shows_text_as_it_is() -> None:
    from rich.table import Table
    from rich.text import Text

    out = io.StringIO()
    screen = SafeConsole(file=out, width=300)
    table = Table(title=HOSTILE)
    table.add_column(HOSTILE)
    table.add_row(HOSTILE)
    for shown in (HOSTILE, Text(HOSTILE), table):
        screen.print(shown)
    assert_harmless(out.getvalue())
    assert out.getvalue().count("[red]pump[/] :smile:") == 5 and "\\u001b[31mred\\u007f" in out.getvalue()


def test_colours_pass_where_text_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    from rich.text import Text

    monkeypatch.delenv("NO_COLOR", raising=False)
    raw = Terminal()
    SafeConsole(file=TerminalText(raw), force_terminal=True, color_system="standard").print(
        Text("a\x1b[1mb", style="red")
    )
    assert raw.getvalue() == "\x1b[31ma\\u001b[1mb\x1b[0m\n"


def test_only_the_protected_helpers_print() -> None:
    """A command that prints by other means would not be protected."""
    allowed = {"main.py": {"click.echo"}, "console.py": {"click.echo"}, "safe_console.py": {"Console"}}
    for path in Path(nearmt.cli.__file__).parent.glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
        imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
        used = (names | imported) & {"click.echo", "click.secho", "print", "Console", "sys.stderr.write"}
        assert used <= allowed.get(path.name, set()), path.name


SHOWN = [(), ("--explain",), ("--matches",), ("--json", "--matches"), ("--matches", "--explain")]


@pytest.mark.parametrize("flags", SHOWN)
def test_translate_on_a_terminal(
    at_a_terminal: Nearmt, hostile_store: Path, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    text = tmp_path / "text.txt"
    text.write_text("die pumpe\ndie pumpe :smile: [red] \x1b[31m\u202e\n", encoding="utf-8")
    result = at_a_terminal("translate", text, "--datastore", hostile_store, *flags, *FAST)
    shown = " ".join(result.out.split())  # lines are wrapped
    assert result.code == 0 and "\\u001b]0;title" in shown and "[red]pump[/] :smile:" in shown
    assert_harmless(result.out + result.err)
    if "--json" in flags:
        assert json.loads(result.out.splitlines()[0])["text"].startswith("gut\x1b]0;title")


def test_a_pipe_gets_the_translation_exactly(nearmt: Nearmt, hostile_store: Path, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("die pumpe\n", encoding="utf-8")
    translate = ("translate", tmp_path / "text.txt", "--datastore", hostile_store, *FAST)
    stored = next(pair for pair in Datastore.open(hostile_store).pairs() if pair.source == "die pumpe").target
    assert nearmt(*translate).out == stored + "\n"
    assert nearmt(*translate, "--output", tmp_path / "out.txt").code == 0
    assert (tmp_path / "out.txt").read_text(encoding="utf-8") == stored + "\n"


def test_a_manifest_and_damage(at_a_terminal: Nearmt, hostile_store: Path, tmp_path: Path) -> None:
    path = hostile_store / "manifest.json"
    manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    for name in ("model", "cleaning", "nearmt", "created", "source_lang"):
        assert name in manifest
        manifest[name] = HOSTILE
    path.write_text(json.dumps(manifest), encoding="utf-8")
    shown = [at_a_terminal(command, hostile_store) for command in ("info", "verify", "compact")]
    shown += [at_a_terminal("info", hostile_store, "--json"), at_a_terminal("translate", "--datastore", hostile_store)]
    shown += [at_a_terminal("export", hostile_store, "--format", name) for name in ("tsv", "jsonl", "tmx")]
    shown += [
        at_a_terminal("update", hostile_store, "none\x1b[2J", "x"),
        at_a_terminal("delete", hostile_store, "none\x1b[2J"),
    ]
    shown += [at_a_terminal("info", f"{hostile_store}\x1b]0;x\x07"), at_a_terminal("translate", "--lamb\x1b[2J")]
    assert_harmless("".join(result.out + result.err for result in shown))
    segment = next(hostile_store.glob("segment-*"))
    (segment / "token.i32").write_bytes(b"x")
    damaged = at_a_terminal("verify", hostile_store)
    assert damaged.code == 1 and "damaged" in damaged.out
    assert_harmless(damaged.out + damaged.err)


def test_warnings_and_files(at_a_terminal: Nearmt, tmp_path: Path, tiny_folder: Path) -> None:
    evil = tmp_path / "a\x1b[31m[red]:smile:.tsv"
    rows = [f"{pair.source}\t{pair.target}" for pair in make_pairs(8)] + ["ohne tab\x1b[31m", f"die pumpe\t{HOSTILE}"]
    evil.write_text("\n".join(rows).replace("\u2028", " "), encoding="utf-8")
    shown = [at_a_terminal("inspect", evil, "--source-lang", "de", "--target-lang", "en")]
    assert shown[0].code == 0 and ":smile:" in shown[0].out and "[red]pump[/]" in shown[0].out
    shown += [at_a_terminal("inspect", evil, "--json"), at_a_terminal("inspect", tmp_path / "none\x1b[31m.tsv")]
    shown += [at_a_terminal("build", evil, "--out", tmp_path / "s\x1b[31m", "--model", tiny_folder)]
    assert shown[-1].code == 0 and "no tab" in shown[-1].err
    shown += [at_a_terminal("build", evil, "--out", tmp_path / "t", "--model", tiny_folder, "--strict")]
    shown += [at_a_terminal("evaluate", "--test", evil, "--model", tiny_folder, *FAST)]
    (tmp_path / "{x}\x1b[31m.toml").write_text("lamda = 1\n", encoding="utf-8")
    shown += [at_a_terminal("translate", evil, "--config", tmp_path / "{x}\x1b[31m.toml")]
    assert_harmless("".join(result.out + result.err for result in shown))


def test_a_stream(at_a_terminal: Nearmt, hostile_store: Path, tmp_path: Path, monkeypatch: Any) -> None:
    text = tmp_path / "text\x1b[31m.txt"
    text.write_text("die pumpe\nder motor :smile: \x1b[31m\n", encoding="utf-8")
    monkeypatch.setattr("builtins.input", lambda prompt: "")
    result = at_a_terminal("stream", text, "--datastore", hostile_store, "--all", "--explain", *FAST)
    assert result.code == 0 and "learnt" in result.out and ":smile:" in result.out
    assert_harmless(result.out + result.err)


def test_bars_take_any_name(monkeypatch: pytest.MonkeyPatch) -> None:
    from nearmt.cli.console import progress_bar, waiting

    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    for bar in (progress_bar("{x} [/red] :smile: \x1b]0;t\x07", 3), waiting("{x} [/red] :smile: \x1b]0;t\x07")):
        with bar as progress:
            if progress:
                progress(1, 3)
    assert "{x} [/red] :smile: \\u001b]0;t\\u0007" in screen.getvalue() and "\x1b]0" not in screen.getvalue()


def test_warnings_of_libraries(nearmt: Nearmt, monkeypatch: pytest.MonkeyPatch, store: Path) -> None:
    told: list[str] = []

    def loud(folder: Path) -> Manifest:
        warnings.warn(HOSTILE, UserWarning, stacklevel=1)
        return real(folder)

    real = Manifest.load
    monkeypatch.setattr(Manifest, "load", loud)
    monkeypatch.setattr(warnings, "showwarning", lambda message, *_: told.append(str(message)))
    assert nearmt("info", store).code == 0 and len(told) == 1
    assert_harmless(told[0])
