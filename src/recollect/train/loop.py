"""The training loop: plan, collect, draw, commit, score, update, record; then evaluate and save.

Read `train` from top to bottom; each phase is one call. Fresh rows are durable before anything
trains on them, and what a step decided is recorded in one transaction after the optimiser has
stepped. A run that is killed anywhere goes on from its newest checkpoint as if nothing had
happened, because every decision is a function of (seed, step) and of the weights.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from recollect.ledger import Cursor, Event, Group, Mark, Score, TaskState
from recollect.notes.inject import NOTHING
from recollect.replay.controller import Measured
from recollect.rollout.collector import Collected, check_failures
from recollect.rollout.episode import Request
from recollect.rollout.round import Failure
from recollect.store.records import Batch as StoreBatch
from recollect.telemetry import events
from recollect.train.batch import Batch
from recollect.train.checkpoint import prune_checkpoints, save_checkpoint
from recollect.train.critic_metrics import critic_metrics
from recollect.train.drawn import Drawn
from recollect.train.exporting import export_model
from recollect.train.interrupts import Interrupts
from recollect.train.left_out import lost_event, lost_warning
from recollect.train.metrics import step_metrics
from recollect.train.note_metrics import note_metrics
from recollect.train.plan import Plan, make_plan
from recollect.train.replay_metrics import replay_metrics
from recollect.train.replaying import (
    drifted,
    left_out_scores,
    measured_of,
    results_of,
    scores_of,
    uses_of,
)
from recollect.train.report import UpdateReport
from recollect.train.scoring import as_stored, score
from recollect.train.session import Session, checkpoint_state
from recollect.train.views import Views, views_of
from recollect.types import Sampling, StopReason, group_id

_MOST_REASONS = 5  # that are said of one kind of trouble; the store has those of episodes all


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended: the last step done, and the signal that stopped it early, if any."""

    step: int
    signal: int | None


def train(s: Session, clock: Callable[[], float] = time.perf_counter) -> Outcome:
    """Train until the last step, or until somebody interrupts."""
    config, step, saved = s.config, s.done, s.done
    steps = config.run.steps
    with Interrupts(s.ranks.signal) as interrupts:
        if step == 0 and config.eval.at_start:
            _evaluate(s, 0, clock)
        while step < steps and interrupts.signal is None:
            step += 1
            watch = _Stopwatch(s, step, clock)
            with watch("plan"):
                plan = _plan(s, step)
                requests = _requests(s, step, plan)
            with watch("collect"):
                collected = _collect(s, step, requests)
            with watch("draw"):
                drawn = _draw(s, step, plan, collected)
            with watch("commit"):
                _commit(s, step, plan, collected, drawn)
            check_failures(collected, config.rollout.max_failed_share)
            with watch("score"):
                views = views_of(config, step, plan.tasks, collected.trajectories, drawn)
                drawn = views.drawn
                old = drifted(s.learner, drawn.every, config.correction.drop_above)
                batch = _score(s, views, drawn.without(old))
            with watch("update"):
                report = _update(s, step, batch)
            if s.companion is not None:
                s.companion.trained(step, batch)
            with watch("record"):
                left_out = left_out_scores(s.run, step, drawn, old)
                measured = measured_of(report.replayed, drawn, old)
                _record(s, step, collected, batch, report, left_out, measured)
            metrics = {
                **step_metrics(plan.tasks, collected, batch, report, watch.seconds, s.totals),
                "time/processor": watch.processor,
                **critic_metrics(batch, report),
                **replay_metrics(s.replayer, drawn, batch, report, s.totals),
                **note_metrics(s.notes, collected.trajectories, batch, report),
                **(s.companion.metrics() if s.companion is not None else {}),
            }
            s.sink.emit(events.StepFinished(step, steps, metrics))
            if _due(config.eval.every, step) or step == steps:
                _evaluate(s, step, clock)
            if _due(config.checkpoint.every, step):
                _save(s, step)
                saved = step
        if saved < step:
            _save(s, step)
    if step == steps and config.model.lora.merge:
        export_model(s.folder, s.folder.model, overwrite=True)
    return Outcome(step, interrupts.signal if step < steps else None)


def _plan(s: Session, step: int) -> Plan:
    """Pick the step's tasks, and the stored rows that join their groups."""
    if s.notes is not None:
        s.notes.begin(step)
        for reason in s.notes.harvest.failed:
            _tell(s, "A note was not written", reason)
    if s.replayer is not None:
        s.replayer.begin(step, s.config.run.steps, s.learner.version)
    tasks = s.config.rollout.tasks_per_step
    plan, s.totals.position = make_plan(step, tasks, s.schedule, s.totals.position, s.replayer)
    return plan


