"""Rules of placeholders: printf, braces, templates, variables.

Every quantifier over much text is bounded, or its characters exclude those that begin a match, so that searching takes
linear time.
"""

from __future__ import annotations

from nearmt.corpus.spans.span import Rule, SpanKind, rule

_SIZE = r"(?:\d+|\*)?(?:\.(?:\d+|\*))?(?:hh|h|ll|l|L|q|j|z|t)?"
_CONVERSION = r"[diouxXeEfFgGcCrsSabApvqT@]"
_PLAIN = rf"%[-+0#']*{_SIZE}{_CONVERSION}"
# With a name or a number it is a directive, whatever is next to it.
_NAMED = (
    rf"%{_SIZE}<PRI[a-zA-Z]+\d*>",  # gettext's %<PRIu64>
    rf"%\(\w[\w.-]{{0,80}}\)[-+0#']*{_SIZE}{_CONVERSION}",  # %(name)s
    rf"%\d+\$[-+0#']*{_SIZE}{_CONVERSION}",  # %1$s
    rf"%\[\d+\]{_CONVERSION}",  # Go's %[1]d
    rf"%<\w+>[-+0#]*{_SIZE}{_CONVERSION}",  # Ruby's %<name>d
)
#: In a document that says that its texts are format strings.
CERTAIN_PRINTF = rule(
    SpanKind.PRINTF,
    *_NAMED,
    _PLAIN,
    rf"(?<!\d)(?<!\d\s)% {_SIZE}[dioxfgs](?!\w)",
    "%%",
    r"%L?[1-9]\d?(?![\w$.%])",
    "%L?n",
)
#: In a document that does not say so: `50%ig` and `20 % der` are words.
LIKELY_PRINTF = rule(
    SpanKind.PRINTF,
    *_NAMED,
    rf"(?<!\d)(?:{_PLAIN}|%%)(?![A-Za-z])",
    r"(?<!\d)(?<!\d\s)%\d?(?:\.\d)?[df](?=(?:[a-zA-Z]|[kKMG]i?B|px|pt|em|ms)(?!\w))",  # %.2fs, %dpx
    r"(?<![\w%])%L?(?:[1-9]|n)(?![\w$%]|[.,]\d)",  # Qt's %1 and %n
    r"(?<![\w%])%[A-Za-z_][\w.-]{1,60}%(?!\w)",  # %name% of Symfony and Windows
)

# `{siehe oben}` and `{Hinweis: lesen}` are prose.
_NAME = r"[$@]?[\w.\[\]-]{0,80}"
_FORMAT = r"(?::(?![^\W_]{4,}\b)(?:(?! )|(?= [<>^=]))(?:[^{}]|\{\w{0,40}\}){0,60})?"
_ICU = r"number|date|time|spellout|ordinal|duration|list"
BRACES = rule(
    SpanKind.BRACE,
    rf"\{{{_NAME}(?:![rsa])?{_FORMAT}\}}",
    r"\{ (?:[$-][\w.-]{1,80}|(?=\w*[_.\d])[\w.]{1,80}|[a-z]{1,40}[A-Z]\w{0,40}) \}",  # not `{ und }`
    rf"\{{\s?\w{{1,80}}\s?,\s?(?:{_ICU})\s?(?:,[^{{}}]{{0,120}})?\}}",
    r"\{@\w+ [^{}]{1,120}\}",
)
TEMPLATES = rule(
    SpanKind.TEMPLATE,
    r"\{\{\{[^{}]{1,200}\}\}\}",
    r"\{\{[^{}]{1,200}\}\}",
    r"\{%[^{}]{1,200}%\}",
    r"[$#%]\{[^{}\s]{1,200}\}",
    r"<%[^<]{0,200}?%>",
    r"\$t\([^()]{1,200}\)",
    r"\[X\d{1,6}X\]",  # what Weblate sends in place of placeholders
)
_BEFORE = r"(?<![\w@.:/&])"
VARIABLES = rule(
    SpanKind.VARIABLE,
    # @count, @babel/core
    rf"{_BEFORE}@[A-Za-z_][\w-]*(?:/[\w-]+(?:\.[\w-]+)*)?",
    # :count, :emoji:; not :D, :xD
    r"""(?:(?<=[\s("'„“»«>\[])|^):(?!x?[DPpOo]{1,3}\b)(?:[a-z_]\w+|[A-Z][A-Z_]{2,}\w*|[A-Z][a-z]\w+)(?::(?!\w))?""",
    # Node-RED's __count__, Python's __init__
    r"(?<!\w)__[A-Za-z](?:[\w.]{0,60}?[^\W_])?__(?!\w\w)",
    # $NAME, $name, Chrome's $NAME$; not $5
    r"(?<![\w$])\$[A-Za-z_]\w*(?:\$(?!\w))?",
)

PLACEHOLDERS: tuple[Rule, ...] = (BRACES, TEMPLATES, VARIABLES)
