"""Tuning the settings of a method by trials on a development set."""

from nearmt.config.tuning import TuneConfig
from nearmt.research.tuning.result import Tuned, write_config
from nearmt.research.tuning.trials import Trial
from nearmt.research.tuning.tuner import tune

__all__ = ["Trial", "TuneConfig", "Tuned", "tune", "write_config"]
