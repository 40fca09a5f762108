"""When there are kernels, and whether Python and C mean the same structures."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest
import torch

from nearmt.errors import NearmtWarning
from nearmt.native import kernels, library
from nearmt.native.library import address
from tests.kernels import needs_kernels


@pytest.fixture
def anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The library is looked for again in this test, and after it once more."""
    kernels.cache_clear()
    yield
    monkeypatch.undo()
    kernels.cache_clear()


@pytest.mark.usefixtures("no_kernels")
def test_there_are_none_where_the_environment_says_so() -> None:
    assert kernels() is None


@needs_kernels
@pytest.mark.parametrize(("value", "there"), [("0", True), ("1", False), ("yes", False), ("", False)])
@pytest.mark.usefixtures("anew")
def test_the_environment(value: str, there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEARMT_NO_KERNELS", value)
    assert (kernels() is not None) == there


@needs_kernels
@pytest.mark.usefixtures("anew")
def test_the_library_is_loaded_once() -> None:
    assert kernels() is not None and kernels() is kernels()


@pytest.mark.usefixtures("anew")
def test_there_are_none_where_none_were_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "find_spec", lambda name: None)
    assert kernels() is None


@pytest.mark.usefixtures("anew")
def test_there_are_none_where_the_file_is_something_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "_kernels.so"
    file.write_bytes(b"for another machine")
    monkeypatch.setattr(library, "find_spec", lambda name: ModuleSpec(name, None, origin=str(file)))
    assert kernels() is None


@needs_kernels
@pytest.mark.usefixtures("anew")
def test_kernels_of_another_version_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after an update of a checkout that was not installed again."""
    monkeypatch.setitem(library._FUNCTIONS, "of_a_later_version", (None, []))
    with pytest.warns(NearmtWarning, match=r"kernels of another version of nearmt.*install nearmt again"):
        assert kernels() is None


@needs_kernels
@pytest.mark.usefixtures("anew")
def test_there_are_none_where_the_processor_is_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    class Elsewhere(ctypes.CDLL):
        supported = staticmethod(lambda: 0)

    monkeypatch.setattr(ctypes, "CDLL", Elsewhere)
    assert kernels() is None


def test_addresses() -> None:
    number_XY = torch.zeros(4, 6)
    assert address(None) is None
    assert address(number_XY[1]) == number_XY.data_ptr() + 6 * 4
    with pytest.raises(AssertionError):
        address(number_XY[:, 1])


STRUCTURES: dict[str, tuple[type[ctypes.Structure], ...]] = {
    "linear.h": (library.Linear,),
    "attention.h": (library.Slots,),
    "blocks.h": (library.Norm,),
    "decoder.c": (library.Layer, library.Decoder),
    "encoder.c": (library.EncoderLayer, library.Encoder),
    "nearest.c": (library.Keys,),
    "cells.c": (library.Cells,),
    "mixture.c": (library.Mixing,),
}


def compiles(source: str, claims: list[str], folder: Path) -> bool:
    """Whether a compiler agrees to what is claimed of a source."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("there is no compiler")
    path, asserted = Path(library.__file__).with_name(source), "".join(f'_Static_assert({it}, "");\n' for it in claims)
    (folder / "claims.c").write_text(f'#include <stddef.h>\n#include "{path}"\n{asserted}', encoding="utf-8")
    done = subprocess.run([compiler, "-fsyntax-only", str(folder / "claims.c")], capture_output=True, check=False)
    return done.returncode == 0


@needs_kernels
@pytest.mark.parametrize("source", STRUCTURES)
def test_structures_are_those_of_c(source: str, tmp_path: Path) -> None:
    assert compiles(source, [], tmp_path)
    for structure in STRUCTURES[source]:
        name, claims = structure.__name__, [f"sizeof({structure.__name__}) == {ctypes.sizeof(structure)}"]
        for field in structure._fields_:
            part = getattr(structure, field[0])
            claims.append(f"offsetof({name}, {field[0]}) == {part.offset}")
            claims.append(f"sizeof((({name} *)0)->{field[0]}) == {part.size}")
        assert compiles(source, claims, tmp_path), name
        # A compiler that agrees to everything would prove nothing.
        assert not compiles(source, [f"sizeof({name}) == {ctypes.sizeof(structure) + 8}"], tmp_path)


@needs_kernels
def test_all_functions_are_there() -> None:
    found = kernels()
    assert found is not None
    for name, (result, arguments) in library._FUNCTIONS.items():
        function = getattr(found, name)
        assert function.restype is result and function.argtypes == arguments
    assert found.supported()
