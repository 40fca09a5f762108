"""The documentation is checked and executed: pages are current, options are described, commands run."""

from __future__ import annotations

import ast
import functools
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import click
import pytest

import nearmt.models
from nearmt import errors
from nearmt.cli.main import COMMANDS, cli
from nearmt.config import Config
from nearmt.config.ray import RayConfig
from nearmt.config.tuning import ScoringConfig, TuneConfig
from nearmt.corpus import CleaningConfig, LabelsConfig, LimitsConfig, read_pairs
from nearmt.corpus.formats import READERS
from nearmt.datastore import BuildConfig, PruneConfig, StoreConfig
from nearmt.decoding import BeamConfig
from nearmt.documents import FillConfig
from nearmt.methods import ChunkConfig, EfficientConfig, RetomatonConfig, SkMtConfig, SubsetConfig
from nearmt.models import Adapter, ModelConfig, TranslationModel
from nearmt.research.bench import BenchConfig
from nearmt.research.experiments import ExperimentConfig
from nearmt.research.training.adapt import AdaptConfig
from nearmt.research.training.adaptive import AdaptiveConfig
from nearmt.research.training.grid import GridConfig
from nearmt.research.training.loop import FinetuneConfig
from nearmt.serve.config import ServeConfig
from tests.docs_runner import DOCS, ROOT, SAMPLES, Block, Page, blocks, run_line
from tools.command_pages import pages

HAND_WRITTEN = [path for path in sorted(DOCS.rglob("*.md")) if path.parent.name != "commands" and path.name != "log.md"]
COMMAND_PAGES = sorted((DOCS / "commands").glob("*.md"))
#: Without the overview, whose lines end in comments; the other pages have the same commands.
WITH_EXAMPLES = [path for path in COMMAND_PAGES if path.name != "index.md"]
CONFIGS: list[type[Config]] = [
    *(ChunkConfig, EfficientConfig, SubsetConfig, SkMtConfig, RetomatonConfig, BeamConfig, ModelConfig, StoreConfig),
    *(FillConfig, BuildConfig, RayConfig, CleaningConfig, LabelsConfig, LimitsConfig, PruneConfig),
    *(FinetuneConfig, GridConfig, AdaptiveConfig, AdaptConfig),
    *(ExperimentConfig, TuneConfig, ScoringConfig, BenchConfig, ServeConfig),
]
#: Settings that share names with others (`--schedule`): the section of a page that has their table.
SECTIONS: dict[type[Config], str] = {FinetuneConfig: "Fine-tuned", GridConfig: "Fine-tuned"}
SECTIONS[AdaptConfig] = "Settings of the training"
SECTIONS[ExperimentConfig] = "Options of an experiment"
SECTIONS[TuneConfig] = "How trials are chosen"
SECTIONS[AdaptiveConfig] = "Adaptive kNN-MT"
SECTIONS[BenchConfig] = "Options of the benchmark"
SECTIONS[ServeConfig] = "Settings of the server"
ERRORS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.NearmtError)]
#: Lines that are not run, and why.
SKIPPED = {
    "nearmt demo": "takes a minute; tests/cli/test_commands.py runs it",
    "nearmt reindex memory --index IVF1024,SQ8": "needs many thousand entries; the cookbook has a small one",
    "nearmt reindex memory --model Helsinki-NLP/opus-mt-de-en": "a model of the hub",
    "nearmt evaluate --test test.tsv --datastore corpus --comet comet/bin/comet-score": "COMET is not part of nearmt",
    "nearmt finetune train.tsv --dev dev.tsv --out tuned --grid paper --shard 1/4": "hours without a GPU",
    "nearmt finetune train.tsv --dev dev.tsv --out tuned --grid paper": "hours without a GPU",
    "nearmt adapt memory": "minutes without a GPU",
    "nearmt adapt memory --rank 16 --epochs 5 --device cpu": "minutes without a GPU",
    "nearmt adapt memory --resume": "minutes without a GPU",
    "nearmt adapt memory --remove": "needs an adapter",
    "nearmt train-adaptive memory --dev dev.tsv --general news.tsv --out memory.adaptive": "needs thousands of pairs",
    "nearmt experiment main --data data --out results": "hours without a GPU; the page on experiments has a small one",
    "nearmt experiment strategies --data data --out results --domains koran --tune none": "needs other data",
    "nearmt bench --data test.tsv --datastore memory --threads 2 --out speed.json": "the page on speed has a small one",
    "nearmt completion bash >> ~/.bashrc": "writes to the home folder",
    "nearmt completion zsh >> ~/.zshrc": "writes to the home folder",
    "nearmt completion fish > ~/.config/fish/completions/nearmt.fish": "writes to the home folder",
}
#: Modules that load models.
LOADERS = ["models", "translator", "research.experiments.artefacts", "research.bench.loading"]
LOADERS += ["cli.build", "cli.demo", "cli.fit_reduction", "cli.merge", "cli.reindex", "cli.setup"]


