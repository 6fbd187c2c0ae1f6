"""Machines as numbers for SVG: where each status and each transition goes. The template draws them.

The layout has layers from left to right. A status is in the layer of the longest path to it, so that transitions go to
the right; those that would close a cycle go to the left. A transition that passes layers has a point in each of them,
and the statuses and points of a layer are ordered so that few lines cross.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from interlock.insight.record_rows import MachineView

__all__ = ["Arrow", "Drawing", "State", "draw"]

_MAX_STATUSES = 40
_MAX_CHARS = 18
_CHAR, _PADDING = 7.4, 26.0
_HEIGHT, _ROW, _POINT = 30.0, 50.0, 18.0
_GAP, _MARGIN, _ENTRY = 58.0, 10.0, 26.0
_SWEEPS = 8
_WIDE = 1000.0

_Place = str | tuple[str, str, int]
"""A status, or the point at which a transition (from, to) passes a layer."""


class State(NamedTuple):
    """A status as a box."""

    name: str
    text: str
    """The name, cut."""
    x: float
    y: float
    width: float
    height: float
    initial: bool
    final: bool
    here: bool
    """Whether the record has this status."""
    next: bool
    """Whether it may follow."""


class Arrow(NamedTuple):
    """A transition as a line with a tip at one end or at both."""

    path: str
    tips: tuple[str, ...]
    out: bool
    """Whether it leads away from the record's status."""
    correction: bool
    """Whether only a correction makes it."""
    title: str


class Drawing(NamedTuple):
    """A machine."""

    width: float
    height: float
    states: tuple[State, ...]
    arrows: tuple[Arrow, ...]
    entries: tuple[tuple[float, float, float], ...]
    """Where the arrows to the initial statuses are: from x to x, and y."""
    wide: bool
    """Whether it is too wide to be shrunk to the width of a page."""


def draw(machine: MachineView, status: str | None = None) -> Drawing | None:
    """Lay out a machine and highlight a status of it. None if it has too many statuses to be drawn."""
    statuses = list(machine.transitions)
    if not 0 < len(statuses) <= _MAX_STATUSES:
        return None
    edges = _edges(machine)
    right = _acyclic(statuses, machine.initial, edges)
    layers = _layers(statuses, right)
    rows = _ordered(statuses, right, layers)
    width = _PADDING + _CHAR * max(min(len(name), _MAX_CHARS) for name in statuses)
    xs = {layer: _MARGIN + _ENTRY + layer * (width + _GAP) for layer in range(len(rows))}
    ys, height = _heights(rows)
    states = tuple(
        State(
            name,
            name if len(name) <= _MAX_CHARS else f"{name[: _MAX_CHARS - 1]}…",
            xs[layers[name]],
            ys[name] - _HEIGHT / 2,
            width,
            _HEIGHT,
            name in machine.initial,
            name in machine.final,
            name == status,
            status is not None and name != status and name in machine.transitions.get(status, ()),
        )
        for name in statuses
    )
    arrows = tuple(_arrow(pair, edges, layers, xs, ys, width, status) for pair in right)
    entries = tuple((xs[layers[name]] - _ENTRY + 4, xs[layers[name]], ys[name]) for name in machine.initial)
    total = xs[len(rows) - 1] + width + _MARGIN
    return Drawing(total, height, states, arrows, entries, total > _WIDE)


def _edges(machine: MachineView) -> dict[tuple[str, str], bool]:
    """Every transition to another status; True for those that only a correction makes."""
    edges = {
        (status, follower): False
        for status, followers in machine.transitions.items()
        for follower in followers
        if follower != status
    }
    if machine.corrected is not None:
        for status in machine.transitions:
            if status not in machine.final and status != machine.corrected:
                edges.setdefault((status, machine.corrected), True)
    return edges


def _acyclic(
    statuses: Sequence[str], initial: Iterable[str], edges: Mapping[tuple[str, str], bool]
) -> dict[tuple[str, str], bool]:
    """The edges with those that close a cycle turned around; True for those that were turned."""
    followers: dict[str, list[str]] = {status: [] for status in statuses}
    for one, other in edges:
        followers[one].append(other)
    found: dict[tuple[str, str], bool] = {}
    done: set[str] = set()
    for start in dict.fromkeys([*initial, *statuses]):
        if start in done:
            continue
        path = {start: iter(followers[start])}
        while path:
            status = next(reversed(path))
            follower = next(path[status], None)
            if follower is None:
                done.add(status)
                del path[status]
            elif follower in path:
                found.setdefault((follower, status), True)
            else:
                found[status, follower] = False
                if follower not in done:
                    path[follower] = iter(followers[follower])
    return found


