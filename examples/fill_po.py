"""Fill in a PO catalogue: existing translations are kept, new ones are marked fuzzy."""

from pathlib import Path

from nearmt import Datastore, FillConfig, Translator, fill_document, read_pairs
from nearmt.demo import MEMORY

Path("app.po").write_text(
    'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n'
    'msgid "Die Datei %s wurde nicht gefunden."\nmsgstr ""\n\nmsgid "Öffnen"\nmsgstr "Open"\n',
    encoding="utf-8",
)
base = Translator("de-en")
memory = Datastore.build("manual-memory", read_pairs(MEMORY), base.model, overwrite=True)
summary = fill_document("app.po", "app.en.po", base.with_datastore(memory), FillConfig(matches=True))
print(dict(summary.counts), *summary.warnings, sep="\n")
print(Path("app.en.po").read_text(encoding="utf-8"))
