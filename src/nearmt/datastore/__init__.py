"""The datastore on disk: the corpus in order, sealed by its manifest."""

from nearmt.datastore.manifest import Calibration, FileRecord, Manifest, SegmentRecord
from nearmt.datastore.segment import Segment, SegmentWriter, stored_pairs

__all__ = ["Calibration", "FileRecord", "Manifest", "Segment", "SegmentRecord", "SegmentWriter", "stored_pairs"]
