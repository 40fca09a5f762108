"""Triton kernels of index search: one launch, and no temporary tensors, in place of many.

Keys are read in place: entry n is row n of `key`, or row n - size of `more` for n >= size. `MORE` says whether there
are such entries.
"""

# Triton compiles this source: its arguments are pointers and numbers of its own, for which there are no types.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"
import triton
import triton.language as tl


@triton.jit
def keys_of(key, more, size, stride, entry, column, wanted, MORE: tl.constexpr):
    """Some columns of the keys of some entries, [X, E]; zeros where they are not wanted."""
    first = entry[:, None] < size
    found = tl.load(key + entry[:, None] * stride + column[None, :], mask=wanted & first, other=0.0).to(tl.float32)
    if MORE:
        later = tl.load(more + (entry - size)[:, None] * stride + column[None, :], mask=wanted & ~first, other=0.0)
        found += later.to(tl.float32)
    return found


@triton.jit
def squared_distances(
    query,
    key,
    more,
    size,
    stride,
    entry,
    columns: tl.constexpr,
    POSITIONS: tl.constexpr,
    COLUMNS: tl.constexpr,
    MORE: tl.constexpr,
):
    """Squared distances of one query to entries [POSITIONS], by differences; infinite for entry -1, and instead of
    NaN, so that distances have an order."""
    there = entry >= 0
    total = tl.zeros((POSITIONS,), tl.float32)
    for start in range(0, columns, COLUMNS):
        column = start + tl.arange(0, COLUMNS)
        inside = column < columns
        at = tl.load(query + column, mask=inside, other=0.0)
        to = keys_of(key, more, size, stride, entry, column, there[:, None] & inside[None, :], MORE)
        difference = to - at[None, :]
        total += tl.sum(difference * difference, axis=1)
    return tl.where(there & (total < float("inf")), total, float("inf"))


@triton.jit
def ranks(entry, squared, position):
    """The rank of each position: nearest first, equal distances in the order of entries."""
    nearer = squared[None, :] < squared[:, None]
    alike = squared[None, :] == squared[:, None]
    before = (entry[None, :] < entry[:, None]) | (
        (entry[None, :] == entry[:, None]) & (position[None, :] < position[:, None])
    )
    return tl.sum((nearer | (alike & before)).to(tl.int32), axis=1)


@triton.jit
def nearest(
    query,
    key,
    more,
    size,
    stride,
    candidate,
    width,
    found,
    distance,
    k,
    columns: tl.constexpr,
    query_stride,
    POSITIONS: tl.constexpr,
    COLUMNS: tl.constexpr,
    MORE: tl.constexpr,
):
    """The k nearest of a row's candidates [width]: nearest first, equals in the order of entries."""
    row = tl.program_id(0).to(tl.int64)
    position = tl.arange(0, POSITIONS)
    entry = tl.load(candidate + row * width + position, mask=position < width, other=-1)
    squared = squared_distances(
        query + row * query_stride, key, more, size, stride, entry, columns, POSITIONS, COLUMNS, MORE
    )
    rank = ranks(entry, squared, position)
    tl.store(found + row * k + rank, entry, mask=rank < k)
    tl.store(distance + row * k + rank, squared, mask=rank < k)


@triton.jit
def in_blocks(
    query,
    key,
    more,
    size,
    stride,
    member,
    block,
    probes,
    entry,
    squared,
    columns: tl.constexpr,
    POSITIONS: tl.constexpr,
    COLUMNS: tl.constexpr,
    MORE: tl.constexpr,
):
    """The entries of one of the blocks that a row probes, and their squared distances."""
    row, probe = tl.program_id(0).to(tl.int64), tl.program_id(1)
    position = tl.arange(0, POSITIONS)
    number = tl.load(block + row * probes + probe)
    found = tl.load(member + number * POSITIONS + position).to(tl.int64)
    distances = squared_distances(
        query + row * columns, key, more, size, stride, found, columns, POSITIONS, COLUMNS, MORE
    )
    at = (row * probes + probe) * POSITIONS + position
    tl.store(entry + at, found)
    tl.store(squared + at, distances)
