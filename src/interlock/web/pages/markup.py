"""Longer texts as HTML: JSON in colours, and sentences with their job numbers, times and commands marked.

All of it is escaped here, piece by piece, for nothing of it can be trusted; what comes out is marked as safe.
"""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from interlock.explanation import COMMAND
from interlock.insight.json_text import FormattedJson, format_json
from interlock.web.pages.formatting import visible

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["json_html", "sentence"]

_MAX_SHOWN = 30_000
_WORD = re.compile(r"[a-z]+[ ,]")
_TOKENS = re.compile(
    r'(?P<k>"(?:[^"\\]|\\.)*")(?=\s*:)|(?P<s>"(?:[^"\\]|\\.)*"?)|(?P<n>-?\d[\d.eE+-]*)|(?P<w>true|false|null|NaN|-?Infinity)'
    r"|(?P<p>[{}\[\],:]+)"
)
_MARKS = re.compile(
    r"\b[jJ]ob (?P<job>\d{1,19})\b"
    r"|(?P<time>\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:\+00:00|Z))"
    rf"|(?P<command>{COMMAND})"
)


def json_html(text: str, whole: str = "") -> Markup:
    """A JSON text, format_json out and coloured. Text that is not JSON is shown as it is.

    What is very long or deeply nested is not shown to its end; ``whole`` is where to find all of it.
    """
    try:
        found = format_json(json.loads(text), _MAX_SHOWN)
    except (ValueError, RecursionError):
        found = FormattedJson(text[:_MAX_SHOWN], 0, cut=len(text) > _MAX_SHOWN)
    shown = visible(found.text)
    pieces: list[Markup] = []
    at = 0
    for token in _TOKENS.finditer(shown):
        pieces += (escape(shown[at : token.start()]), _span(token.lastgroup or "", token[0]))
        at = token.end()
    pieces.append(escape(shown[at:]))
    if found.missing:
        pieces.append(escape(f"\n… {found.missing}: "))
        pieces.append(
            Markup('<a class="link" href="{}">all of it as JSON</a>').format(whole)
            if whole
            else escape("the API has all of it")
        )
    return Markup().join(pieces)


def _span(kind: str, text: str) -> Markup:
    return Markup('<span class="{}">{}</span>').format(kind, text)


def sentence(text: str, job_link: Callable[[str], str], seen_at: float) -> Markup:
    """A line of an explanation: jobs become links, times short (with the exact one to hover), commands code."""
    shown = visible(text)
    if _WORD.match(shown):  # a sentence, and not one that begins with somebody's name for something
        shown = shown[:1].upper() + shown[1:]
    pieces: list[Markup] = []
    at = 0
    for found in _MARKS.finditer(shown):
        pieces.append(escape(shown[at : found.start()]))
        if found["job"] and not job_link(found["job"]):
            pieces.append(escape(found[0]))
        elif found["job"]:
            pieces.append(Markup('<a class="link" href="{}">{}</a>').format(job_link(found["job"]), found[0]))
        elif found["time"]:
            pieces.append(_time(found[0], seen_at))
        else:
            pieces.append(Markup("<code>{}</code>").format(found[0]))
        at = found.end()
    pieces.append(escape(shown[at:]))
    return Markup().join(pieces)


def _time(text: str, seen_at: float) -> Markup:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return escape(text)
    near = abs(moment.timestamp() - seen_at) < 20 * 3600
    words = f"{moment:%H:%M:%S}" if near else f"{moment:%d %b %H:%M}"
    return Markup('<time datetime="{}" title="{}">{} UTC</time>').format(text, text, words)
