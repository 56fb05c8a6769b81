"""report.html: one file without scripts or anything from outside, for light and dark."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from recollect.compare.arms import differences
from recollect.compare.bands import Band, Panel, metric_band, metric_panels, success_band
from recollect.compare.document import versions
from recollect.compare.look import COLOURS, STYLE
from recollect.compare.measures import Reach
from recollect.compare.note_table import note_table
from recollect.compare.spelling import Spell, estimate, interval, points, seeds, times
from recollect.compare.statistics import RESAMPLES, Estimate
from recollect.compare.study import Study
from recollect.compare.svg import Dot, line_chart, pairs_chart
from recollect.compare.tables import TextTable, arm_table, run_table, tuning_table
from recollect.compare.verdict import verdict
from recollect.redaction import redact
from recollect.telemetry.names import METRICS, find_metric
from recollect.telemetry.reading import read_metrics

FILE_NAME = "report.html"
# Every metric of these rooms is drawn, whatever it is called.
_ROOMS = {"replay/": "Replay", "critic/": "Critic", "notes/": "Notes"}
_BRACKETS = re.compile(r"(\[[^\]]*\])")


def write_report(study: Study) -> Path:
    """Write report.html into the study's folder."""
    path = study.folder / FILE_NAME
    path.write_text(report_page(study), encoding="utf-8")
    return path


def report_page(study: Study) -> str:
    """Build the page. The same study gives the same text."""
    found = study.comparison
    title = f"{found.arm} against {found.baseline}"
    body = [
        f"<h1>{escape(title)}</h1>",
        _subject(study),
        f'<div class="verdict"><p>{escape(verdict(study))}</p></div>',
        _cards(study),
        "<h2>Measures</h2>",
        _table(arm_table(study)),
        "<h2>Learning</h2>",
        _legend(study),
        f'<div class="charts">{"".join(_learning(study))}</div>',
        *(_room(study, room) for room in _ROOMS),
        _used_notes(study),
        _tuning(study),
        "<h2>What differs between the arms</h2>",
        _settings(study),
        "<h2>Every run</h2>",
        _table(run_table(study)),
        "<h2>How to read this</h2>",
        _notes(study),
        "<h2>To do it again</h2>",
        _commands(study),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n"
        "<body><main>\n" + "\n".join(body) + "\n</main></body></html>\n"
    )


def _subject(study: Study) -> str:
    config = study.arms[0].config
    parts = [
        f"{config.model.name} on {config.environment.name}",
        f"{len(study.seeds)} seeds ({seeds(study.seeds)})",
        f"{config.run.steps} steps",
        "each arm at its best" if study.tuned else "same settings, not tuned",
    ]
    return f'<p class="soft">{escape(" · ".join(parts))}</p>'


def _cards(study: Study) -> str:
    found = study.comparison
    goal = f"{100 * study.target:g}%"
    pair = f"{found.baseline} / {found.arm}"
    at_once = study.arms[0].summary.rollouts_to_target.point == 0
    never = "too many runs were there at once" if at_once else "too many runs never got there"
    unknown = "a run was not examined often enough"
    return (
        '<div class="cards">'
        + _card(f"Rollouts to {goal}, {pair}", found.rollouts.medians, times, "&times;", never)
        + _card(f"Training time to {goal}, {pair}", found.seconds.medians, times, "&times;", never)
        + _card("Final success, points", found.final.estimate, points, "", unknown)
        + _card("Success while learning, points", found.area.estimate, points, "", unknown)
        + "</div>"
    )


def _card(title: str, value: Estimate, spell: Spell, unit: str, why: str) -> str:
    """Show a figure with its interval; where it is undefined, why."""
    point = "undefined" if value.point is None else escape(spell(value.point)) + unit
    bounds = interval(value, spell).strip("[]").replace(", ", " to ")
    if value.point is None:
        below = why
    else:
        below = f"95% interval {bounds}" if bounds else "no interval from one seed"
    return (
        f'<div class="card"><small>{escape(title)}</small><b>{point}</b>'
        f"<small>{escape(below)}</small></div>"
    )


def _table(table: TextTable, kind: str = "", best: int = -1) -> str:
    head = "".join(f"<th>{escape(title)}</th>" for title in table.titles)
    rows = [f"<tr>{head}</tr>"]
    for number, row in enumerate(table.rows):
        mark = ' class="best"' if number == best else ""
        rows.append(f"<tr{mark}>{''.join(f'<td>{_cell(cell)}</td>' for cell in row)}</tr>")
    return f'<div class="wide {kind}"><table>{"".join(rows)}</table></div>'


