"""Signatures and structures for ctypes, derived from kernels.h."""

from __future__ import annotations

import re
from ctypes import POINTER, Structure, c_double, c_float, c_int64, c_void_p
from typing import Any, TypeVar

S = TypeVar("S", bound=type[Structure])

#: Types passed by value. Pointers may have other targets, which ctypes need not know.
_NUMBERS = {"int64_t": c_int64, "float": c_float, "double": c_double}
_POINTED_TO = {*_NUMBERS, "void", "char", "int8_t", "uint8_t", "uint16_t", "int32_t"}

_DECLARED = re.compile(r"^DECLARED\(\n(.*)^\)\n", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_DECLARATION = re.compile(
    r"typedef struct \{ (?P<fields>[^{}()]+) ; \} (?P<structure>\w+) ; ?"
    r"|EXPORTED (?P<result>\w+) (?P<function>\w+) \( (?P<arguments>[^{}();]+) \) ; ?"
)
_VARIABLES = re.compile(r"(?:const )?(\w+) (.+)")
_VARIABLE = re.compile(r"((?:\* (?:const )?)*)(\w+)")


class Header:
    """Declarations in the subset of C that kernels.h uses; anything else is a ValueError."""

    def __init__(self, text: str) -> None:
        found = _DECLARED.findall(text)
        if len(found) != 1:
            raise ValueError("kernels.h: one block of DECLARED(...) is expected")
        self.text = normalised(found[0])
        self._fields: dict[str, str] = {}
        self._functions: dict[str, tuple[str, str]] = {}
        self._structures: dict[str, type[Structure]] = {}
        at = 0
        while at < len(self.text):
            read = _DECLARATION.match(self.text, at)
            name = read and (read["structure"] or read["function"])
            if read is None or name in self._fields or name in self._functions:
                raise ValueError(f"kernels.h: unknown C, or declared twice: {self.text[at : at + 80]}")
            if read["structure"]:
                self._fields[read["structure"]] = read["fields"]
            else:
                self._functions[read["function"]] = read["result"], read["arguments"]
            at = read.end()

    def structure(self, cls: S) -> S:
        """Give a class the fields of the struct of the same name."""
        cls._fields_ = [each for line in self._fields[cls.__name__].split(" ; ") for each in self._variables(line)]
        self._structures[cls.__name__] = cls
        return cls

    def functions(self) -> dict[str, tuple[Any, tuple[Any, ...]]]:
        """Result and argument types of each function; the classes of all structures must be known."""
        return {
            name: (
                None if result == "void" else self._type(result, 0),
                tuple(kind for each in arguments.split(" , ") for _, kind in self._variables(each)),
            )
            for name, (result, arguments) in self._functions.items()
        }

    def _variables(self, declaration: str) -> list[tuple[str, Any]]:
        """Names and types of one or more variables: `const float *gain, *shift`."""
        read = _VARIABLES.fullmatch(declaration)
        each = [_VARIABLE.fullmatch(part) for part in read[2].split(" , ")] if read else [None]
        if read is None or None in each:
            raise ValueError(f"kernels.h: unknown C: {declaration}")
        return [(one[2], self._type(read[1], one[1].count("*"))) for one in each if one]

    def _type(self, name: str, pointers: int) -> Any:
        known: dict[str, Any] = {**_NUMBERS, **self._structures}
        if pointers == 0 and name in known:
            return known[name]
        if pointers == 1 and name in self._structures:
            return POINTER(known[name])
        if pointers in (1, 2) and name in _POINTED_TO:
            # Addresses are passed as numbers: data_ptr() of a tensor.
            return c_void_p if pointers == 1 else POINTER(c_void_p)
        raise ValueError(f"kernels.h: unknown type {name} {'*' * pointers}")


def normalised(text: str) -> str:
    """C without comments, with one space between tokens."""
    return " ".join(re.findall(r"\w+|[^\w\s]", _COMMENT.sub(" ", text)))
