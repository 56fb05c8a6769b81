"""Small charts as SVG text: lines with bands, and pairs by seed. Colours come from the page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from recollect.compare.bands import Band
from recollect.compare.statistics import Floats

WIDTH, HEIGHT = 520, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 18, 12, 42
_TAGS = 58  # room on the right for what is written at the ends of lines
_WIDE = 50  # from smallest to largest: so far apart, ratios are drawn and not differences
_FEW = 25  # so few points are marked, to show where somebody measured
_DASHES = ("", "6 3", "2 3", "8 3 2 3")


@dataclass(frozen=True, slots=True)
class Scale:
    """From values to places on the picture.

    `percent` writes shares as percent. `log` puts equal ratios at equal distances.
    """

    low: float
    high: float
    start: float
    end: float
    percent: bool = False
    log: bool = False

    def at(self, value: float) -> float:
        """Place a value."""
        if self.log:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)

    def ticks(self, wanted: int) -> list[float]:
        """Round numbers within the scale, about as many as wanted."""
        if self.log:
            first, last = math.ceil(math.log10(self.low)), math.floor(math.log10(self.high))
            return [10.0**power for power in range(first, last + 1)]
        step = nice_step(self.high - self.low, wanted)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [number * step for number in range(first, last + 1)]

    def spell(self, value: float) -> str:
        """Write a tick."""
        if self.percent:
            return f"{100 * value:.0f}%"
        if value == 0 or 0.001 <= abs(value) < 1_000_000:
            return f"{value:,.0f}" if value == round(value) else f"{value:.3g}"
        return f"{value:.1e}"


def nice_step(width: float, wanted: int) -> float:
    """Divide a width into about so many steps of 1, 2, 2.5 or 5 times a power of ten."""
    rough = width / max(1, wanted)
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * by for by in (1, 2, 2.5, 5, 10) if power * by >= rough * 0.999)


def line_chart(
    bands: Sequence[Band], *, x: str, y: str, percent: bool = False, target: float | None = None
) -> str:
    """Draw bands: a line for the mean, an area for the range, thin lines for the seeds.

    With `percent` the vertical axis goes from 0 to 100 %. `target` is a dashed line across.
    """
    if not bands:
        return ""
    tags = list(dict.fromkeys(band.tag for band in bands))
    right = WIDTH - (_RIGHT if tags == [""] else _TAGS)
    across = _scale([t.x for b in bands for t in b.threads], _LEFT, right, from_zero=True)
    if percent:
        up = Scale(0.0, 1.0, HEIGHT - _BOTTOM, _TOP, percent=True)
    else:
        up = _scale([t.y for b in bands for t in b.threads], HEIGHT - _BOTTOM, _TOP)
    parts = [*_axes(across, up, x, y)]
    if target is not None:
        place = up.at(target)
        parts.append(_line(_LEFT, place, WIDTH - _RIGHT, place, "target"))
        below = place - _TOP < 16  # there is no room above
        parts.append(_text(_LEFT + 5, place + (15 if below else -5), "target", "note", "start"))
    for band in bands:
        parts += _band(band, across, up, _DASHES[tags.index(band.tag) % len(_DASHES)])
    parts += _tags(bands, across, up)
    return _picture(parts, HEIGHT, f"{y} over {x}")


@dataclass(frozen=True, slots=True)
class Dot:
    """One run in a chart of pairs; `reached` False: the value is only a lower bound."""

    label: str
    place: int
    value: float
    reached: bool


def pairs_chart(rows: Sequence[tuple[str, Sequence[Dot]]], *, x: str) -> str:
    """Draw one row per seed with a dot per arm; an open dot with an arrow never got there."""
    height = _TOP + 30 * len(rows) + _BOTTOM
    most = max((dot.value for _, dots in rows for dot in dots), default=0.0)
    across = Scale(0.0, (most or 1.0) * 1.06, _LEFT + 10, WIDTH - _RIGHT)
    parts = []
    for tick in across.ticks(6):
        parts.append(_line(across.at(tick), _TOP, across.at(tick), height - _BOTTOM, "grid"))
        label = across.spell(tick)
        parts.append(_text(across.at(tick), height - _BOTTOM + 16, label, "tick", "middle"))
    parts.append(_text((_LEFT + WIDTH) / 2, height - 6, x, "name", "middle"))
    for row, (label, dots) in enumerate(rows):
        up = _TOP + 30 * row + 15.0
        parts.append(_text(_LEFT, up + 4, label, "tick", "end"))
        places = [across.at(dot.value) for dot in dots]
        parts.append(_line(min(places), up, max(places), up, "tie"))
        apart = 8.0 if len(dots) < 4 else 24.0 / len(dots)  # or one dot would hide another
        first = up - apart * (len(dots) - 1) / 2
        for number, (dot, place) in enumerate(zip(dots, places, strict=True)):
            parts.append(_dot(dot, place, first + apart * number))
    return _picture(parts, height, f"{x}, by seed")


def _dot(dot: Dot, x: float, up: float) -> str:
    name = f"{dot.label}: {'' if dot.reached else 'more than '}{dot.value:,.0f}"
    title = f"<title>{escape(name)}</title>"
    if dot.reached:
        return f'<circle class="dot c{dot.place}" cx="{x}" cy="{up}" r="5.5">{title}</circle>'
    arrow = f'<path class="arrow c{dot.place}" d="M{x + 5.5} {up}h11m-4 -4l4 4l-4 4"/>'
    circle = f'<circle class="open c{dot.place}" cx="{x}" cy="{up}" r="5.5">{title}</circle>'
    return arrow + circle


def _scale(values: Sequence[Floats], start: float, end: float, *, from_zero: bool = False) -> Scale:
    low = min(float(part.min()) for part in values)
    high = max(float(part.max()) for part in values)
    if not from_zero and 0 < _WIDE * low < high:
        return Scale(low / 1.2, high * 1.2, start, end, log=True)
    if from_zero or 0 < low < 0.5 * high:
        low = min(0.0, low)
    if low == high:
        around = max(0.5, 1e-3 * abs(low))  # half a unit is nothing beside a huge number
        low, high = (low - around, high + around) if low else (0.0, 1.0)
    margin = 0.04 * (high - low)
    return Scale(
        low if low == 0 else low - margin, high if from_zero else high + margin, start, end
    )


def _axes(across: Scale, up: Scale, x: str, y: str) -> list[str]:
    parts = []
    for tick in up.ticks(5):
        parts.append(_line(_LEFT, up.at(tick), WIDTH - _RIGHT, up.at(tick), "grid"))
        parts.append(_text(_LEFT - 7, up.at(tick) + 4, up.spell(tick), "tick", "end"))
    for tick in across.ticks(6):
        parts.append(_line(across.at(tick), HEIGHT - _BOTTOM, across.at(tick), HEIGHT - _BOTTOM + 4,
                           "axis"))  # fmt: skip
        label = across.spell(tick)
        parts.append(_text(across.at(tick), HEIGHT - _BOTTOM + 17, label, "tick", "middle"))
    parts.append(_line(_LEFT, HEIGHT - _BOTTOM, WIDTH - _RIGHT, HEIGHT - _BOTTOM, "axis"))
    parts.append(_text((_LEFT + WIDTH - _RIGHT) / 2, HEIGHT - 6, x, "name", "middle"))
    return parts


def _band(band: Band, across: Scale, up: Scale, dash: str) -> list[str]:
    colour = f"c{band.place}"
    parts = []
    if len(band.threads) > 1:
        top = _points(band.x, band.high, across, up)
        bottom = _points(band.x[::-1], band.low[::-1], across, up)
        parts.append(f'<polygon class="area {colour}" points="{top} {bottom}"/>')
        for thread in band.threads if not band.tag else ():
            parts.append(_polyline(thread.x, thread.y, across, up, f"thread {colour}"))
    style = f' stroke-dasharray="{dash}"' if dash else ""
    parts.append(_polyline(band.x, band.mean, across, up, f"mean {colour}", style))
    if len(band.x) <= _FEW:
        for x, y in zip(band.x.tolist(), band.mean.tolist(), strict=True):
            name = escape(f"{band.label} {band.tag}: {up.spell(y)} at {across.spell(x)}")
            place = f'cx="{across.at(x)}" cy="{up.at(y)}"'
            parts.append(
                f'<circle class="dot {colour}" {place} r="2.6"><title>{name}</title></circle>'
            )
    return parts


def _tags(bands: Sequence[Band], across: Scale, up: Scale) -> list[str]:
    """Write tags behind the ends of lines, pushed apart where they would cover each other."""
    ends = [
        (up.at(float(band.mean[-1])), across.at(float(band.x[-1])), band)
        for band in bands
        if band.tag and len(band.x)
    ]
    parts, lowest = [], -math.inf
    for y, x, band in sorted(ends, key=lambda end: end[0]):
        lowest = max(y + 4, lowest + 12)
        parts.append(_text(x + 6, lowest, band.tag[:8], f"tag c{band.place}", "start"))
    return parts


def _points(x: Floats, y: Floats, across: Scale, up: Scale) -> str:
    pairs = zip(x.tolist(), y.tolist(), strict=True)
    return " ".join(f"{across.at(a)},{up.at(b)}" for a, b in pairs)


def _polyline(x: Floats, y: Floats, across: Scale, up: Scale, kind: str, style: str = "") -> str:
    return f'<polyline class="{kind}"{style} points="{_points(x, y, across, up)}"/>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>'


def _text(x: float, y: float, text: str, kind: str, anchor: str) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text class="{kind}" {place}>{escape(text)}</text>'


def _picture(parts: Sequence[str], height: int, about: str) -> str:
    head = f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(about)}">'
    return head + "".join(parts) + "</svg>"