def _cell(text: str) -> str:
    """Escape a cell; intervals step back behind the figure, indented rows keep their indent."""
    indent = "&emsp;" if text.startswith("  ") else ""
    return indent + _BRACKETS.sub(r"<i>\1</i>", escape(text.strip()))


def _legend(study: Study) -> str:
    keys = "".join(
        f'<span><span class="key c{place % COLOURS}"></span>{escape(result.arm.name)}</span>'
        for place, result in enumerate(study.arms)
    )
    note = "Lines are means over the seeds, bands run from the lowest to the highest seed."
    return f'<p class="legend">{keys}</p><p class="soft">{note}</p>'


def _learning(study: Study) -> list[str]:
    charts = []
    axes = (
        ("rollouts generated", lambda point: point.rollouts, "by generated rollouts"),
        ("seconds of training", lambda point: point.seconds, "by training time"),
    )
    for name, axis, words in axes:
        made = [
            success_band(result.arm.name, place % COLOURS, result.curves, axis)
            for place, result in enumerate(study.arms)
        ]
        bands = [band for band in made if band is not None]
        chart = line_chart(bands, x=name, y="held-out success", percent=True, target=study.target)
        charts.append(_figure(f"Held-out success, {words}", "", chart))
    goal = f"{100 * study.target:g}%"
    words = "one row per seed; an open dot with an arrow never got there"
    chart = pairs_chart(_pairs(study), x=f"rollouts generated until {goal} held-out success")
    charts.append(_figure(f"Rollouts to {goal}, seed by seed", words, chart))
    return charts


def _pairs(study: Study) -> list[tuple[str, list[Dot]]]:
    def dot(name: str, place: int, reached: Reach) -> Dot:
        value = reached.within if reached.value is None else reached.value
        return Dot(name, place % COLOURS, value, reached.value is not None)

    return [
        (
            f"seed {seed}",
            [
                dot(result.arm.name, place, result.runs[row].rollouts_to_target)
                for place, result in enumerate(study.arms)
            ],
        )
        for row, seed in enumerate(study.seeds)
    ]


def _room(study: Study, room: str) -> str:
    """Draw whatever the arms log about a room, over training steps."""
    logged = [
        (
            result.arm.name,
            place % COLOURS,
            [(run.seed, read_metrics(run.path)) for run in result.runs],
        )
        for place, result in enumerate(study.arms)
    ]
    names = {n for _, _, runs in logged for _, run in runs for n in run.names()}
    figures, flat = [], []
    for panel in metric_panels(_in_order(name for name in names if name.startswith(room))):
        made = [
            metric_band(label, place, runs, name, tag)
            for name, tag in panel.members
            for label, place, runs in logged
        ]
        bands = [band for band in made if band is not None]
        if any(thread.y.any() for band in bands for thread in band.threads):
            figures.append(_panel(panel, bands, room))
        elif bands:
            flat.append(panel.title.removeprefix(room))
    if not figures:
        return ""
    rest = f'<p class="soft">0 in every step: {escape(", ".join(flat))}.</p>' if flat else ""
    return f'<h2>{_ROOMS[room]}</h2><div class="charts">{"".join(figures)}</div>{rest}'


def _used_notes(study: Study) -> str:
    """List the notes that were used most, with what they did."""
    table = note_table(study)
    if not table.rows:
        return ""
    words = (
        "The notes that most attempts had, in the stores of all seeds. Without: attempts of the "
        "same groups that had none. Gain in percentage points, with its 95% interval."
    )
    return f'<p class="soft">{escape(words)}</p>{_table(table, "words")}'


def _in_order(names: Iterable[str]) -> list[str]:
    """Sort names as the table of metrics does; what it does not know comes last."""
    order = {metric.name: place for place, metric in enumerate(METRICS)}

    def place(name: str) -> tuple[int, str]:
        metric = find_metric(name)
        return (len(order) if metric is None else order[metric.name], name)

    return sorted(names, key=place)