def _layers(statuses: Sequence[str], edges: Iterable[tuple[str, str]]) -> dict[str, int]:
    """The length of the longest path to each status."""
    layers = dict.fromkeys(statuses, 0)
    pairs = list(edges)
    for _ in statuses:
        changed = False
        for one, other in pairs:
            if layers[other] <= layers[one]:
                layers[other], changed = layers[one] + 1, True
        if not changed:
            break
    return layers


def _points(edge: tuple[str, str], layers: Mapping[str, int]) -> list[_Place]:
    """The status, the points and the status that an edge connects, from left to right."""
    one, other = edge
    between: list[_Place] = [(one, other, layer) for layer in range(layers[one] + 1, layers[other])]
    return [one, *between, other]


def _ordered(
    statuses: Sequence[str], edges: Mapping[tuple[str, str], bool], layers: Mapping[str, int]
) -> list[list[_Place]]:
    """The places of each layer from top to bottom, each near the places that it is connected with."""
    rows: list[list[_Place]] = [[] for _ in range(max(layers.values()) + 1)]
    for status in statuses:
        rows[layers[status]].append(status)
    before: dict[_Place, list[_Place]] = {}
    after: dict[_Place, list[_Place]] = {}
    for edge in edges:
        points = _points(edge, layers)
        for offset, point in enumerate(points[1:-1], 1):
            rows[layers[edge[0]] + offset].append(point)
        for left, right in pairwise(points):
            after.setdefault(left, []).append(right)
            before.setdefault(right, []).append(left)
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        neighbors = before if down else after
        order = range(1, len(rows)) if down else range(len(rows) - 2, -1, -1)
        for number in order:
            beside = rows[number - 1 if down else number + 1]
            place = {one: (index + 0.5) / len(beside) for index, one in enumerate(beside)}
            own = {one: (index + 0.5) / len(rows[number]) for index, one in enumerate(rows[number])}
            rows[number].sort(key=lambda one: _mean(neighbors.get(one, ()), place, own[one]))
    return rows


def _mean(neighbors: Iterable[_Place], place: Mapping[_Place, float], own: float) -> float:
    found = [place[one] for one in neighbors if one in place]
    return sum(found) / len(found) if found else own


def _heights(rows: Sequence[Sequence[_Place]]) -> tuple[dict[_Place, float], float]:
    """The vertical center of each place, and the height of it all."""
    sizes = [sum(_ROW if isinstance(one, str) else _POINT for one in row) for row in rows]
    height = max(sizes)
    ys: dict[_Place, float] = {}
    for row, size in zip(rows, sizes, strict=True):
        y = _MARGIN + (height - size) / 2
        for one in row:
            room = _ROW if isinstance(one, str) else _POINT
            ys[one] = y + room / 2
            y += room
    return ys, height + 2 * _MARGIN


def _arrow(
    pair: tuple[str, str],
    edges: Mapping[tuple[str, str], bool],
    layers: Mapping[str, int],
    xs: Mapping[int, float],
    ys: Mapping[_Place, float],
    width: float,
    status: str | None,
) -> Arrow:
    """Draw the line between two statuses: one transition, or one in each direction."""
    points = _points(pair, layers)
    x, y = xs[layers[pair[0]]] + width, ys[points[0]]
    path = [f"M{x:.1f} {y:.1f}"]
    for layer, point in enumerate(points[1:], layers[pair[0]] + 1):
        there, level = xs[layer], ys[point]
        middle = (x + there) / 2
        path.append(f"C{middle:.1f} {y:.1f} {middle:.1f} {level:.1f} {there:.1f} {level:.1f}")
        x, y = there, level
        if point != pair[1]:
            x = there + width
            path.append(f"H{x:.1f}")
    back = (pair[1], pair[0])
    tips: list[str] = []
    if pair in edges:
        tips.append(f"M{x:.1f} {y:.1f}l-7 -4v8z")
    if back in edges:
        tips.append(f"M{xs[layers[pair[0]]] + width:.1f} {ys[pair[0]]:.1f}l7 -4v8z")
    made = [edge for edge in (pair, back) if edge in edges]
    title = ", ".join(f"{one} to {other}{' by a correction' if edges[one, other] else ''}" for one, other in made)
    return Arrow(
        " ".join(path), tuple(tips), any(one == status for one, _ in made), all(edges[edge] for edge in made), title
    )
