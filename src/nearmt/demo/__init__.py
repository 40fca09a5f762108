"""The demonstration: a made-up machine's manual as translation memory, and sentences held out of it."""

from pathlib import Path

MEMORY = Path(__file__).parent / "memory.tsv"
HELD_OUT = Path(__file__).parent / "heldout.tsv"
