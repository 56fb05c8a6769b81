"""Valid records of every kind, made from integers: the same numbers give the same record.

What proofs and tests write into stores. A fake run (`FakeRun`) is a pure function of (seed, step,
variant). Its ids do not depend on the variant, so a step can be made again with other content, as
a resumed run does.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from recollect.ledger import (
    Cursor,
    Draw,
    Event,
    Group,
    Mark,
    Note,
    NoteLink,
    Run,
    Score,
    TaskState,
    Use,
)
from recollect.note_ledger import Distillation, NoteMark, NoteTrial
from recollect.store.records import Batch
from recollect.trajectory import Trajectory
from recollect.types import (
    Action,
    GroupId,
    LinkKind,
    NoteAction,
    NoteId,
    NoteSpan,
    Origin,
    Reward,
    RunId,
    Sampling,
    Segment,
    SegmentKind,
    StopReason,
    Task,
    ToolCall,
    TrajectoryId,
    group_id,
    trajectory_id,
)

RUN = RunId("run-a")
SMALL = 24  # tokens; a frame of about 1 kB
TASKS = tuple(
    Task("desk:airline" if number % 2 else "desk:retail", f"task-{number}", query=f"q {number}")
    for number in range(6)
)
_STOPS = tuple(StopReason)


def make_trajectory(
    seed: int,
    *,
    run: RunId = RUN,
    step: int = 0,
    row: int = 0,
    task: Task = TASKS[0],
    origin: Origin = Origin.FRESH,
    tokens: int = SMALL,
    note: NoteId | None = None,
) -> Trajectory:
    """Make a trajectory whose content follows from `seed`, whose id from its place in the run."""
    rng = np.random.default_rng([seed, step, row])
    segments, sampled = _conversation(rng, tokens, note is not None)
    count = int(sampled.sum())
    is_demo = origin is Origin.DEMO
    reward = float(rng.integers(0, 5)) / 4
    return Trajectory(
        id=trajectory_id(run, step, task.key, row),
        task=task.key,
        run=run,
        step=step,
        group=group_id(run, step, task.key),
        origin=origin,
        policy_version=None if is_demo else step,
        tokens=rng.integers(0, 50_000, tokens, dtype=np.int32),
        sampled=sampled,
        logprobs=None if is_demo else -rng.random(count, dtype=np.float32),
        entropies=None if is_demo or seed % 5 == 4 else rng.random(count, dtype=np.float32),
        segments=segments,
        reward=Reward(reward, {"goal": reward, "tone": -0.0}),
        success=reward > 0.5,
        stop=_STOPS[seed % len(_STOPS)],
        sampling=None if is_demo else Sampling(0.7 + seed % 4 / 10, 0.95, seed % 50, tokens),
        notes=() if note is None else (NoteSpan(note, segments[0].end, segments[1].end),),
        tokenizer=f"tok-{row % 2}",
        environment_version=task.version,
        started=1e9 + step,
        finished=1e9 + step + rng.random(),
        extra={"seed": seed, "note": "ünïcode ✓", "deep": [{"x": None}, 1.5]},
    )


def _conversation(
    rng: np.random.Generator, tokens: int, has_note: bool
) -> tuple[tuple[Segment, ...], np.ndarray]:
    kinds = [SegmentKind.SYSTEM, SegmentKind.NOTE if has_note else SegmentKind.USER]
    kinds += [SegmentKind.ASSISTANT, SegmentKind.TOOL, SegmentKind.ASSISTANT]
    inner = rng.choice(np.arange(1, tokens), len(kinds) - 1, replace=False)
    cuts = [0, *sorted(int(cut) for cut in inner), tokens]
    sampled = np.zeros(tokens, dtype=np.bool_)
    segments = []
    for index, kind in enumerate(kinds):
        start, end = cuts[index], cuts[index + 1]
        calls = (ToolCall("look_up", '{"id": 7}', f"call-{index}"),) if index == 2 else ()
        name = "look_up" if kind is SegmentKind.TOOL else ""
        call_id = "call-2" if kind is SegmentKind.TOOL else ""
        segments.append(Segment(kind, start, end, f"text {index} ☃", calls, call_id, name))
        if kind is SegmentKind.ASSISTANT:
            sampled[start:end] = rng.random(end - start) < 0.8
            sampled[start] = True
    return tuple(segments), sampled


@dataclass(frozen=True)
class FakeRun:
    """A run whose every step writes every kind of record, and refers to earlier steps."""

    seed: int = 0
    id: RunId = RUN
    rows: int = 4
    tokens: int = SMALL

    def setup(self) -> Batch:
        """What is written before the first step: the run and its tasks."""
        return Batch(runs=[Run(self.id, self.seed, {"rows": self.rows})], tasks=TASKS)

    @lru_cache(maxsize=1024)  # noqa: B019 - runs are small, and made again and again
    def step(self, step: int, variant: int = 0) -> Batch:
        """Everything that one step writes."""
        rng = np.random.default_rng([self.seed, step, variant, 7])
        draws = self._draws(step, rng)
        trajectories = self.trajectories(step, variant)
        tasks = {t.task: self.task(step, row) for row, t in enumerate(trajectories)}
        return Batch(
            groups=[
                Group(group_id(self.id, step, key), self.id, step, key, step + variant)
                for key in tasks
            ],
            trajectories=trajectories,
            task_states=[self._state(step, task, rng) for task in tasks.values()],
            draws=draws,
            uses=[self._use(draw, rng) for draw in draws if draw.slot % 3 < 2],
            scores=self._scores(step, variant, draws),
            marks=self._marks(step, rng),
            notes=[self._note(step, variant)],
            links=[
                NoteLink(self.note_id(step), trajectories[0].id, LinkKind.SOURCE, self.id, step)
            ],
            note_marks=self._note_marks(step, variant),
            note_trials=self._note_trials(step, variant),
            distillations=[Distillation(f"{self.id}-{step}-{variant}", {"notes": [step, variant]})],
            events=[
                Event(self.id, step, "loss", {"value": float(rng.random())}),
                Event(self.id, step, "controller", {"ratio": 0.5, "variant": variant}),
            ],
            cursors=[Cursor(self.id, step, step + 1, {"rng": int(rng.integers(2**40))})],
        )

    @lru_cache(maxsize=1024)  # noqa: B019
    def trajectories(self, step: int, variant: int = 0) -> list[Trajectory]:
        """The fresh rows of a step; the last one is guided by the note of the step before."""
        made = []
        for row in range(self.rows):
            guided = row == self.rows - 1 and step > 0
            made.append(
                make_trajectory(
                    self.seed * 1000 + variant,
                    run=self.id,
                    step=step,
                    row=row,
                    task=self.task(step, row),
                    origin=Origin.GUIDED if guided else Origin.FRESH,
                    tokens=self.tokens,
                    note=self.note_id(step - 1) if guided else None,
                )
            )
        return made

    def task(self, step: int, row: int) -> Task:
        """The task that a row of a step attempts."""
        return TASKS[(step + row // 2) % len(TASKS)]

    def row_id(self, step: int, row: int) -> TrajectoryId:
        """The id of a row of a step."""
        return trajectory_id(self.id, step, self.task(step, row).key, row)

    def ids(self, step: int) -> list[TrajectoryId]:
        """The ids of all rows of a step."""
        return [self.row_id(step, row) for row in range(self.rows)]

    def note_id(self, step: int) -> NoteId:
        """The id of the note that a step distils."""
        return NoteId(f"{self.id}-note-{step}")

    def _earlier(self, step: int, rng: np.random.Generator) -> TrajectoryId:
        """One of the rows of the last few steps before this one."""
        past = int(rng.integers(max(0, step - 4), step))
        return self.row_id(past, int(rng.integers(self.rows)))

    def _draws(self, step: int, rng: np.random.Generator) -> list[Draw]:
        if step == 0:
            return []
        return [
            Draw(
                run=self.id,
                step=step,
                slot=slot,
                trajectory=self._earlier(step, rng),
                group=GroupId(f"mixed-{step}-{slot}"),
                age=int(rng.integers(0, 5)),
                probability=float(rng.uniform(0.01, 1)),
                reason="bucket 0.5 · lowest entropy",
                weight=float(rng.choice([1.0, 0.5, -0.0])),
            )
            for slot in range(4)
        ]

    def _use(self, draw: Draw, rng: np.random.Generator) -> Use:
        return Use(
            run=draw.run,
            step=draw.step,
            slot=draw.slot,
            trajectory=draw.trajectory,
            epochs=1 + draw.slot,
            ratio_mean=float(rng.random()),
            ratio_max=None,
            ess=float(rng.random()),
            loss_share=-0.0,
        )

    def _scores(self, step: int, variant: int, draws: list[Draw]) -> list[Score]:
        """Score the fresh rows of a step and those that it drew, measured or not."""
        rng = np.random.default_rng([self.seed, step, variant, 8])
        drawn = [draw.trajectory for draw in draws]
        return [
            Score(
                run=self.id,
                step=step,
                trajectory=id_,
                advantage=float(rng.choice([-1.5, -0.0, rng.normal()])),
                priority=float(rng.choice([-0.0, rng.random()])),
                ess=float(rng.uniform(0.01, 1)) if id_ in drawn else None,
                ratio=float(rng.uniform(0.5, 3)) if id_ in drawn else None,
            )
            for id_ in dict.fromkeys([*self.ids(step), *drawn])
        ]

    def _state(self, step: int, task: Task, rng: np.random.Generator) -> TaskState:
        wins = int(rng.integers(0, 5))
        retest = step + 10 if wins == 4 else None
        return TaskState(self.id, task.key, step, wins, 4, wins == 4, retest, {"ema": wins / 4})

    def _marks(self, step: int, rng: np.random.Generator) -> list[Mark]:
        if step < 2:
            return []
        chosen = {self._earlier(step, rng): action for action in _sampled_actions(rng)}
        return [Mark(id_, action, "budget", self.id, step) for id_, action in chosen.items()]

    def _note_marks(self, step: int, variant: int) -> list[NoteMark]:
        if step % 3 != 2:
            return []
        action = tuple(NoteAction)[(step + variant) % len(NoteAction)]
        return [NoteMark(self.note_id(step - 1), action, "no help", self.id, step)]

    def _note_trials(self, step: int, variant: int) -> list[NoteTrial]:
        if step == 0:
            return []
        group = group_id(self.id, step, self.task(step, self.rows - 1).key)
        return [NoteTrial(self.note_id(step - 1), group, 1, variant % 2, 3, 2, self.id, step)]

    def _note(self, step: int, variant: int) -> Note:
        return Note(
            id=self.note_id(step),
            content=f"Check the ticket first ({variant}).",
            when_to_use="refunds",
            workspace=("default", "shop")[step % 2],
            author="distiller",
            trust=0.5,
            run=self.id,
            step=step,
            data={"wins": step},
        )


def _sampled_actions(rng: np.random.Generator) -> list[Action]:
    actions = tuple(Action)
    return [actions[int(rng.integers(len(actions)))] for _ in range(2)]
