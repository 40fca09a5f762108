"""The adapter that the model of a datastore has: what the manifest says about its file."""

from __future__ import annotations

from dataclasses import dataclass

from nearmt.datastore.disk.file_checks import FileRecord


@dataclass(frozen=True)
class AdapterRecord:
    """An adapter, named by its content."""

    identity: str
    file: FileRecord
    #: Fingerprint of the model without it.
    base: str
    rank: int
    #: Pairs that it was trained on, and that were held out.
    trained: int
    held_out: int
    #: Loss on the held-out pairs, in nats a token, of the model alone and with the adapter.
    base_loss: float
    loss: float
    created: str
    #: So many pairs at the beginning of the store, deleted ones among them, are older than the adapter.
    known: int

    @property
    def name(self) -> str:
        return f"adapter-{self.identity}.safetensors"

    @property
    def fingerprint(self) -> str:
        """Of the model with it."""
        return f"{self.base}+{self.identity}"