def _requests(s: Session, step: int, plan: Plan) -> list[Request]:
    """Ask for the fresh rows of each task, under the policy as it is now; some get notes."""
    wanted = plan.fresh_rows(s.config.rollout.rows_per_task)
    guidance = s.notes.guidance(step, wanted) if s.notes is not None else {}
    _tell_troubles(s)
    return [
        Request.of(
            task,
            s.run,
            step,
            row,
            policy_version=s.learner.version,
            seed=s.config.run.seed,
            guidance=guidance.get((task.key, row), NOTHING),
        )
        for task, rows in wanted
        for row in range(rows)
    ]


def _collect(s: Session, step: int, requests: list[Request]) -> Collected:
    r = s.config.rollout
    sampling = Sampling(r.temperature, r.top_p, r.top_k, r.max_turn_tokens)
    collected = s.collector.collect(requests, sampling, _motion(s, step, len(requests)))
    s.totals.rows += len(collected.trajectories)
    s.totals.failed += len(collected.failures)
    _tell_failures(s, collected.failures)
    return collected


def _draw(s: Session, step: int, plan: Plan, collected: Collected) -> Drawn:
    """Choose stored rows, now that it is known which groups need them."""
    if s.replayer is None:
        return Drawn()
    picks = [*plan.picks, *s.replayer.repair(collected.trajectories)]
    s.totals.saved += len(plan.picks)
    drawn = Drawn(tuple(picks), tuple(map(tuple, s.replayer.buffer())))
    for warning in lost_warning(step, s.replayer.lost, s.store.path):
        s.sink.emit(warning)
    return drawn


def _commit(s: Session, step: int, plan: Plan, collected: Collected, drawn: Drawn) -> None:
    """Make fresh rows and draws durable before anything trains on them; have them distilled."""
    version, fresh = s.learner.version, collected.trajectories
    lost = s.replayer.lost if s.replayer is not None else {}
    s.store.commit(
        StoreBatch(
            tasks=plan.tasks,
            groups=[
                Group(group_id(s.run, step, task.key), s.run, step, task.key, version)
                for task in plan.tasks
            ],
            trajectories=fresh,
            note_trials=s.notes.trials(step, fresh) if s.notes is not None else (),
            draws=[pick.draw(s.run, step) for pick in drawn.every],
            events=[
                *(_failed(s, step, failure) for failure in collected.failures),
                *lost_event(s.run, step, lost),
            ],
        )
    )
    if s.notes is not None:
        s.notes.submit(step, plan.tasks, fresh)


def _score(s: Session, views: Views, drawn: Drawn) -> Batch:
    """Compare the rows of each group as they will train, stored ones too; or ask the critic."""
    config, fresh, picks = s.config, views.fresh, drawn.grouped
    if s.crediting is not None:
        return views.marked(s.crediting.score(fresh, drawn))
    penalties = s.learner.penalties([*fresh, *(pick.trajectory for pick in picks)])
    baseline_only = config.replay.participation == "baseline"
    batch = score(fresh, config.algo.advantage, penalties, picks, baseline_only)
    return views.marked(replace(batch, extra=as_stored(drawn.updates)))


def _update(s: Session, step: int, batch: Batch) -> UpdateReport:
    report = s.learner.update(
        batch,
        step,
        lambda done, total: s.sink.emit(events.MinibatchFinished(step, done, total)),
    )
    used = len(report.replayed.uses) if report.replayed else 0
    s.totals.skipped += report.skipped
    s.totals.trained += report.rows
    s.totals.replayed += used
    return report


def _record(
    s: Session,
    step: int,
    collected: Collected,
    batch: Batch,
    report: UpdateReport,
    left_out: Sequence[Score],
    measured: Measured | None,
) -> None:
    """Write what the step did, once the optimiser has stepped: one transaction."""
    fresh, marks = collected.trajectories, list[Mark]()
    results = results_of(fresh)
    if s.replayer is None:
        states = [TaskState(s.run, r.task, step, r.successes, r.rows) for r in results]
    else:
        states, marks = s.replayer.finish(results, fresh)
        s.totals.replay_since = s.replayer.start.since
        s.totals.replay_solved = int(s.replayer.start.solved)
    scores = scores_of(s.run, step, batch, report.replayed, s.config.draw.priority)
    s.store.commit(
        StoreBatch(
            task_states=states,
            uses=uses_of(s.run, step, report.replayed),
            scores=[*scores, *left_out],
            marks=marks,
            events=_adapt(s, step, measured),
            note_marks=s.notes.retirements(step) if s.notes is not None else (),
            cursors=[Cursor(s.run, step, s.learner.version)],
        )
    )


