"""The datastore on disk: the corpus in order, sealed by its manifest, and the log of what changed since."""

from nearmt.datastore.disk.live_segment import FrozenLive
from nearmt.datastore.disk.manifest import Calibration, FileRecord, Manifest, SegmentRecord
from nearmt.datastore.disk.segment import Segment, SegmentWriter
from nearmt.datastore.disk.stored_pairs import stored_pairs

#: What entries can be read from.
AnySegment = Segment | FrozenLive

__all__ = [
    "AnySegment",
    "Calibration",
    "FileRecord",
    "FrozenLive",
    "Manifest",
    "Segment",
    "SegmentRecord",
    "SegmentWriter",
    "stored_pairs",
]
