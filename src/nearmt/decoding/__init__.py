"""Beam search over any method's distributions."""

from nearmt.decoding.beam import SearchConfig, beam_search
from nearmt.decoding.hypothesis import Hypothesis, StepTrace

__all__ = ["Hypothesis", "SearchConfig", "StepTrace", "beam_search"]