def _adapt(s: Session, step: int, measured: Measured | None) -> list[Event]:
    """Let the rules move the limits of the next step's replay; what they did is told and kept."""
    replayer = s.replayer
    if replayer is None or replayer.adaptation is None or not replayer.start.since:
        return []
    said = replayer.adaptation.saw(measured, replayer.in_vain)
    for text in said:
        s.sink.emit(events.Warned(f"step {step}: {text}"))
    return [Event(s.run, step, "replay_adapted", {"what": text}) for text in said]


def _evaluate(s: Session, step: int, clock: Callable[[], float]) -> None:
    if s.evaluator is None:
        return
    s.sink.emit(events.PhaseStarted(step, "evaluate"))
    started = clock()
    guiding = s.notes.guiding() if s.notes is not None else None
    found = s.evaluator.evaluate(_motion(s, step, s.evaluator.size), guiding)
    _tell_troubles(s)
    if found.failures:
        share = f"{len(found.failures)} of {found.attempts}"
        why = _reason(found.failures[0])
        s.sink.emit(events.Warned(f"{share} evaluation episodes failed and count as lost: {why}"))
    # A slow machine would look like a bad policy.
    if late := sum(row.stop is StopReason.TIME_LIMIT for row in found.trajectories):
        limit = f"after {s.config.rollout.episode_seconds:g} s, the model's own time included"
        text = f"{late} of {s.evaluator.size} evaluation episodes were cut off {limit}"
        s.sink.emit(events.Warned(f"{text}: raise rollout.episode_seconds"))
    seconds = clock() - started
    done = events.EvaluationFinished(
        step, found.scores, s.evaluator.split, seconds, guided=found.guided
    )
    s.sink.emit(done)


def _save(s: Session, step: int) -> None:
    """Save a checkpoint, then let go of older ones."""
    s.sink.emit(events.PhaseStarted(step, "checkpoint"))
    saved = save_checkpoint(s.folder.checkpoints, step, checkpoint_state(s), s.write)
    prune_checkpoints(s.folder.checkpoints, step, s.config.checkpoint.keep)
    s.sink.emit(events.CheckpointSaved(step, saved.folder))


def _tell_failures(s: Session, failures: Sequence[Failure]) -> None:
    """Say why episodes failed, each reason once: afterwards the step's line counts them."""
    for failure in failures:
        _tell(s, "Failed episodes never train", failure.reason, _reason(failure))


def _tell_troubles(s: Session) -> None:
    """Say why a service of notes did not answer."""
    if s.notes is not None and s.notes.remote is not None:
        for reason in s.notes.remote.troubles():
            _tell(s, "The service of notes fails, and attempts go without", reason)


def _tell(s: Session, what: str, reason: str, whole: str = "") -> None:
    """Say something once for each reason; many of one kind do not silence another."""
    told = s.told.setdefault(what, set())
    if reason not in told and len(told) < _MOST_REASONS:
        told.add(reason)
        s.sink.emit(events.Warned(f"{what}: {whole or reason}"))


def _reason(failure: Failure) -> str:
    return f"task {failure.request.task.id}, {failure.where}: {failure.reason}"


def _failed(s: Session, step: int, failure: Failure) -> Event:
    what = {"id": failure.request.id, "task": failure.request.task.id}
    return Event(
        s.run, step, "episode_failed", {**what, "where": failure.where, "reason": failure.reason}
    )


def _motion(s: Session, step: int, total: int) -> Callable[[int, int], None]:
    """Tell the sinks how many of the phase's episodes are done."""

    def tell(done: int, failed: int) -> None:
        running = total - done - failed
        s.sink.emit(events.EpisodeFinished(step, done + failed, total, running, failed))

    return tell


def _due(every: int, step: int) -> bool:
    return every > 0 and step % every == 0


class _Stopwatch:
    """Announces the phases of a step and measures them."""

    def __init__(self, s: Session, step: int, clock: Callable[[], float]) -> None:
        self._session = s
        self._step = step
        self._clock = clock
        self._began = time.process_time()
        self.seconds: dict[str, float] = {}

    @property
    def processor(self) -> float:
        """Processor seconds since the step began: what a busy machine's clock does not tell."""
        return time.process_time() - self._began

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        self._session.sink.emit(events.PhaseStarted(self._step, phase))
        started = self._clock()
        yield
        self.seconds[phase] = self._clock() - started
