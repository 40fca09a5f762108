"""ICU MessageFormat: messages with plurals and selections, as flat texts to translate and back."""

from nearmt.corpus.icu.message import Argument, Branch, Message, parse_message
from nearmt.corpus.icu.syntax import MessageError

__all__ = ["Argument", "Branch", "Message", "MessageError", "parse_message"]
