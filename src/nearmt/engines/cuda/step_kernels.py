"""Triton kernels of a decoding step: sentence caches and mixing."""

# Triton compiles this source: its arguments are pointers and numbers of its own, for which there are no types.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"
import triton
import triton.language as tl

from nearmt.engines.cuda.search_kernels import keys_of, ranks, squared_distances


@triton.jit
def compare(
    query,
    key,
    more,
    size,
    stride,
    cached,
    capacity,
    count,
    cache,
    near,
    width,
    rows,
    query_stride,
    columns: tl.constexpr,
    ROWS: tl.constexpr,
    POSITIONS: tl.constexpr,
    COLUMNS: tl.constexpr,
    MORE: tl.constexpr,
):
    """|k|^2 - 2 q k of the rows of a slot and some entries of its cache; infinite beyond its count."""
    sentence = tl.program_id(0).to(tl.int64)
    position = tl.program_id(1) * POSITIONS + tl.arange(0, POSITIONS)
    own = tl.load(cache + sentence)
    there = position < tl.load(count + own)
    entry = tl.load(cached + own * capacity + position, mask=there, other=0)
    row = tl.arange(0, ROWS)
    at_row = sentence * rows + row
    product = tl.zeros((ROWS, POSITIONS), tl.float32)
    length = tl.zeros((POSITIONS,), tl.float32)
    # Caches have unequal counts: blocks beyond the count are skipped.
    if tl.program_id(1) * POSITIONS < tl.load(count + own):
        for start in range(0, columns, COLUMNS):
            column = start + tl.arange(0, COLUMNS)
            inside = column < columns
            at = tl.load(
                query + at_row[:, None] * query_stride + column[None, :],
                mask=(row < rows)[:, None] & inside[None, :],
                other=0.0,
            )
            to = keys_of(key, more, size, stride, entry, column, there[:, None] & inside[None, :], MORE)
            length += tl.sum(to * to, axis=1)
            product = tl.dot(at, tl.trans(to), product, input_precision="tf32")
    squared = tl.where(there[None, :], length[None, :] - 2.0 * product, float("inf"))
    wanted = (row < rows)[:, None] & (position < width)[None, :]
    tl.store(near + at_row[:, None] * width + position[None, :], squared, mask=wanted)


