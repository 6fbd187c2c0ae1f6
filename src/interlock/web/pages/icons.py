"""The signs on the pages: small line drawings on a grid of 16, drawn in the colour of the text around them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import Markup

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["LOGO", "icon"]

_DRAWINGS: Mapping[str, str] = {
    "overview": '<path d="M2.5 9.5 6 6l3 2.5L13.5 4"/><path d="M2.5 13h11"/>',
    "jobs": '<rect x="2.5" y="3" width="11" height="4" rx="1.2"/><rect x="2.5" y="9" width="11" height="4" rx="1.2"/>',
    "lanes": '<path d="M2.5 4h11M2.5 8h11M2.5 12h11"/><circle cx="11" cy="4" r="1.3"/><circle cx="5" cy="8" r="1.3"/>'
    '<circle cx="8.5" cy="12" r="1.3"/>',
    "locks": '<rect x="3" y="7" width="10" height="6.5" rx="1.5"/><path d="M5.2 7V5.2a2.8 2.8 0 0 1 5.6 0V7"/>',
    "limits": '<path d="M2.8 11.5a5.5 5.5 0 1 1 10.4 0"/><path d="M8 9.5 10.5 6"/>',
    "events": '<path d="M8.8 2 3.5 9h4L7 14l5.5-7.2h-4z"/>',
    "schedules": '<rect x="2.5" y="3.5" width="11" height="10" rx="1.5"/>'
    '<path d="M2.5 6.5h11M5.5 2v2.5M10.5 2v2.5M8 8.5v2l1.5 1"/>',
    "claims": '<path d="M13.5 7.4V8a5.5 5.5 0 1 1-3.2-5"/><path d="m13.5 3.5-5.7 5.8L6 7.5"/>',
    "workers": '<rect x="4" y="4" width="8" height="8" rx="1.5"/><path d="M6.5 1.8V4M9.5 1.8V4M6.5 12v2.2M9.5 12v2.2'
    'M1.8 6.5H4M1.8 9.5H4M12 6.5h2.2M12 9.5h2.2"/>',
    "journal": '<path d="M4 2.5h7.5v11H4z"/><path d="M4 2.5v11M6.5 5.5H9M6.5 8H9"/>',
    "records": '<ellipse cx="8" cy="4" rx="5" ry="1.8"/><path d="M3 4v8c0 1 2.2 1.8 5 1.8s5-.8 5-1.8V4"/>'
    '<path d="M3 8c0 1 2.2 1.8 5 1.8s5-.8 5-1.8"/>',
    "queues": '<path d="M3 4.5h10M3 8h7M3 11.5h4"/>',
    "theme": '<circle cx="8" cy="8" r="5.5"/><path d="M8 2.5a5.5 5.5 0 0 1 0 11z" fill="currentColor"/>',
    "search": '<circle cx="7" cy="7" r="4.2"/><path d="m10.2 10.2 3.3 3.3"/>',
    "retry": '<path d="M3 8a5 5 0 1 1 1.6 3.7"/><path d="M3 12.5V9.2h3.3"/>',
    "stop": '<rect x="4" y="4" width="8" height="8" rx="1.5"/>',
    "play": '<path d="M5 3.5 12 8l-7 4.5z"/>',
    "warning": '<path d="M8 2.5 14 13H2z"/><path d="M8 6.5v3M8 11.3v.1"/>',
    "info": '<circle cx="8" cy="8" r="5.7"/><path d="M8 7.5v3M8 5.3v.1"/>',
    "arrow": '<path d="M3 8h10M9.5 4.5 13 8l-3.5 3.5"/>',
    "circle": '<circle cx="8" cy="8" r="4"/>',
    "spinner": '<path d="M8 3a5 5 0 1 1-5 5"/>',
    "behind": '<path d="M9.5 4.5 6 8l3.5 3.5"/><path d="M13 4.5 9.5 8l3.5 3.5" opacity=".5"/>',
    "hourglass": '<path d="M4.5 2.5h7M4.5 13.5h7M5.5 2.5v2.3L8 8l2.5-3.2V2.5M5.5 13.5v-2.3L8 8l2.5 3.2v2.3"/>',
    "clock": '<circle cx="8" cy="8" r="5.5"/><path d="M8 4.8V8l2.3 1.5"/>',
    "hand": '<path d="M6 3v10M10 3v10"/>',
    "parked": '<path d="M6 13V3h3.2a2.9 2.9 0 0 1 0 5.8H6"/>',
    "check": '<path d="m3.5 8.5 3 3 6-7"/>',
    "cross": '<path d="m4.5 4.5 7 7m0-7-7 7"/>',
    "shield": '<path d="M8 2.2 13 4v4c0 3.2-2.3 5-5 6-2.7-1-5-2.8-5-6V4z"/><path d="m6.3 6.3 3.4 3.4m0-3.4L6.3 9.7"/>',
    "minus": '<path d="M4 8h8"/>',
}

LOGO = Markup(
    '<svg viewBox="0 0 24 24" aria-hidden="true" fill="none" stroke="currentColor" stroke-width="2.6" '
    'stroke-linejoin="round" stroke-linecap="round">'
    '<path d="M9.5 14.5H7.5a3 3 0 0 1-3-3V6.5a3 3 0 0 1 3-3h5a3 3 0 0 1 3 3v5"/>'
    '<path d="M14.5 9.5h2a3 3 0 0 1 3 3v5a3 3 0 0 1-3 3h-5a3 3 0 0 1-3-3v-5" opacity=".62"/></svg>'
)


def icon(name: str) -> Markup:
    """A drawing. It says nothing that the words next to it do not say too."""
    spin = " spin" if name == "spinner" else ""
    drawing = _DRAWINGS[name]
    return Markup(f'<svg class="icon{spin}" viewBox="0 0 16 16" aria-hidden="true">{drawing}</svg>')  # noqa: S704 - ours
