"""Rules of texts that are no language: URLs, addresses, paths, versions, hashes, formats of dates."""

from __future__ import annotations

import re
from functools import partial

from nearmt.corpus.spans.span import Rule, SpanKind, rule

_SCHEMES = "https?|ftps?|sftp|file|ssh|git|svn|wss?|ircs?|ldaps?|jdbc|mongodb|postgres|redis|s3|about|chrome|moz"
_DOMAINS = "com|org|net|edu|gov|io|dev|eu|de|ch|uk|fr|info"
# Templates may be parts of an address.
_ADDRESS = r"""(?:\{\{[^{}\s]{0,80}\}\}|%\(\w+\)s|[^\s<>"`|\\^„“”«»‹›…])"""
_LABEL = r"[A-Za-z0-9][A-Za-z0-9-]{0,62}"
_CLOSING = {")": "(", "]": "[", "}": "{"}


def _without_punctuation(found: re.Match[str], marks: str = ".,;:!?'*_’") -> int:
    """The end without punctuation, and without brackets that were opened before the match."""
    text = found[0]
    end = len(text)
    surplus = {close: text.count(close) - text.count(opened) for close, opened in _CLOSING.items()}
    while end and (text[end - 1] in marks or surplus.get(text[end - 1], 0) > 0):
        if text[end - 1] in surplus:
            surplus[text[end - 1]] -= 1
        end -= 1
    return found.start() + end


URLS = rule(
    SpanKind.URL,
    rf"(?<![\w/])(?:{_SCHEMES})://{_ADDRESS}*",  # also a scheme alone
    rf"(?<![\w/])(?:mailto:|urn:[a-z]|data:[a-z]+/){_ADDRESS}+",
    rf"(?<![\w/.@-])www\.{_LABEL}\.{_ADDRESS}+",
    # example.com, shop.example.com/path
    rf"(?<![\w/.@-])(?:[a-z0-9][a-z0-9-]{{1,62}}\.){{1,6}}(?:{_DOMAINS})\b(?![.-]?\w)(?::\d{{2,5}})?(?:/{_ADDRESS}*)?",
    rf"(?<![\w/.@-])(?:localhost|\d{{1,3}}(?:\.\d{{1,3}}){{3}}):\d{{2,5}}\b(?:/{_ADDRESS}*)?",
    end=_without_punctuation,
)
EMAILS = rule(
    SpanKind.EMAIL,
    rf"(?<![\w.+@-])\w[\w.+-]{{0,63}}@(?:{_LABEL}\.){{1,6}}[A-Za-z]{{2,24}}(?![\w@])",
)

_SUFFIXES = (
    "7z|aac|apk|arb|avif|bak|bash|bat|bmp|bz2|cfg|class|cmd|conf|cpp|crt|cs|css|csv|deb|dll|dmg|docx?|dtd|exe|flac|"
    "gif|gpg|gz|hpp|html?|ico|ics|ini|ipynb|iso|jar|java|jpe?g|jsx?|json5?|jsonl|kt|less|lock|log|lua|md|mjs|mkv|mo|"
    "mov|mp3|mp4|mpe?g|msi|odp|ods|odt|ogg|otf|pdf|pem|php|pl|plist|png|pot?|pptx?|properties|ps1|psd|pyc?|qml|rar|rb|"
    "rpm|rst|rtf|sass|scss|sh|sql|sqlite3?|srt|strings|svg|swift|tar|tex|tgz|tiff?|tmp|tmx|toml|tsv|tsx?|ttf|txt|vue|"
    "wav|webm|webp|woff2?|xcf|xlf|xliff|xlsx?|xml|xsd|xslt?|xz|ya?ml|zip|zst"
)
_SUFFIX = rf"(?:\.(?:{_SUFFIXES})){{1,2}}(?![\w/])(?!\.\w)"
_ROOTS = "bin|boot|dev|etc|home|lib|mnt|opt|proc|root|run|sbin|srv|sys|tmp|usr|var"
_PART = r"[\w.@%+~*?\[\]{}$#-]"
_FREE = r"(?<![^\s(\[\"'„“»«`=:,])"
_WINDOWS = r'[^\s\\/:"<>|„“”«»]'
PATHS = rule(
    SpanKind.PATH,
    # /etc, /usr/share/*, ~/notes, ./run, ../x
    rf"{_FREE}(?:~|\.{{1,2}})/{_PART}*(?:/{_PART}*)*",
    rf"{_FREE}/(?:{_ROOTS})\b(?:/{_PART}*)*",
    rf"{_FREE}/(?:{_PART}+/)+{_PART}*",
    rf"{_FREE}/{_PART}*?{_SUFFIX}",
    # src/main.py, main.py, .csv, *.txt
    rf"(?<![\w./\\@-])(?:[\w.@*-]{{1,80}}/){{1,20}}[\w@*-]{{1,80}}(?:\.[\w-]{{1,40}}){{0,4}}?{_SUFFIX}",
    rf"(?<![\w./\\@*-])[\w@-]{{2,80}}(?:\.[\w-]{{1,40}}){{0,4}}?{_SUFFIX}",
    rf"(?<![\w./\\*-])\.(?:{_SUFFIXES}|env|git\w*|htaccess|npmrc|ssh|bash\w+|profile)\b(?!\.\w)",
    r"(?<![\w*])(?:\*\*/)?\*\.(?:\*|\{[\w,]{1,80}\}|\w{1,12})(?!\w)",
    # C:\Program Files\x, \\server\share, %APPDATA%\x
    rf"(?<!\w)(?:[A-Za-z]:|\\\\{_WINDOWS}+|%\w{{2,40}}%)\\(?:[^\\/:*?\"<>|„“”«»\r\n]{{1,60}}\\)*{_WINDOWS}*",
    end=partial(_without_punctuation, marks=".,;:!?'"),
)

