"""One number or some bytes of one file of a store are altered, and all checksums made to fit again."""

from __future__ import annotations

import hashlib
import json
import math
import struct
from pathlib import Path
from random import Random
from typing import Any

from nearmt.datastore.disk import record_format
from nearmt.datastore.disk.files import json_text
from nearmt.datastore.disk.manifest import FILE_NAME, sealed
from nearmt.datastore.disk.records import read_records

#: Numbers at which checks go wrong; others are near what was there.
_WHOLE = [-1, 0, 1, 2, 3, 7, 127, 128, 255, 1 << 15, (1 << 31) - 1, 1 << 31, 10**12, (1 << 62), (1 << 63) - 1]
_REAL = [math.nan, math.inf, -math.inf, 0.0, -0.0, -1.0, 0.5, 1e-45, 1e-30, 1e30, 3e38]
_ANYTHING: list[Any] = [
    *_WHOLE, -(1 << 63), 1 << 64, 10**30, *_REAL, 1e308, True, False, None, "", "x", "1", "IVF99999999,Flat",
    "HNSW32", "Flat", "IVF4,SQ8", "IVF4,PQ4np", [], [1], {}, {"file": "x"},
]  # fmt: skip
#: There are few of these, and most is believed of what they say.
_OFTEN = {".faiss": 4, ".safetensors": 2, ".blocks": 2}


def mutate(store: Path, random: Random) -> str:
    """Alter something; says what."""
    files = sorted(path for path in store.rglob("*") if path.is_file() and path.name not in (FILE_NAME, ".lock"))
    if random.random() < 0.25:
        said = _in_json(store / FILE_NAME, random)
    else:
        path = random.choices(files, [_OFTEN.get(path.suffix, 1) for path in files])[0]
        if path.suffix in (".log", ".blocks") and random.random() < 0.8:
            said = _in_records(path, random)
        elif path.suffix == ".jsonl" and random.random() < 0.5:
            said = _in_line(path, random)
        else:
            said = _in_bytes(path, random)
        said = f"{path.relative_to(store)}: {said}"
    refit(store)
    return said


def refit(store: Path) -> None:
    """Let the manifest vouch for all files as they are now."""
    path = store / FILE_NAME
    try:
        raw = json.loads(path.read_text())
    except ValueError:
        return
    for known in _quantisers(raw, store):
        file = store / known["file"]
        name = f"quantiser-{_sha256(file)[:12]}.faiss"
        file.rename(store / name)
        path.write_text(path.read_text().replace(known["file"], name))
        raw = json.loads(path.read_text())
    adapter = raw.get("adapter")
    if isinstance(adapter, dict):
        _fit(adapter.get("file"), store / f"adapter-{adapter.get('identity')}.safetensors")
    _fit(raw.get("reduction_file"), store / f"reduction-{raw.get('reduction')}.safetensors")
    for part in raw["segments"] if isinstance(raw.get("segments"), list) else []:
        if isinstance(part, dict) and isinstance(part.get("files"), dict):
            for name, record in part["files"].items():
                _fit(record, store / str(part.get("name")) / name)
    path.write_text(json_text(sealed({name: value for name, value in raw.items() if name != "checksum"})))


def _quantisers(raw: Any, store: Path) -> list[dict[str, str]]:
    """The descriptions of quantisers, which are named after their content."""
    found: dict[str, dict[str, str]] = {}
    for part in raw.get("segments") if isinstance(raw.get("segments"), list) else []:
        index = part.get("index") if isinstance(part, dict) else None
        shared = index.get("quantiser") if isinstance(index, dict) else None
        if isinstance(shared, dict) and isinstance(shared.get("file"), str) and (store / shared["file"]).is_file():
            found[shared["file"]] = shared
    return list(found.values())


