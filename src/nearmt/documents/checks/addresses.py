"""URLs and e-mail addresses."""

from __future__ import annotations

import re
from collections.abc import Iterator

from nearmt.documents.checks.base import CheckedUnit, Finding, Severity, listed
from nearmt.documents.checks.spans import addresses

_HOST = re.compile(r"(?:[a-z]+://)?(?:www\.)?([^/:?#]+)")


class AddressCheck:
    """Addresses that the translation lacks or adds; pages of the same host may be localised."""

    name = "addresses"

    def __call__(self, unit: CheckedUnit) -> Iterator[Finding]:
        before, after = addresses(unit.source_text), addresses(unit.target_text)
        missing, added = [*(before.keys() - after.keys())], [*(after.keys() - before.keys())]
        if missing and len(missing) == len(added) and sorted(map(_site, missing)) == sorted(map(_site, added)):
            detail = listed(sorted(added))
            yield Finding(self.name, Severity.INFO, "another page of the same host than in the source", detail)
        elif missing:
            yield Finding(self.name, Severity.ERROR, "addresses of the source are missing", listed(sorted(missing)))
        elif added:
            yield Finding(self.name, Severity.WARNING, "addresses that the source lacks", listed(sorted(added)))


def _site(address: str) -> str:
    """The host without a country or a language: `example` of `de.example.org`."""
    found = _HOST.match(address.lower())
    labels = (found[1] if found else address).rpartition("@")[2].split(".")
    return labels[-2] if len(labels) > 1 else labels[0]