@triton.jit
def measure(
    query,
    key,
    more,
    size,
    stride,
    cached,
    capacity,
    cache,
    rows,
    nominated,
    width,
    asked,
    found,
    distance,
    k,
    most,
    query_stride,
    columns: tl.constexpr,
    ORIGIN: tl.constexpr,
    POSITIONS: tl.constexpr,
    COLUMNS: tl.constexpr,
    MORE: tl.constexpr,
):
    """The k nearest of the nominated entries [width] of a row's cache, with distances that are not squared.

    A row of the results has `most` columns: those behind the k are padding.
    """
    row = tl.program_id(0).to(tl.int64)
    position = tl.arange(0, POSITIONS)
    own = tl.load(cache + row // rows)
    at = tl.load(nominated + row * width + position, mask=position < width, other=0)
    entry = tl.load(cached + own * capacity + at, mask=position < width, other=-1)
    squared = squared_distances(
        query + row * query_stride, key, more, size, stride, entry, columns, POSITIONS, COLUMNS, MORE
    )
    rank = ranks(entry, squared, position)
    wanted = rank < most
    tl.store(found + row * most + rank, tl.where(rank < k, entry, -1), mask=wanted)
    tl.store(distance + row * most + rank, tl.where(rank < k, tl.sqrt(squared), float("inf")), mask=wanted)
    tl.store(asked + row, ORIGIN)


@triton.jit
def put_searched(
    row_of, entry, squared, k, asked, found, distance, most, ORIGIN: tl.constexpr, POSITIONS: tl.constexpr
):
    """Copy the k neighbours of a search to their row of the results; the rest of its `most` columns is padding."""
    number = tl.program_id(0).to(tl.int64)
    position = tl.arange(0, POSITIONS)
    row = tl.load(row_of + number)
    mine = tl.load(entry + number * k + position, mask=position < k, other=-1)
    far = tl.load(squared + number * k + position, mask=position < k, other=float("inf"))
    tl.store(found + row * most + position, mine, mask=position < most)
    tl.store(distance + row * most + position, far, mask=position < most)
    tl.store(asked + row, ORIGIN)


@triton.jit
def append_new(cached, capacity, count, known, words, cache, entry, width, POSITIONS: tl.constexpr):
    """Append the entries [width], in ascending order (-1: none), that a cache does not have yet.

    `known` has a bit for every entry of the store that the cache has.
    """
    number = tl.program_id(0).to(tl.int64)
    own = tl.load(cache + number)
    end = tl.load(count + own)
    start = tl.program_id(0) * 0
    while start < width:
        position = start + tl.arange(0, POSITIONS)
        mine = tl.load(entry + number * width + position, mask=position < width, other=-1)
        before = tl.load(entry + number * width + position - 1, mask=(position > 0) & (position < width), other=-1)
        # Cache 0 is for padding. (A tensor of zeros: some versions of Triton take a scalar for a mask.)
        some = (mine >= 0) & (mine != before) & (tl.zeros_like(mine) + own > 0)
        word = known + own * words + mine // 32
        bit = (tl.full((POSITIONS,), 1, tl.int32) << (mine % 32).to(tl.int32)).to(tl.int32)
        fresh = some & ((tl.load(word, mask=some, other=0) & bit) == 0)
        put = end + tl.cumsum(fresh.to(tl.int32), axis=0) - 1
        stored = fresh & (put < capacity)
        tl.store(cached + own * capacity + put, mine, mask=stored)
        tl.atomic_or(word, bit, mask=stored)
        end += tl.sum(fresh.to(tl.int32), axis=0)
        start += POSITIONS
    tl.store(count + own, tl.minimum(end, capacity))


@triton.jit
def agreement(
    word,
    entries,
    entry,
    k,
    known,
    codes,
    nearness,
    trust,
    rows,
    kept,
    paraphrase,
    contrast,
    strength,
    elsewhere,
    WINDOW: tl.constexpr,
    POSITIONS: tl.constexpr,
):
    """The share of its weight that each neighbour of a row keeps: see the reference."""
    row = tl.program_id(0).to(tl.int64)
    position = tl.arange(0, POSITIONS)
    mine = known + row // rows * codes
    at = tl.load(entry + row * k + position, mask=position < k, other=-1)
    there = at >= 0
    own = tl.load(word + at, mask=there, other=0).to(tl.int32) & 0xFFFF
    status = tl.load(mine + own, mask=there, other=0).to(tl.int32)
    unknown = there & (own != 0) & (status == 0)
    contested = there & (own != 0) & (status == 2)
    total = tl.zeros((POSITIONS,), tl.float32)
    found = tl.zeros((POSITIONS,), tl.float32)
    for side in tl.static_range(-1, 2, 2):
        inside = unknown
        for step in range(1, WINDOW + 1):
            nearby = at + side * step
            inside = inside & (nearby >= 0) & (nearby < entries)
            near = tl.load(word + nearby, mask=inside, other=0).to(tl.int32) & 0xFFFF
            inside = inside & (near != 0)
            other = inside & (near != own)
            total += tl.where(other, 1.0, 0.0)
            found += tl.where(other & (tl.load(mine + near, mask=other, other=0) != 0), 1.0, 0.0)
    share = tl.where(total > 0.0, found / tl.maximum(total, 1.0), 1.0)
    left = tl.minimum(tl.maximum((contrast - share) / (contrast - paraphrase), 0.0), 1.0)
    match = tl.load(nearness + row // rows)
    left = 1.0 - strength * (elsewhere + (1.0 - elsewhere) * match) * (1.0 - left * (1.0 - match))
    left = tl.where(contested, 0.0, tl.where(unknown, left, 1.0))
    trusted = ~there | (status == 3)
    left *= tl.where(trusted, 1.0, tl.load(trust + row // rows))
    tl.store(kept + row * k + position, left, mask=position < k)


@triton.jit
def log_of_sum(logits, vocabulary: tl.constexpr, BLOCK: tl.constexpr):
    """log sum exp of a row, in one pass: each lane keeps a maximum and a sum of its own."""
    lane = tl.arange(0, BLOCK)
    highest = tl.full((BLOCK,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, vocabulary, BLOCK):
        said = tl.load(logits + start + lane, mask=start + lane < vocabulary, other=float("-inf"))
        higher = tl.maximum(highest, said)
        # A lane without a finite logit so far has nothing to scale.
        scale = tl.where(higher > float("-inf"), tl.exp(highest - higher), 0.0)
        total = total * scale + tl.where(said > float("-inf"), tl.exp(said - higher), 0.0)
        highest = higher
    best = tl.max(highest, axis=0)
    return best + tl.log(tl.sum(tl.where(highest > float("-inf"), total * tl.exp(highest - best), 0.0), axis=0))


@triton.jit
def p_knn(far, token, times, agreed, end, near, temperature, WEIGHTED: tl.constexpr):
    """Equation 2, n_j exp(-d_j / T) / sum_i n_i exp(-d_i / T), of each neighbour's token; zeros if there is none.

    Neighbours keep the shares `agreed` of their weights, and none outside the radius `near` that vote for the token
    `end`; the rest goes to the model. Also returned is the share that is kept.
    """
    there = far < float("inf")
    score = tl.where(there, -far / temperature, float("-inf"))
    if WEIGHTED:
        score += tl.log(times)
    best = tl.max(score, axis=0)
    weight = tl.where(there, tl.exp(score - tl.where(best > float("-inf"), best, 0.0)), 0.0)
    weight = weight / tl.maximum(tl.sum(weight, axis=0), 1e-30)
    dropped = (token == end) & (far > near)
    lost = tl.sum(tl.where(dropped, weight, weight * (1.0 - agreed)), axis=0)
    weight = tl.where(dropped, 0.0, weight * agreed)
    kept = tl.where(lost > 0.0, tl.minimum(tl.sum(weight, axis=0), 1.0), 1.0)  # sums are rounded
    # Neighbours with the same token add up.
    return tl.sum(tl.where(token[:, None] == token[None, :], weight[None, :], 0.0), axis=1), kept


@triton.jit
def mix(
    logits,
    stride,
    tokens,
    distance,
    asked,
    counts,
    agreement,
    trust,
    mixed,
    k,
    vocabulary: tl.constexpr,
    search_share,
    search_temperature,
    cache_share,
    cache_temperature,
    end,
    search_near,
    cache_near,
    likely,
    SEARCH: tl.constexpr,
    WEIGHTED: tl.constexpr,
    AGREEING: tl.constexpr,
    GUARDED: tl.constexpr,
    POSITIONS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Equations 2 and 3 for one row: its logits change at the neighbours' tokens, and its offset everywhere."""
    row = tl.program_id(0).to(tl.int64)
    position = tl.arange(0, POSITIONS)
    far = tl.load(distance + row * k + position, mask=position < k, other=float("inf"))
    there = far < float("inf")
    searched = tl.load(asked + row) == SEARCH
    temperature = tl.where(searched, search_temperature, cache_temperature)
    share = tl.where(searched, search_share, cache_share)
    if GUARDED:
        share *= tl.load(trust + row)
    token = tl.load(tokens + row * k + position, mask=there, other=-1).to(tl.int64)
    times = tl.load(counts + row * k + position, mask=there & WEIGHTED, other=1.0)
    agreed = tl.load(agreement + row * k + position, mask=there & AGREEING, other=1.0)
    total = log_of_sum(logits + row * stride, vocabulary, BLOCK)
    # Where the model finds the end likely, no neighbour is too far.
    said_end = tl.load(logits + row * stride + end, mask=end >= 0, other=float("-inf"))
    near = tl.where(searched, search_near, cache_near)
    near = tl.where(tl.exp(said_end - total) < likely, near, float("inf"))
    probability, kept = p_knn(far, token, times, agreed, end, near, temperature, WEIGHTED)
    share = tl.where(tl.max(probability, axis=0) > 0.0, share, 0.0)
    spoken = there & (share * probability > 0.0)
    said = tl.load(logits + row * stride + token, mask=spoken, other=0.0)
    base = tl.log(1.0 - share * kept) - total
    if share * kept == 1.0:
        # Nothing is left to the model: log 0, which no finite offset can express.
        base = share * 0.0
        said = tl.where(spoken, float("-inf"), said)
        for start in range(0, vocabulary, BLOCK):
            column = start + tl.arange(0, BLOCK)
            tl.store(logits + row * stride + column, float("-inf"), mask=column < vocabulary)
        tl.debug_barrier()
    added = tl.log(tl.where(spoken, share * probability, 1.0)) - base
    # log(exp(said) + exp(added)), of which only the first can be 0.
    higher, lower = tl.maximum(said, added), tl.minimum(said, added)
    both = higher + tl.log(1.0 + tl.exp(lower - higher))
    tl.store(logits + row * stride + token, both, mask=spoken)
    tl.store(mixed + row, base)
