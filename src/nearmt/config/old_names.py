"""Old spellings of options and settings, and what to write instead.

Options that became settings go on working for one minor version, with a warning that names the new spelling.
"""

from __future__ import annotations

#: Options of 0.4 that are settings since 0.5: `--OLD VALUE` is written `--set NEW=VALUE`. A command that still lists
#: an option under this name has not given it up.
OPTIONS = {
    "preset": "preset",
    "filter": "filter",
    "source-lang": "source-lang",
    "target-lang": "target-lang",
    "batch-size": "batch-size",
    # Methods
    "k": "k",
    "lambda": "lambda",
    "temperature": "temperature",
    "guard": "guard",
    "ends": "ends",
    "give-up": "give-up",
    "adaptive": "adaptive",
    "adaptive-boost": "adaptive-boost",
    "reuse-distance": "reuse-distance",
    "reuse-scope": "reuse-scope",
    "chunk": "chunk",
    "schedule": "schedule",
    "varying-chunk": "varying-chunk",
    "cache-lambda": "cache-lambda",
    "cache-temperature": "cache-temperature",
    "cache-k": "cache-k",
    "cache-columns": "cache-columns",
    "seeds": "seeds",
    "search-beams": "search-beams",
    "recall": "recall",
    "scope": "scope",
    "retention": "retention",
    "duplicates": "duplicates",
    # Beam search, model, datastore
    "length-penalty": "length-penalty",
    "max-new-tokens": "max-new-tokens",
    "key-layer": "key-layer",
    "search": "nominate",
    "search-device": "store-device",
    # Documents and files
    "exact": "exact",
    "min-match": "min-match",
    "max-matches": "max-matches",
    "split-sentences": "split-sentences",
    "max-unit": "max-unit",
    "max-unpacked": "max-unpacked",
    # Tuning and scoring
    "margin": "margin",
    "held-out": "held-out",
    "base": "base",
    "comet-model": "comet-model",
}
#: Settings that have another name since 0.5, in configuration files too.
RENAMED = {old: new for old, new in OPTIONS.items() if old != new}
#: Settings of earlier versions, and why they were removed.
REMOVED = {
    "gather": "more chunks of a search did not help",
    "search-beyond": "searches besides those of the schedule did not help",
}
#: Options of earlier versions that have no successor: what to do instead, by command and option.
REMOVED_OPTIONS = {
    ("add", "skip"): "`nearmt add` passes over pairs that are in the datastore; give the same command again",
}
