"""The compact lines of a run: one per step, one per evaluation, and tables of scores.

Pure functions from events to text without escape codes; `console` and `progress` show them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from recollect.redaction import redact_text
from recollect.telemetry.events import EvaluationFinished, Field, StepFinished
from recollect.telemetry.names import METRICS
from recollect.telemetry.scores import Score, by_domain, pool
from recollect.telemetry.spelling import decimal, percent, seconds, whole

_SEPARATOR = " | "
_MOST_DOMAINS = 6  # more of them go into the table only


def _four(value: float) -> str:
    return decimal(value, 4)


def _three(value: float) -> str:
    return decimal(value, 3)


def _times(value: float) -> str:
    return f"{decimal(value, 1)}x"


# Label, metrics (the first that is there counts), spelling.
_FIELDS: tuple[tuple[str, tuple[str, ...], Callable[[float], str]], ...] = (
    ("loss", ("train/loss",), _four),
    ("reward", ("reward/mean",), _three),
    ("kl", ("policy/kl",), _four),
    ("rollouts", ("rollout/rows_total", "rollout/rows"), whole),
    ("BUF", ("replay/pool_rows",), whole),
    ("EFF", ("replay/ratio",), _times),
)
# A run with a critic shows these as one word, as seed 003 does: PL:0.32 VL:0.12 R:1.56 BUF:450.
_PPO = "critic/loss"
_PPO_FIELDS: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("PL", "train/loss", _four),
    ("VL", _PPO, _four),
    ("R", "reward/mean", _three),
    ("BUF", "replay/pool_rows", whole),
    ("EFF", "replay/ratio", _times),
)
_IN_THE_WORD = {name for _, name, _ in _PPO_FIELDS}
# Shown only when there is something to show.
_TROUBLES = (
    ("skipped", "train/skipped_steps"),
    ("failed", "rollout/failed"),
    ("drops", "health/sink_drops"),
)
_ON_THE_LINE = {name for _, names, _ in _FIELDS for name in names} | {"time/step", _PPO}


def join_fields(fields: Sequence[Field]) -> str:
    """Write label and text pairs on one line; a pair without a label is its text."""
    return _SEPARATOR.join(f"{label} {text}".strip() for label, text in fields)


def step_fields(metrics: Mapping[str, float]) -> list[Field]:
    """Pick what a step's line and the bar show."""
    found = []
    known = metrics
    if _PPO in metrics:
        words = [f"{label}:{spell(metrics[n])}" for label, n, spell in _PPO_FIELDS if n in metrics]
        found.append(("", " ".join(words)))
        known = {name: value for name, value in metrics.items() if name not in _IN_THE_WORD}
    for label, names, spell in _FIELDS:
        value = next((known[name] for name in names if name in known), None)
        if value is not None:
            found.append((label, spell(value)))
    for label, name in _TROUBLES:
        if metrics.get(name, 0) != 0:
            found.append((label, whole(metrics[name])))
    return found


def step_line(event: StepFinished) -> str:
    """Write `step 12/60 | loss 0.0123 | reward 0.456 | kl 0.0012 | rollouts 768 | 1.2 s`."""
    fields = [("step", f"{event.step}/{event.steps}")]
    fields += step_fields(event.metrics)
    if "time/step" in event.metrics:
        fields.append(("", seconds(event.metrics["time/step"])))
    return join_fields(fields)


def detail_lines(metrics: Mapping[str, float]) -> list[str]:
    """Write every other metric of a step, one line per room, in the order of the table."""
    order = {metric.name: place for place, metric in enumerate(METRICS)}
    rooms: dict[str, list[Field]] = {}
    for name in sorted(metrics, key=lambda name: (order.get(name, len(order)), name)):
        if name not in _ON_THE_LINE:
            room, _, rest = name.partition("/")
            rooms.setdefault(room, []).append((rest, _short(name, metrics[name])))
    return [f"    {room}: {join_fields(fields)}" for room, fields in rooms.items()]


def _short(name: str, value: float) -> str:
    if name.startswith("time/"):
        return f"{decimal(value, 3)} s"
    return whole(value) if float(value).is_integer() else decimal(value, 4)


def evaluation_line(event: EvaluationFinished) -> str:
    """Write `[EVAL] step 20 | success 45.6% (floor 3.1%) | airline 50.0% | ... | n 300`."""
    total, domains = pool(event.scores), by_domain(event.scores)
    floor = "" if total.floor is None else f" (floor {percent(total.floor)})"
    fields = [("[EVAL] step", str(event.step)), ("success", percent(total.success) + floor)]
    if total.reward is not None:
        fields.append(("reward", _reward(total)))
    if 1 < len(domains) <= _MOST_DOMAINS:
        fields += [(redact_text(score.domain), percent(score.success)) for score in domains]
    if event.guided:
        fields.append(("with notes", percent(pool(event.guided).success)))
    fields.append(("n", whole(total.n)))
    if event.seconds is not None:
        fields.append(("", seconds(event.seconds)))
    return join_fields(fields)


def evaluation_table(
    event: EvaluationFinished, before: EvaluationFinished | None = None
) -> list[str]:
    """Write scores per domain and level, sums included, beside floors and an earlier score."""
    earlier = {(s.domain, s.level): s for s in _with_sums(before.scores)} if before else {}
    titles = ["domain", "level", "n", "before", "success", "95% interval", "floor", "reward"]
    rows = [_cells(score, earlier) for score in _with_sums(event.scores)]
    kept = [
        place
        for place, title in enumerate(titles)
        if title not in ("before", "floor", "reward") or any(row[place] != "-" for row in rows)
    ]
    table = [[row[place] for place in kept] for row in [titles, *rows]]
    widths = [max(len(row[place]) for row in table) for place in range(len(kept))]
    return ["  " + _aligned(row, widths) for row in table]


def _with_sums(scores: Sequence[Score]) -> list[Score]:
    """Follow each domain's levels by their sum, and several domains by the sum of all."""
    found: list[Score] = []
    domains = by_domain(scores)
    for total in domains:
        cells = [score for score in scores if score.domain == total.domain]
        found += cells
        if len(cells) > 1:
            found.append(total)
    return found + ([pool(scores)] if len(domains) > 1 else [])


def _cells(score: Score, earlier: Mapping[tuple[str, int | None], Score]) -> list[str]:
    before = earlier.get((score.domain, score.level))
    interval = score.interval()
    return [
        redact_text(score.domain, most=40),
        "all" if score.level is None else str(score.level),
        whole(score.n),
        percent(before.success) if before else "-",
        percent(score.success),
        f"{percent(interval[0])} - {percent(interval[1])}" if interval else "-",
        percent(score.floor),
        _reward(score) if score.reward is not None else "-",
    ]


def _reward(score: Score) -> str:
    assert score.reward is not None
    spread = "" if score.reward_std is None else f"±{decimal(score.reward_std, 3)}"
    return decimal(score.reward, 3) + spread


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = (
        text.rjust(width) if place else text.ljust(width)
        for place, (text, width) in enumerate(zip(row, widths, strict=True))
    )
    return "  ".join([first, *others]).rstrip()