def name_of(page: Path) -> str:
    return page.relative_to(DOCS).as_posix()


def commands_of(page: Path) -> list[str]:
    return [command for block in blocks(page) for command in block.commands]


# Checks without a model.


def test_command_pages_are_current() -> None:
    written = {path.name: path.read_text(encoding="utf-8") for path in (DOCS / "commands").glob("*.md")}
    assert written == pages(), "run tools/command_pages.py --write"


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("nav:")[2]
    wanted = {f"commands/{name}.md" for name in COMMANDS} | {name_of(page) for page in HAND_WRITTEN}
    assert {page for page in wanted if not re.search(rf"[ :]{re.escape(page)}$", navigation, re.MULTILINE)} == set()


def test_tables_of_capacity_are_current(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import capacity

    assert capacity.tables() in capacity.PAGE.read_text(encoding="utf-8"), "run benchmarks/capacity.py table --write"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_described(name: str) -> None:
    context = cli.make_context("nearmt", [], resilient_parsing=True)
    command = cli.get_command(context, name)
    assert command is not None
    page = (DOCS / "commands" / f"{name}.md").read_text(encoding="utf-8")
    for option in command.get_params(click.Context(command, info_name=name, parent=context)):
        if isinstance(option, click.Option) and not option.hidden:
            assert option.help, option.name
            for spelling in [*option.opts, *option.secondary_opts]:
                assert re.search(rf"^\| `[^`]*{re.escape(spelling)}\b", page, re.MULTILINE), spelling


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.__name__)
def test_every_setting_is_explained_with_its_default(config: type[Config]) -> None:
    """In a row of a table: setting or option first, default last."""
    lines = list(_rows_with_defaults(_lines_about(config)))
    for name, field in config.public_fields().items():
        if (config, name) == (SkMtConfig, "k"):
            continue  # its section says it in the text: tables have the default of all others
        found = [line for line in lines if re.match(rf"\| `(?:--)?{name}` \|", line)]
        rows = [line.strip("| ").split(" | ") for line in found]
        assert rows, f"{name} is in no table of a hand-written page"
        for row in rows:
            if field.default is None or field.default == ():
                assert not row[-1].startswith("`"), row
            elif isinstance(field.default, bool):
                assert row[-1] == ("on" if field.default else "off"), row
            else:
                default = ", ".join(field.default) if isinstance(field.default, tuple) else field.default
                assert row[-1] == f"`{default}`", row


def _rows_with_defaults(lines: list[str]) -> Iterator[str]:
    """The rows of tables whose last column is the default."""
    inside = False
    for line in lines:
        inside = (line.startswith("| ") and (inside or line.endswith("| default |"))) or (
            line.startswith("|--") and inside
        )
        if inside:
            yield line


def _lines_about(config: type[Config]) -> list[str]:
    """Of its own section, or of all hand-written pages but those sections."""
    text = "\n".join(page.read_text(encoding="utf-8") for page in HAND_WRITTEN)
    pattern = r"^## (?:{})\n.*?(?=^##? |\Z)"
    if config in SECTIONS:
        found = re.findall(pattern.format(SECTIONS[config]), text, flags=re.DOTALL | re.MULTILINE)
        return "\n".join(found).splitlines()
    apart = pattern.format("|".join(set(SECTIONS.values())))
    return re.sub(apart, "", text, flags=re.DOTALL | re.MULTILINE).splitlines()


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_every_error_is_explained(kind: type[errors.NearmtError]) -> None:
    page = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    assert re.search(rf"^\| \[?`{kind.__name__}`.* \| {kind.exit_code} \|", page, re.MULTILINE)
    assert kind is errors.NearmtError or f"\n## {kind.__name__}\n" in page


def test_quoted_messages_are_real() -> None:
    """Every message on the page matches a string literal of the source, up to its end."""
    patterns = [re.compile(pattern) for path in (ROOT / "src").rglob("*.py") for pattern in _texts(path)]
    quoted = [line for block in blocks(DOCS / "troubleshooting.md") for line in block.text.splitlines()]
    messages = [line for line in quoted if line.startswith("nearmt: ")]
    assert len(messages) > 30
    assert [line for line in messages if not any(pattern.search(line) for pattern in patterns)] == []


