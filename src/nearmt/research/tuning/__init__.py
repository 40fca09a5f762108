"""Tuning the settings of a method by trials on a development set."""

from nearmt.research.tuning.result import Tuned, write_config
from nearmt.research.tuning.trials import Trial
from nearmt.research.tuning.tuner import TuneConfig, tune

__all__ = ["Trial", "TuneConfig", "Tuned", "tune", "write_config"]
