"""Compiled for a CPU: what is done at every step."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"
import numpy as np

from nearmt.compiling import compiled


@compiled
def _sink(near, place, best_X, place_X, at):
    """Put a number where it belongs in a heap, from `at` down."""
    count = len(best_X)
    while True:
        below = 2 * at + 1
        if below + 1 < count and best_X[below + 1] < best_X[below]:
            below += 1
        if below >= count or best_X[below] >= near:
            break
        best_X[at], place_X[at] = best_X[below], place_X[below]
        at = below
    best_X[at], place_X[at] = near, place


@compiled
def _largest(near_M, best_X, place_X):
    """The places of the largest numbers, of which there are enough: a heap with the least of them on top."""
    count = len(best_X)
    for m in range(count):
        best_X[m], place_X[m] = near_M[m], m
    for at in range(count // 2 - 1, -1, -1):
        _sink(best_X[at], place_X[at], best_X, place_X, at)
    for m in range(count, len(near_M)):
        if near_M[m] > best_X[0]:
            _sink(near_M[m], m, best_X, place_X, 0)


@compiled
def nominate(number_GRN, key_UMN, norm_UM, holder_G, end_G, place_GRX):
    """The places with the largest q k - |k|^2 / 2 of the first `end_G` of each holder, in no order."""
    groups, rows, columns = number_GRN.shape
    count = place_GRX.shape[2]
    near_RM = np.empty((rows, key_UMN.shape[1]), np.int32)
    best_X = np.empty(count, np.int32)
    for group in range(groups):
        holder, end = holder_G[group], end_G[group]
        for m in range(end):
            for r in range(rows):
                product = np.int32(0)
                for n in range(columns):
                    product += np.int32(number_GRN[group, r, n]) * np.int32(key_UMN[holder, m, n])
                near_RM[r, m] = product - norm_UM[holder, m]
        for r in range(rows):
            _largest(near_RM[r, :end], best_X, place_GRX[group, r])


@compiled
def mix(
    search_share, search_temperature, cache_share, cache_temperature,
    logits_BV, offset_B, entry_BK, token_BK, distance_BK, times_BK, searched_B, trust_B,
):  # fmt: skip
    """Equations 2 and 3: logits change where neighbours speak, offsets everywhere. `times_BK` is n of equation 2."""
    rows, k = entry_BK.shape
    weight_K = np.empty(k, np.float32)
    for b in range(rows):
        temperature = search_temperature if searched_B[b] else cache_temperature
        share = np.float32((search_share if searched_B[b] else cache_share) * trust_B[b])
        nearest = np.float32(np.inf)
        for j in range(k):
            if entry_BK[b, j] >= 0:
                nearest = min(nearest, distance_BK[b, j])
        if share == 0.0 or nearest == np.inf:
            continue
        total = np.float32(0.0)
        for j in range(k):
            weight_K[j] = np.float32(0.0)
            if entry_BK[b, j] >= 0:
                weight_K[j] = times_BK[b, j] * np.exp(np.float32((nearest - distance_BK[b, j]) / temperature))
            total += weight_K[j]
        if share == 1.0:  # nothing is left to the model: log 0, which no offset can say
            logits_BV[b] = -np.inf
            offset_B[b] = np.float32(0.0)
        else:
            offset_B[b] += np.log1p(-share)
        for j in range(k):
            if weight_K[j] == 0.0:
                continue
            # Neighbours with the same token add up.
            same = np.float32(0.0)
            for other in range(j, k):
                if token_BK[b, other] == token_BK[b, j]:
                    same += weight_K[other]
                    weight_K[other] = np.float32(0.0)
            added = np.log(share * same / total) - offset_B[b]
            said = logits_BV[b, token_BK[b, j]]
            higher, lower = max(said, added), min(said, added)
            logits_BV[b, token_BK[b, j]] = higher + np.log1p(np.exp(np.float32(lower - higher)))
