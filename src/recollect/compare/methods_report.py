"""The report that compares continual methods: one HTML page and its pictures."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from pathlib import Path

from recollect.compare.look import STYLE
from recollect.compare.methods import (
    BASELINE,
    IMITATION,
    MethodComparison,
    MethodRuns,
    comparison_document,
    figure,
)
from recollect.continual.plots import FORGETTING, draw_bars, draw_matrix
from recollect.continual.transfer import MEASURES

_TITLES = ("method", *(name.replace("_", " ") for name in MEASURES))
_WORDS = {
    "average_performance": "mean score over all domains at the end",
    "average_incremental": "the same, mean over stages",
    "learning_accuracy": "score on a domain right after it was trained",
    "backward_transfer": "change of earlier domains since then; below 0 is loss",
    "forgetting": "loss since a domain's best score",
    "forward_transfer": "gain on a domain before its turn, against the base",
    "intransigence": "joint training minus learning accuracy",
    "single_gap": "learning accuracy minus training alone",
}


def write_comparison(found: MethodComparison, folder: Path, *, pictured: bool = True) -> list[Path]:
    """Write report.html, comparison.json and, where asked, the pictures; gives their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    pictures = _draw(found, folder) if pictured else []
    data = folder / "comparison.json"
    text = json.dumps(comparison_document(found), indent=1, allow_nan=False)
    data.write_text(text + "\n", encoding="utf-8")
    page = folder / "report.html"
    page.write_text(report_page(found, pictures), encoding="utf-8")
    return [page, data, *pictures]


def _draw(found: MethodComparison, folder: Path) -> list[Path]:
    """Draw the matrix of each method, and forgetting by method."""
    pictures = []
    for method in found.methods:
        file = folder / f"matrix-{method.name}.png"
        draw_matrix(method.mean_matrix(), file, method.name)
        pictures.append(file)
    bars = {}
    for method in found.methods:
        estimate = method.estimate("forgetting")
        if estimate is not None and estimate.point is not None:
            low = estimate.point if estimate.low is None else estimate.low
            high = estimate.point if estimate.high is None else estimate.high
            bars[method.name] = (estimate.point, low, high)
    if bars:
        draw_bars(bars, folder / FORGETTING, "Forgetting by method")
        pictures.insert(0, folder / FORGETTING)
    return pictures


def report_page(found: MethodComparison, pictures: Sequence[Path]) -> str:
    """Write the page: what each method kept, beside sequential training."""
    order = " → ".join(map(html.escape, found.domains))
    figures = "".join(
        f'<figure><img src="{html.escape(file.name)}" alt="{html.escape(file.stem)}" '
        'style="max-width:100%"></figure>'
        for file in pictures
    )
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Continual methods</title><style>{STYLE}</style><main>"
        f"<h1>Continual methods</h1><p class='soft'>Domains in order: {order}. Means over seeds "
        "with 95 % intervals; n/a where a run could not measure it.</p>"
        + (f'<div class="verdict"><p>{found.warning}</p></div>' if found.warning else "")
        + f"<h2>What was reached and kept</h2>{_table(found)}"
        f"<h2>Against {BASELINE}, or {IMITATION} where that is protected</h2>{_against(found)}"
        f"<h2>What differs between the methods</h2>{_settings(found)}"
        + (f"<h2>Pictures</h2><div class='charts'>{figures}</div>" if pictures else "")
        + f"<h2>What the columns mean</h2>{_words()}</main></html>\n"
    )


def _table(found: MethodComparison) -> str:
    rows = [
        [method.name, *(figure(method.estimate(name)) for name in MEASURES)]
        for method in found.methods
    ]
    return _html_table(_TITLES, rows)


def _against(found: MethodComparison) -> str:
    others = [method for method in found.methods if found.baseline(method) is not None]
    rows = [_differences(found, method) for method in others]
    if not rows:
        return f"<p>There is no {BASELINE} or {IMITATION} run to compare with.</p>"
    return _html_table(_TITLES, rows)


def _differences(found: MethodComparison, method: MethodRuns) -> list[str]:
    return [method.name, *(figure(found.against(method, name), "+") for name in MEASURES)]


def _settings(found: MethodComparison) -> str:
    """List the settings in which a method's runs were trained unlike those it stands beside."""
    tables = [
        _html_table(
            ["setting", method.name, other.name],
            [[change.key, change.after or "-", change.before or "-"] for change in changes],
        )
        for method, other, changes in found.differences()
    ]
    same = "Everything else" if tables else "Everything"
    note = f"{same} that could change a score is the same, but for the methods' own settings."
    return "".join(tables) + f'<p class="soft">{note}</p>'


def _html_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{html.escape(title)}</th>" for title in titles)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>'


def _words() -> str:
    items = "".join(
        f"<li><b>{html.escape(name.replace('_', ' '))}</b>: {html.escape(text)}</li>"
        for name, text in _WORDS.items()
    )
    return f"<ul>{items}</ul>"