_DATE = re.compile(r"(?:0?[1-9]|[12]\d|3[01])\.(?:0?[1-9]|1[0-2])\.(?:(?:1[5-9]|20)\d\d)|\d\d\.\d\d\.\d\d")
_THOUSANDS = re.compile(r"\d{1,3}(?:\.\d{3})+")


def _end_of_version(found: re.Match[str]) -> int:
    """Dates and large numbers are written otherwise in other languages."""
    text = found[0]
    return found.start() if _DATE.fullmatch(text) or _THOUSANDS.fullmatch(text) else found.end()


_RELEASE = r"(?:-?(?:alpha|beta|rc|pre|dev|a|b)[.-]?\d{0,4}|-[0-9A-Za-z.-]{1,20}\+\w{1,20})?"
_END = r"(?![\w%]|\.\d|,\d)"
VERSIONS = rule(
    SpanKind.VERSION,
    rf"(?<![\w.,/:-])\d{{1,5}}(?:\.\d{{1,5}}){{2,4}}{_RELEASE}{_END}",
    r"(?<![\w.,/:-])\d{1,5}(?:\.\d{1,5}){1,3}\.[x*](?!\w)",
    rf"(?<![\w.,/-])[vV]\d{{1,5}}(?:\.\d{{1,5}}){{0,4}}(?:\.(?:x|\*))?{_RELEASE}{_END}",
    rf"(?<=[Vv]ersion )\d{{1,5}}(?:\.\d{{1,5}}){{1,4}}(?:\.(?:x|\*))?{_RELEASE}{_END}",
    end=_end_of_version,
)

_HEX = "[0-9A-Fa-f]"
HASHES = rule(
    SpanKind.HASH,
    rf"(?<![\w#&])#(?:{_HEX}{{8}}|{_HEX}{{6}}|{_HEX}{{3,4}})(?!\w)",
    rf"(?<!\w)0[xX]{_HEX}{{1,16}}(?!\w)",
    rf"(?<![\w-]){_HEX}{{8}}-(?:{_HEX}{{4}}-){{3}}{_HEX}{{12}}(?![\w-])",
    r"(?<![\w.,-])(?=[0-9]{0,64}[a-f])(?=[a-f]{0,64}[0-9])[0-9a-f]{7,128}(?![\w-])",
)

_FIELD = "(?:YYYY|YY|yyyy|yy|MM|mm|DD|dd|HH|hh|SS|ss|uuuuuu|TZ)"
# HH:MM[:ss[.uuuuuu]], YYYY-MM-DD
DATE_FORMATS = rule(
    SpanKind.DATE_FORMAT,
    rf"(?<!\w)\[{{0,3}}{_FIELD}(?:(?:[\]\[:./-]{{1,4}} ?|[ T])\[{{0,2}}{_FIELD})++\]{{0,3}}(?!\w)",
    end=partial(_without_punctuation, marks=""),
)

LITERALS: tuple[Rule, ...] = (URLS, EMAILS, PATHS, VERSIONS, HASHES, DATE_FORMATS)