def _panel(panel: Panel, bands: Sequence[Band], room: str) -> str:
    metrics = [(tag, find_metric(name)) for name, tag in panel.members]
    texts = {tag: metric.text for tag, metric in metrics if metric is not None}
    unit = next((metric.unit for _, metric in metrics if metric is not None), "")
    # Of the seeds, not of their range: seeds that have no step in common have none.
    drawn = [thread.y for band in bands for thread in band.threads]
    percent = unit == "share" and all(y.min() >= 0 and y.max() <= 1 for y in drawn)
    chart = line_chart(bands, x="training step", y=unit or panel.title, percent=percent)
    same = len(set(texts.values())) == 1 and len(texts) == len(metrics)
    words = next(iter(texts.values())) if same else " ".join(f"{t}: {w}" for t, w in texts.items())
    return _figure(panel.title.removeprefix(room), words, chart)


def _figure(title: str, words: str, chart: str) -> str:
    below = f"<span>{escape(words)}</span>" if words else ""
    return f"<figure><figcaption>{escape(title)}{below}</figcaption>{chart}</figure>"


def _tuning(study: Study) -> str:
    if not study.tuned:
        return ""
    parts = [
        "<h2>Tuning</h2>",
        f'<p class="soft">Every arm tried its grid on seeds {seeds(study.tuning_seeds)}, '
        "which are not those of the comparison. Chosen: the largest area under held-out success "
        "over generated rollouts, mean of the tuning seeds.</p>",
    ]
    for result in study.arms:
        tuned = result.tuned
        assert tuned is not None
        parts.append(f"<p><b>{escape(result.arm.name)}</b></p>")
        parts.append(_table(tuning_table(result), best=tuned.trials.index(tuned.best)))
    return "".join(parts)


def _settings(study: Study) -> str:
    base = study.arms[-1]
    parts = []
    for result in study.arms[:-1]:
        changes = differences(base.config, result.config)
        rows = tuple((c.key, c.after or "-", c.before or "-") for c in changes)
        titles = ("setting", result.arm.name, base.arm.name)
        parts.append(_table(TextTable(titles, rows), "words"))
    return "".join(parts) + '<p class="soft">Everything else is the same, the seeds included.</p>'


def _notes(study: Study) -> str:
    goal, span = f"{100 * study.target:g}%", study.span
    restricted = estimate(study.comparison.rollouts.restricted, times)
    notes = [
        f"<b>Rollouts to {goal}</b>: rollouts generated before the first evaluation whose success "
        f"over all held-out tasks reaches {goal}. Replayed rows are not generated: they do not "
        "count.",
        "<b>Never reached</b> is shown as “> N”. In medians it counts as infinite; a ratio of two "
        "infinite medians is undefined, never 0 or 1. Intervals take it for just above N where "
        "that claims less. Restricted means cut every run at "
        f"{span.last:,.0f} rollouts instead ({escape(restricted)} here): they have a value even "
        "then, but say less where many runs never got there.",
        "<b>Training time</b> is the sum of time/step: evaluations and checkpoints are not in it. "
        + _load(study.jobs),
        f"<b>Success while learning</b> is the area under success over generated rollouts from "
        f"{span.first:,.0f} to {span.last:,.0f}, which every run has measured, divided by the "
        "width.",
        f"<b>Intervals</b> are bootstrap percentiles ({RESAMPLES:,} resamples of seeds, pairs kept "
        "together; for means, which few seeds make too narrow, with expanded tails). Five seeds "
        "are few: look at the seeds themselves too, and at how many of them agree.",
    ]
    return f"<ul>{''.join(f'<li>{note}</li>' for note in notes)}</ul>"


def _load(jobs: int) -> str:
    if jobs == 1:
        return "One run was trained at a time."
    return f"{jobs} runs were trained at a time and slowed each other down."


def _commands(study: Study) -> str:
    lines = [study.command]
    for result in study.arms:
        flags = " ".join(shlex.quote(flag) for flag in (*study.settings, *result.arm.settings))
        seed = f"run.seed={study.seeds[0]}"
        source = study.source or "CONFIG"
        words = ["recollect train", shlex.quote(source), flags, seed]
        lines += ["", f"# one run of {result.arm.name}", " ".join(word for word in words if word)]
    text = escape("\n".join(redact(line) for line in lines))
    made = ", ".join(f"{name} {value}" for name, value in versions().items() if value)
    return f'<pre>{text}</pre><p class="soft">{escape(made)}</p>'
