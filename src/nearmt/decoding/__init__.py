"""Beam search over any method's distributions."""

from nearmt.decoding.beam import BeamConfig, beam_search
from nearmt.decoding.hypothesis import Hypothesis, StepTrace

__all__ = ["BeamConfig", "Hypothesis", "StepTrace", "beam_search"]