def _texts(path: Path) -> Iterator[str]:
    """The longer string literals of a module as patterns; formatted values match anything."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        parts = node.values if isinstance(node, ast.JoinedStr) else [node]
        constants = [part.value if isinstance(part, ast.Constant) else None for part in parts]
        if sum(len(text) for text in constants if isinstance(text, str)) >= 12:
            yield "".join(re.escape(text) if isinstance(text, str) else ".*" for text in constants) + "$"


@pytest.mark.parametrize("page", [*HAND_WRITTEN, *COMMAND_PAGES], ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    local = [link.partition("#")[0] for link in links if not link.startswith(("http", "#"))]
    assert [link for link in local if not (page.parent / link).is_file()] == []


def test_every_sample_is_offered_and_whole() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in HAND_WRITTEN)
    for sample in SAMPLES.iterdir():
        assert f"samples/{sample.name})" in text, sample
        if sample.suffix in READERS:
            assert list(read_pairs(sample, source_lang="de", target_lang="en"))


def test_the_site_can_be_built(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for page in ("index.html", "concepts/index.html", "commands/build/index.html", "samples/memory.tmx"):
        assert (tmp_path / "site" / page).is_file()


def test_nothing_is_skipped_that_is_not_there() -> None:
    assert set(SKIPPED) <= {line for page in [*HAND_WRITTEN, *WITH_EXAMPLES] for line in commands_of(page)}


def test_settings_are_used_on_their_page() -> None:
    shown = [(page, block) for page in HAND_WRITTEN for block in blocks(page) if block.language == "toml"]
    assert shown
    for page, block in shown:
        assert any(f"config {block.file_name} " in f"{line} " for line in commands_of(page)), block.file_name


# Executed pages.


@pytest.fixture(scope="module")
def one_model() -> Iterator[None]:
    """Every module loads a model only once."""
    load = functools.cache(nearmt.models.load_model)

    def cached(config: ModelConfig | None = None, adapter: Adapter | None = None) -> TranslationModel:
        return load(config or ModelConfig(), adapter)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NEARMT_DEBUG", "1")  # a bug shows its traceback
        for module in LOADERS:
            patch.setattr(f"nearmt.{module}.load_model", cached)
        yield


@pytest.fixture
def sample_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a copy of the samples."""
    folder = tmp_path / "samples"
    shutil.copytree(SAMPLES, folder)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture(scope="module")
def memory(one_model: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The datastore that the examples of commands use."""
    folder = tmp_path_factory.mktemp("docs") / "memory"
    assert run_line(f"nearmt build {SAMPLES / 'memory.tmx'} --out {folder}").code == 0
    return folder


@pytest.mark.embedded
@pytest.mark.usefixtures("one_model", "toy")
@pytest.mark.parametrize("page", HAND_WRITTEN, ids=name_of)
def test_page_runs(page: Path, sample_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From top to bottom, starting with the samples only."""
    run: dict[str, Callable[[Page, Block], None]] = {"bash": _run_commands, "python": _run_python, "toml": _save}
    with closing(Page()) as running:
        for block in blocks(page):
            if block.language in run:
                run[block.language](running, block)
    assert commands_of(page) or page.name == "troubleshooting.md"


def _run_commands(page: Page, block: Block) -> None:
    for line in block.commands:
        if line not in SKIPPED:
            _check(page, line)


def _run_python(page: Page, block: Block) -> None:
    exec(compile(page.located(block.text), "page", "exec"), {})


def _save(page: Page, block: Block) -> None:
    Path(block.file_name).write_text(block.text, encoding="utf-8")


def _check(page: Page, line: str) -> None:
    result = page.run(line)
    assert result.code == 0, (line, result.err)
    assert ": write --" not in result.err, result.err  # old spellings
    assert result.out.strip() or "--output" in line, line


@pytest.mark.embedded
@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=name_of)
def test_examples_of_a_command_run(page: Path, sample_folder: Path, memory: Path) -> None:
    """Each example runs alone, with the datastore present unless the example builds it."""
    (sample_folder / "memories").mkdir()
    shutil.copy(SAMPLES / "memory.tmx", sample_folder / "memories")
    for line in commands_of(page):
        if line not in SKIPPED:
            shutil.rmtree(sample_folder / "memory", ignore_errors=True)
            if not line.startswith("nearmt build"):
                shutil.copytree(memory, sample_folder / "memory")
            with closing(Page()) as running:
                _check(running, line)
