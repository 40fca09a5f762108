"""Settings of Weblate for a process without a database and a broker."""

# ruff: noqa: F403
import os

os.environ["CI_DATABASE"] = "postgresql"

from weblate.settings_test import *  # type: ignore[import-not-found]

DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
