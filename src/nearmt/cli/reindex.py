"""nearmt reindex"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from nearmt.cli.console import Teller, progress_bar, waiting
from nearmt.cli.given import given_settings, pick
from nearmt.cli.info import print_info
from nearmt.cli.manual import ManualCommand
from nearmt.cli.options import config_options
from nearmt.cli.setup import model_of
from nearmt.datastore import BuildConfig, rebuild, reindex
from nearmt.datastore.disk import Manifest
from nearmt.datastore.edit.adapting import read_adapter
from nearmt.datastore.edit.build import indexing_of
from nearmt.models import Adapter, ModelConfig, TranslationModel, load_model
from nearmt.models.directions import known_direction


@click.command(cls=ManualCommand)
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--index",
    default="auto",
    help="exact, a FAISS factory string, or milvus://HOST:PORT[/DATABASE] [default: where it is, else by size]",
)
@click.option(
    "--index-patience",
    type=click.FloatRange(min=0.1),
    default=BuildConfig().index_patience,
    show_default=True,
    help="seconds without progress after which Milvus is given up",
)
@config_options(ModelConfig)
def command(folder: Path, index: str, index_patience: float, **options: Any) -> None:
    """Give a datastore a new index, or another model.

    For a store that was built without FAISS, or for another balance of speed and RAM. Keys that were too few
    for a reduction when the store was built are reduced now. An index in Milvus is written again there, from the
    files of the store.

    With --model (or another option of the model) all pairs are encoded again with that model, and the old store
    stays in place until the new one is complete. An adapter of the store (`nearmt adapt`) stays if it is that model's.

    \b
    nearmt reindex memory --index IVF1024,SQ8
    nearmt reindex memory --index milvus://127.0.0.1:19530
    nearmt reindex memory --model Helsinki-NLP/opus-mt-de-en
    """
    manifest = Manifest.load(folder)
    settings = given_settings(options)
    build_config = BuildConfig(index=index, index_patience=index_patience)
    if not settings:
        with waiting("indexing"):
            found = reindex(folder, indexing_of(build_config, Teller()))
        print_info(folder, found)
        return
    # Without the key layer of the store: the pairs are encoded again.
    known = {name: value for name, value in model_of(folder, manifest, settings).items() if name != "key-layer"}
    config = pick(ModelConfig, {**known, **settings})
    known_direction(config)
    manifest.check_files(folder)
    with waiting("loading the model"):
        model = _loaded(config, read_adapter(folder, manifest))
    with progress_bar("pairs", manifest.pairs) as progress:
        found = rebuild(folder, model, build_config, progress, Teller())
    print_info(folder, found)


def _loaded(config: ModelConfig, adapter: Adapter | None) -> TranslationModel:
    """The model, with the adapter of the store if that was trained for it."""
    model = load_model(config)
    return load_model(config, adapter) if adapter is not None and adapter.base == model.fingerprint else model
