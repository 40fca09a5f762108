"""Interactive translation: translate, confirm, learn."""

from nearmt.stream.confirmed import ConfirmedFile
from nearmt.stream.protocol import answer, serve
from nearmt.stream.session import Session
from nearmt.stream.statistics import SessionStatistics

__all__ = ["ConfirmedFile", "Session", "SessionStatistics", "answer", "serve"]
