"""`nearmt` is the one door: what it promises is there, and nothing heavy comes in with it."""

from __future__ import annotations

import subprocess
import sys

import pytest

import nearmt


def test_all_is_sorted_and_real() -> None:
    assert nearmt.__all__ == sorted(nearmt.__all__)
    for name in nearmt.__all__:
        assert getattr(nearmt, name).__name__ == name
    assert set(nearmt.__all__) == {name for names in nearmt._HOMES.values() for name in names}
    assert dir(nearmt) == sorted([*nearmt.__all__, "__version__"])


def test_unknown_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="Tranlator"):
        _ = nearmt.Tranlator


def test_help_and_info_load_no_torch() -> None:
    """What should answer at once must not import what takes seconds."""
    code = (
        "import sys; from nearmt.cli.main import run; run(['--help']); run(['info', '/nowhere']); "
        "sys.exit(any(name in sys.modules for name in ('torch', 'transformers', 'faiss')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
