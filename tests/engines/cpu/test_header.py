"""What is read of a header in C."""

from __future__ import annotations

from ctypes import POINTER, Structure, c_double, c_float, c_int64, c_void_p

import pytest

from nearmt.engines.cpu.header import Header, normalised


def header(declarations: str) -> Header:
    return Header(f"#define DECLARED(...) __VA_ARGS__\n\nDECLARED(\n{declarations}\n)\n\n#endif\n")


POINT = """
/* A point;
   in a plane. */
typedef struct {
    double x, y; /* where */
    const float *gain, *shift;
    const uint16_t *const *key;
} Point;
"""


def test_structures_and_functions() -> None:
    read = header(POINT + "typedef struct { int64_t points; const Point *point; Point first; } Points;"
                  "EXPORTED void move(const Points *points, float *by, int64_t count, float unit, char *scratch);"
                  "EXPORTED int64_t move_scratch(int64_t count);")  # fmt: skip

    @read.structure
    class Point(Structure):
        pass

    @read.structure
    class Points(Structure):
        pass

    key = POINTER(c_void_p)
    assert Point._fields_ == [
        ("x", c_double), ("y", c_double), ("gain", c_void_p), ("shift", c_void_p), ("key", key),
    ]  # fmt: skip
    assert Points._fields_ == [("points", c_int64), ("point", POINTER(Point)), ("first", Point)]
    assert read.functions() == {
        "move": (None, (POINTER(Points), c_void_p, c_int64, c_float, c_void_p)),
        "move_scratch": (c_int64, (c_int64,)),
    }


@pytest.mark.parametrize(
    "declarations",
    [
        "int64_t move(int64_t count);",
        "EXPORTED float *move(int64_t count);",
        "EXPORTED void move();",
        "EXPORTED void move(int64_t);",
        "EXPORTED void move(long count);",
        "EXPORTED void move(int32_t count);",
        "EXPORTED void move(unsigned int count);",
        "EXPORTED void move(float by[4]);",
        "EXPORTED void move(float ***by);",
        "EXPORTED void move(const Unknown *by);",
        "EXPORTED int32_t move(int64_t count);",
        "EXPORTED void move(int64_t count)",
        "EXPORTED void move(int64_t count); EXPORTED void move(int64_t count);",
        "typedef struct { int64_t count } Counted;",
        "typedef struct { int64_t count; } Counted; typedef struct { int64_t count; } Counted;",
        "enum { ONE, TWO };",
    ],
)
def test_what_is_not_understood_is_refused(declarations: str) -> None:
    with pytest.raises(ValueError, match=r"kernels\.h: "):
        header(declarations).functions()


@pytest.mark.parametrize("field", ["int64_t bits : 3", "float by[4]", "long count", "int32_t count", "void nothing"])
def test_fields_that_are_not_understood_are_refused(field: str) -> None:
    class Counted(Structure):
        pass

    read = header(f"typedef struct {{ {field}; }} Counted;")
    with pytest.raises(ValueError, match=r"kernels\.h: "):
        read.structure(Counted)


def test_there_is_one_block() -> None:
    with pytest.raises(ValueError, match="one block"):
        Header("EXPORTED void move(int64_t count);")


def test_comments_and_spaces_do_not_count() -> None:
    assert normalised("a/* b\n c */ *d,e;\n") == normalised("a * d , e ;") != normalised("a * d , f ;")
