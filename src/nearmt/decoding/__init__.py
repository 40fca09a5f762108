"""Beam search over any method's distributions."""

from nearmt.config.beam import BeamConfig
from nearmt.decoding.beam import beam_search
from nearmt.decoding.hypothesis import Hypothesis, StepTrace

__all__ = ["BeamConfig", "Hypothesis", "StepTrace", "beam_search"]
