"""Reading chunks in order, on chunks that can be followed by eye."""

from __future__ import annotations

import math

import torch

from nearmt.research.methods.chunk_order import ChunkReader

INF = math.inf
CPU = torch.device("cpu")


def reader_of(chunks: list[list[list[int]]], distance_BK: list[list[float]]) -> ChunkReader:
    """A reader whose rows have all searched just now."""
    entry_BKC = torch.tensor(chunks)
    reader = ChunkReader.blank(len(chunks), entry_BKC.shape[1], entry_BKC.shape[2], CPU)
    reader.replace(torch.arange(len(chunks)), entry_BKC, torch.tensor(distance_BK))
    return reader


def read(reader: ChunkReader, *rows: int) -> list[list[tuple[int, float]]]:
    """The next entries of some rows that exist, with their distances."""
    found = reader.read(torch.tensor(rows))
    return [
        [(entry, distance) for entry, distance in zip(entries, distances, strict=True) if entry >= 0]
        for entries, distances in zip(found.entry_BK.tolist(), found.distance_BK.tolist(), strict=True)
    ]


def two_rows() -> ChunkReader:
    return reader_of(
        [[[10, 11, 12], [20, 21, -1]], [[30, 31, 32], [40, -1, -1]]],
        [[0.5, 1.5], [2.5, 3.5]],
    )


def test_the_jth_step_reads_the_jth_token_at_the_distances_of_the_search() -> None:
    reader = two_rows()
    # The search itself has used the first tokens.
    assert read(reader, 0, 1) == [[(11, 0.5), (21, 1.5)], [(31, 2.5)]]
    assert read(reader, 0, 1) == [[(12, 0.5)], [(32, 2.5)]]


def test_an_ended_chunk_is_at_infinite_distance() -> None:
    """So it has no weight and the others share all of it."""
    found = two_rows().read(torch.tensor([1]))
    assert found.entry_BK.tolist() == [[31, -1]]
    assert found.distance_BK.tolist() == [[2.5, INF]]


def test_beyond_the_chunk_there_is_nothing_however_long() -> None:
    reader = two_rows()
    for _ in range(2):
        read(reader, 0, 1)
    for _ in range(3):
        assert read(reader, 0, 1) == [[], []]


def test_a_chunk_of_one_has_nothing_left_after_the_search() -> None:
    assert read(reader_of([[[7], [8]]], [[1.0, 2.0]]), 0) == [[]]


def test_rows_that_have_not_searched_have_nothing() -> None:
    reader = ChunkReader.blank(2, 3, 4, CPU)
    assert read(reader, 0, 1) == [[], []]


def test_rows_are_read_on_their_own() -> None:
    reader = two_rows()
    assert read(reader, 1) == [[(31, 2.5)]]
    assert read(reader, 1) == [[(32, 2.5)]]
    assert read(reader, 0) == [[(11, 0.5), (21, 1.5)]]


def test_a_new_search_starts_over_for_its_rows_only() -> None:
    reader = two_rows()
    read(reader, 0, 1)
    reader.replace(torch.tensor([1]), torch.tensor([[[50, 51, 52], [60, 61, 62]]]), torch.tensor([[4.5, 5.5]]))
    assert read(reader, 0, 1) == [[(12, 0.5)], [(51, 4.5), (61, 5.5)]]


def test_reorder_takes_chunks_distances_and_progress_along() -> None:
    reader = two_rows()
    read(reader, 0)  # row 0 is one token ahead
    reader.reorder(torch.tensor([1, 0, 0]))
    assert read(reader, 0, 1, 2) == [[(31, 2.5)], [(12, 0.5)], [(12, 0.5)]]
    reader.reorder(torch.tensor([2, 0]))
    assert read(reader, 0, 1) == [[], [(32, 2.5)]]


def test_rows_of_one_parent_do_not_read_for_each_other() -> None:
    reader = two_rows()
    reader.reorder(torch.tensor([0, 0]))
    assert read(reader, 0) == [[(11, 0.5), (21, 1.5)]]
    assert read(reader, 1) == [[(11, 0.5), (21, 1.5)]]
