"""The files of a datastore: sealed segments in corpus order, their manifest, and the log of later changes."""

from nearmt.datastore.disk.file_checks import FileRecord
from nearmt.datastore.disk.live_segment import FrozenLive
from nearmt.datastore.disk.manifest import Calibration, Manifest, SegmentRecord
from nearmt.datastore.disk.segment import Segment
from nearmt.datastore.disk.segment_writer import PairBlock, SegmentWriter
from nearmt.datastore.disk.stored_pairs import stored_pairs

#: A segment that entries can be read from: sealed, or live and frozen.
AnySegment = Segment | FrozenLive

__all__ = [
    "AnySegment",
    "Calibration",
    "FileRecord",
    "FrozenLive",
    "Manifest",
    "PairBlock",
    "Segment",
    "SegmentRecord",
    "SegmentWriter",
    "stored_pairs",
]
