"""Finding the settings of a method on a development set."""

from nearmt.tuning.result import Tuned, write_config
from nearmt.tuning.search import Trial
from nearmt.tuning.tuner import TuneConfig, tune

__all__ = ["Trial", "TuneConfig", "Tuned", "tune", "write_config"]
