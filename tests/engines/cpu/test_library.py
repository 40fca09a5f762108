"""When there are kernels, and whether Python and C mean the same structures."""

from __future__ import annotations

import ast
import ctypes
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest
import torch

import nearmt
from nearmt.engines.cpu import kernels, library
from nearmt.engines.cpu.header import Header
from nearmt.engines.cpu.library import address
from nearmt.errors import NearmtWarning
from tests.kernels import needs_kernels

NATIVE = Path(library.__file__).parent
HEADER = (NATIVE / "kernels.h").read_text(encoding="utf-8")


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


def compiler() -> str:
    found = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if found is None:
        pytest.skip("there is no compiler")
    return found


def library_of(header: str, folder: Path) -> Path:
    """A library that was compiled from this header, without kernels."""
    for name in ("module.c", "simd.h"):
        shutil.copy(NATIVE / name, folder)
    (folder / "kernels.h").write_text(header, encoding="utf-8")
    built = folder / "_kernels.so"
    subprocess.run([compiler(), "-shared", "-fPIC", "-o", str(built), str(folder / "module.c")], check=True)
    return built


def without_declarations(folder: Path) -> Path:
    """A library of a version that did not carry its declarations."""
    (folder / "old.c").write_text("int supported(void) { return 1; }\n", encoding="utf-8")
    built = folder / "_kernels.so"
    subprocess.run([compiler(), "-shared", "-fPIC", "-o", str(built), str(folder / "old.c")], check=True)
    return built


CHANGES = {
    "an argument more": ("int64_t mark(int32_t *table,", "int64_t mark(int32_t *table, int64_t more,"),
    "an argument less": ("nominate_scratch(int64_t columns, int64_t count)", "nominate_scratch(int64_t columns)"),
    "arguments in another order": ("(int64_t columns, int64_t count);", "(int64_t count, int64_t columns);"),
    "another type of an argument": ("const Encoder *encoder, int64_t longest", "const Encoder *encoder, float longest"),
    "another type behind a pointer": ("int32_t *scores", "int64_t *scores"),
    "another result": ("EXPORTED float largest_of", "EXPORTED double largest_of"),
    "another type of a field": ("double epsilon;", "float epsilon;"),
    "fields in another order": ("int64_t capacity, columns;", "int64_t columns, capacity;"),
    "a field less": ("int64_t layers, heads, norm_first", "int64_t layers, norm_first"),
    "a function more": ("/* linear.c */", "EXPORTED void later(int64_t rows);"),
}


@needs_kernels
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.usefixtures("anew")
def test_kernels_of_other_declarations_are_not_used(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after an update of a checkout that was not installed again."""
    before, after = CHANGES[change]
    assert HEADER.count(before) == 1
    monkeypatch.setattr(library, "_HEADER", Header(HEADER.replace(before, after)))
    with pytest.warns(NearmtWarning, match=r"kernels of another version of nearmt.*install nearmt again"):
        assert kernels() is None


@needs_kernels
@pytest.mark.usefixtures("anew")
def test_kernels_that_do_not_tell_their_declarations(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = without_declarations(tmp_path)
    monkeypatch.setattr(library, "find_spec", lambda name: ModuleSpec(name, None, origin=str(file)))
    with pytest.warns(NearmtWarning, match=r"kernels of another version of nearmt.*install nearmt again"):
        assert kernels() is None


def test_a_library_tells_what_it_was_compiled_from(tmp_path: Path) -> None:
    """Comments and line breaks do not count."""
    other = HEADER.replace("double epsilon;", "float epsilon;")
    header = other.replace("/* encoder.c */", "/* later */\n\n").replace("int64_t rows, ", "int64_t rows,\n  ")
    built = ctypes.CDLL(str(library_of(header, tmp_path)))
    assert library._declared(built) == Header(other).text != Header(HEADER).text


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


def compiles(claims: list[str], folder: Path) -> bool:
    """Whether a compiler agrees to what is claimed of the header."""
    asserted = "".join(f'_Static_assert({it}, "");\n' for it in claims)
    source = f'#include <stddef.h>\n#include "{NATIVE / "kernels.h"}"\n{asserted}'
    (folder / "claims.c").write_text(source, encoding="utf-8")
    done = subprocess.run([compiler(), "-fsyntax-only", str(folder / "claims.c")], capture_output=True, check=False)
    return done.returncode == 0


def test_structures_are_those_of_c(tmp_path: Path) -> None:
    claims = []
    for name, structure in library._HEADER._structures.items():
        claims.append(f"sizeof({name}) == {ctypes.sizeof(structure)}")
        for field in structure._fields_:
            part = getattr(structure, field[0])
            claims.append(f"offsetof({name}, {field[0]}) == {part.offset}")
            claims.append(f"sizeof((({name} *)0)->{field[0]}) == {part.size}")
    assert compiles(claims, tmp_path)
    # A compiler that agrees to everything would prove nothing.
    assert not compiles([*claims, f"sizeof(Linear) == {ctypes.sizeof(library.Linear) + 8}"], tmp_path)


@needs_kernels
def test_all_functions_are_there() -> None:
    found = kernels()
    assert found is not None
    for name, (result, arguments) in library._HEADER.functions().items():
        function = getattr(found, name)
        assert function.restype is result and function.argtypes == arguments
    assert found.supported()


def test_what_is_exported_is_declared() -> None:
    """A function that Python finds in the library, but not in the header, would be called without a signature."""
    sources = "".join(path.read_text(encoding="utf-8") for path in NATIVE.glob("*.c"))
    exported = re.findall(r"^EXPORTED \w+ (\w+)\(", sources, re.MULTILINE)
    assert sorted(exported) == sorted(library._HEADER.functions())


def calls() -> Iterator[tuple[str, str, ast.Call]]:
    """Where kernels are called: `library.name(...)` or `loaded().name(...)`."""
    for path in Path(nearmt.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if ast.unparse(node.func.value) in ("library", "loaded()", "native.loaded()"):
                yield f"{path.name}:{node.lineno}", node.func.attr, node


def test_kernels_are_called_with_as_many_arguments_as_they_have() -> None:
    """ctypes passes on what is too much, and all that follows a superfluous argument is taken for another one."""
    functions, called = library._HEADER.functions(), set()
    for place, name, call in calls():
        if name in functions:
            called.add(name)
            assert not any(isinstance(each, ast.Starred) for each in call.args) and not call.keywords, place
            assert len(call.args) == len(functions[name][1]), place
    assert called == {*functions} - {"mark_chunks"}  # which append_chunks calls


def test_a_processor_that_can_run_the_kernels_has_them() -> None:
    """A broken build would otherwise skip all their tests in silence."""
    described = Path("/proc/cpuinfo")
    flags = set(described.read_text().split()) if described.is_file() else set[str]()
    if {"avx512f", "avx512bw", "avx512vl", "avx512_vnni"} <= flags and os.environ.get("NEARMT_NO_KERNELS", "0") == "0":
        assert kernels() is not None
