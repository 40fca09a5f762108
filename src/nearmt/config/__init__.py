"""Settings of every part: frozen dataclasses that check themselves. Imports no torch."""

from nearmt.config.base import Config, as_texts, option, public_name, read_toml, unknown_setting

__all__ = ["Config", "as_texts", "option", "public_name", "read_toml", "unknown_setting"]