def _fit(record: Any, path: Path) -> None:
    if isinstance(record, dict) and isinstance(record.get("bytes"), int) and path.is_file():
        record["bytes"], record["sha256"] = path.stat().st_size, _sha256(path)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def _in_bytes(path: Path, random: Random) -> str:
    """A number at an aligned or any offset, a byte, or another length."""
    data = bytearray(path.read_bytes())
    kind = {".i32": "i", ".i64": "q", ".u64": "Q", ".f16": "e"}.get(path.suffix) or random.choice("iqf")
    aligned = path.suffix != ".faiss" or random.random() < 0.3
    what = random.random()
    size = struct.calcsize("<" + kind)
    if what < 0.1 or len(data) < size:
        length = random.choice([0, 1, max(0, len(data) - 1), len(data) // 2, len(data) + 1, len(data) + 8])
        path.write_bytes(bytes(data[:length]).ljust(length, b"\0"))
        return f"has {length} bytes instead of {len(data)}"
    if what < 0.25:
        offset = random.randrange(len(data))
        data[offset] ^= 1 << random.randrange(8)
        path.write_bytes(bytes(data))
        return f"a bit of byte {offset}"
    # Sizes and kinds stand at the beginning of what has such.
    end = len(data) - size + 1
    offset = random.randrange(min(end, 400) if path.suffix in (".faiss", ".safetensors") and what < 0.7 else end)
    offset -= offset % size if aligned else 0
    (before,) = struct.unpack_from("<" + kind, data, offset)
    value = _number(before, kind, random)
    struct.pack_into("<" + kind, data, offset, value)
    path.write_bytes(bytes(data))
    return f"{value} instead of {before} at byte {offset} ({kind})"


def _number(before: Any, kind: str, random: Random) -> Any:
    if kind in "ef":
        value = random.choice([*_REAL, before * 2])
        return value if kind == "f" or not math.isfinite(value) else max(-6e4, min(6e4, value))
    bits = 32 if kind == "i" else 64
    value = random.choice([*_WHOLE, before + 1, before - 1, before * 2, random.getrandbits(bits)]) % (1 << bits)
    return value if kind == "Q" or value < 1 << (bits - 1) else value - (1 << bits)


def _in_json(path: Path, random: Random) -> str:
    raw = json.loads(path.read_text())
    said = alter(raw, random)
    path.write_text(json_text(raw))
    return f"{path.name}: {said}"


def alter(raw: Any, random: Random) -> str:
    """One leaf or branch of a JSON value is another, or gone."""
    fields: list[tuple[Any, Any, str]] = []

    def walk(node: Any, name: str) -> None:
        items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        for key, value in items:
            if key not in ("sha256", "checksum"):
                fields.append((node, key, f"{name}/{key}"))
                walk(value, f"{name}/{key}")

    walk(raw, "")
    node, key, name = random.choice(fields)
    before = node[key]
    if random.random() < 0.1:
        del node[key]
        return f"{name} is gone"
    near = [before + 1, before - 1, -before, float(before)] if isinstance(before, int) else []
    node[key] = random.choice([*_ANYTHING, *near])
    return f"{name} is {node[key]!r} instead of {before!r}"[:200]


def _in_line(path: Path, random: Random) -> str:
    lines = path.read_text().splitlines()
    number = random.randrange(len(lines))
    raw = json.loads(lines[number])
    said = alter(raw, random)
    # Padded to its old length where possible, so that the offsets of other lines stay valid.
    lines[number] = json.dumps(raw, ensure_ascii=False).ljust(len(lines[number]))
    path.write_text("".join(f"{line}\n" for line in lines))
    return f"line {number}: {said}"


def _in_records(path: Path, random: Random) -> str:
    """A record with a checksum that fits."""
    payloads = read_records(path).payloads
    if not payloads:
        return "nothing"
    number = random.randrange(len(payloads))
    head, line, rest = payloads[number].partition(b"\n")
    if random.random() < 0.6 or not rest:
        raw = json.loads(head)
        said = alter(raw, random)
        payloads[number] = json.dumps(raw).encode() + line + rest
    else:
        file = path.with_name("payload.tmp")
        file.write_bytes(rest)
        said = _in_bytes(file, random)
        payloads[number] = head + line + file.read_bytes()
        file.unlink()
    data = record_format.header()
    for payload in payloads:
        data += record_format.frame(payload, len(data) if path.suffix == ".log" else 0)
    path.write_bytes(data)
    return f"record {number}: {said}"
