"""A session: everything a run needs, opened from its configuration, fresh or resumed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from recollect.canonical import Json
from recollect.config.schema.config import Config
from recollect.envs.base import Environment
from recollect.envs.registry import load_environment
from recollect.ledger import Event, Run
from recollect.replay import lineage
from recollect.replay.replayer import Replayer
from recollect.rollout.collector import Generator
from recollect.store import open_store
from recollect.store.base import Store
from recollect.store.records import Batch
from recollect.telemetry.events import Sink, Warned
from recollect.telemetry.fanout import Fanout
from recollect.telemetry.sinks.jsonl import JsonlSink, truncate_after
from recollect.train.checkpoint import Checkpoint, newest_checkpoint, remove_drafts
from recollect.train.companion import Companion, TaskLine
from recollect.train.crediting import Crediting
from recollect.train.engine import Engine, Parts
from recollect.train.evaluation import Evaluator
from recollect.train.folder import RunFolder
from recollect.train.guards import Guard
from recollect.train.learner import Learner
from recollect.train.left_out import left_behind, not_studied
from recollect.train.note_parts import idle_settings, make_notebook
from recollect.train.noting import Notebook
from recollect.train.parts import InProcess, make_evaluator
from recollect.train.ranks import ALONE, Ranks
from recollect.train.replaying import make_replayer
from recollect.train.schedule import Schedule, training_tasks
from recollect.train.seeding import Seeded, seed_pool
from recollect.train.totals import Totals
from recollect.train.updater import Updater
from recollect.types import RunId

_ADAPTATION = "adaptation"  # the key of its state in a checkpoint


@dataclass(slots=True)
class Session:
    """The parts of one run. `done` is the last step that is already behind it.

    `told` are the reasons that were said already, by kind of trouble. `crediting` scores rows
    where there is a critic.
    """

    config: Config
    folder: RunFolder
    run: RunId
    environment: Environment
    store: Store
    learner: Updater
    crediting: Crediting | None
    guard: Guard
    collector: Generator
    evaluator: Evaluator | None
    schedule: TaskLine
    replayer: Replayer | None
    notes: Notebook | None
    totals: Totals
    sink: Fanout
    done: int
    companion: Companion | None = None
    ranks: Ranks = ALONE
    told: dict[str, set[str]] = field(default_factory=dict)

    @property
    def own(self) -> Learner:
        """The learner, for whoever reaches into the model: it must be in this process."""
        assert isinstance(self.learner, Learner), "the model is not in this process"
        return self.learner

    def write(self, folder: Path) -> None:
        """Write the files of a checkpoint."""
        self.learner.save(folder)
        if self.crediting is not None:
            self.crediting.save(folder)
        if self.companion is not None:
            self.companion.save(folder)

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.sink.close()
        if self.notes is not None:
            self.notes.close()
        self.collector.close()
        self.store.close()


def open_session(
    folder: RunFolder,
    sinks: Mapping[str, Sink],
    companion: Companion | None = None,
    ranks: Ranks = ALONE,
    engine: Engine | None = None,
) -> Session:
    """Open the run in a folder where it stands: at its newest whole checkpoint, or at the start.

    Without an engine the model is in this process, and in those of the other ranks. Whatever the
    run wrote after that step is fenced off in the store and cut from the metrics, and will be
    computed again. The sinks become the session's, even where it cannot be opened.
    """
    with ExitStack() as undo:
        undo.callback(Fanout(sinks).close)
        config = folder.load()
        # Before anything else, because it refuses a run that is under way in another process.
        store = undo.enter_context(
            open_store(
                folder.store(config),
                compress=config.store.compress,
                retry_seconds=config.store.retry_seconds,
            )
        )
        remove_drafts(folder.checkpoints)
        machines = engine or InProcess(ranks)
        session = _assemble(folder, config, store, sinks, companion, ranks, machines)
        undo.pop_all()
    return session


def _assemble(
    folder: RunFolder,
    config: Config,
    store: Store,
    sinks: Mapping[str, Sink],
    companion: Companion | None,
    ranks: Ranks,
    engine: Engine,
) -> Session:
    damages: list[str] = []
    checkpoint = newest_checkpoint(folder.checkpoints, lambda error: damages.append(error.what))
    environment = load_environment(config.environment.name, **config.environment.options)
    tasks = training_tasks(environment, config.environment)
    guard = Guard(folder.bad_batches, config.train.max_bad_steps)
    parts = engine.open(folder, config, environment, guard, checkpoint)
    collector = parts.collector
    session = Session(
        config=config,
        folder=folder,
        run=folder.run(config),
        environment=environment,
        store=store,
        learner=parts.learner,
        crediting=parts.crediting,
        guard=guard,
        collector=collector,
        evaluator=make_evaluator(config, environment, collector) if config.eval.every else None,
        schedule=Schedule(tasks, config.run.seed, config.rollout.tasks_per_step),
        replayer=None,
        notes=None,
        totals=Totals(),
        sink=Fanout({}),
        done=0,
        companion=companion,
        ranks=ranks,
    )
    if companion is not None:
        companion.join(session)
    if checkpoint is not None:
        _restore(session, checkpoint)
    # Runs in the order in which they happened: the earlier one's are known first.
    seeded = _seed(session)
    _set_later_steps_aside(session, checkpoint is not None)
    if seeded is not None:
        store.commit(Batch(events=[lineage.note(session.run, seeded.versions)]))
    # Only now: what later steps had drawn and decided is out of the way.
    _equip(session, parts)
    if checkpoint is not None:
        _restore_adaptation(session, checkpoint)
    session.sink = Fanout({"metrics.jsonl": JsonlSink(folder.metrics), **sinks})
    _tell_beginning(session, damages, seeded)
    return session


def _equip(session: Session, parts: Parts) -> None:
    """Give a session what draws from its store: its replay and its notes."""
    config, store, run = session.config, session.store, session.run
    fingerprints = parts.collector.fingerprints
    drawable = session.schedule.drawable
    session.replayer = make_replayer(
        config, store, run, drawable, parts.learner, fingerprints, session.totals
    )
    evaluated = [task.key for task in session.evaluator.tasks] if session.evaluator else ()
    trained = session.schedule.by_key
    session.notes = make_notebook(
        config, store, run, parts.policy, trained, evaluated, session.done
    )


def _tell_beginning(session: Session, damages: Sequence[str], seeded: Seeded | None) -> None:
    """Say what a person should know of how the run begins, or goes on."""
    instead = f"goes on from step {session.done}" if session.done else "begins anew"
    said = [f"{damage} The run {instead}." for damage in damages]
    if seeded is not None and seeded.left:
        said.append(
            f"pool.start_from: {seeded.left} rows stay behind, made with another tokenizer, "
            f"template or environment; {seeded.rows} were taken over."
        )
    if seeded is not None and seeded.lost:
        said.append(left_behind(seeded.lost, seeded.source))
    if session.notes is not None and session.notes.lost:
        said.append(not_studied(session.notes.lost, session.store.path))
    for text in [*said, *idle_settings(session.config)]:
        session.sink.emit(Warned(text))


def _seed(session: Session) -> Seeded | None:
    """Begin with the pool of an earlier run, where that is asked for."""
    source = session.config.pool.start_from
    if source is None or session.done:
        return None
    return seed_pool(session.store, session.run, source, session.collector.fingerprints)


def checkpoint_state(session: Session) -> dict[str, Json]:
    """What a checkpoint keeps beside weights and optimiser."""
    state: dict[str, Json] = {
        "policy_version": session.learner.version,
        "bad_in_a_row": session.guard.in_a_row,
        **session.totals.state(),
    }
    replayer = session.replayer
    if replayer is not None and replayer.adaptation is not None:
        state[_ADAPTATION] = replayer.adaptation.state()
    return state


def _restore(session: Session, checkpoint: Checkpoint) -> None:
    counts = {name: value for name, value in checkpoint.state.items() if name != _ADAPTATION}
    state = {name: int(str(value)) for name, value in counts.items()}
    session.learner.restore(checkpoint.folder, state["policy_version"])
    if session.crediting is not None:
        session.crediting.restore(checkpoint.folder)
    session.guard.in_a_row = state["bad_in_a_row"]
    session.totals = Totals.restore(state)
    if session.companion is not None:
        session.companion.restore(checkpoint.folder)
    session.done = checkpoint.step


def _restore_adaptation(session: Session, checkpoint: Checkpoint) -> None:
    """Move the limits of replay to where they were; rules switched on since begin anew."""
    replayer, state = session.replayer, checkpoint.state.get(_ADAPTATION)
    if replayer is None or replayer.adaptation is None or not isinstance(state, Mapping):
        return
    replayer.adaptation.restore(state)


def _set_later_steps_aside(session: Session, has_checkpoint: bool) -> None:
    """Bring store and metrics back to the step that the session goes on from."""
    store, run, done = session.store, session.run, session.done
    settings = session.config.model_dump(mode="json")
    known = next((r for r in store.runs().values() if r.id == run), None)
    if known is None:
        store.commit(Batch(runs=[Run(run, session.config.run.seed, settings)]))
    else:
        store.fence(run, done, "resumed")
        if known.config != settings:
            # The run keeps the configuration it began with; what was changed since is told.
            store.commit(Batch(events=[Event(run, done, "config_changed", {"now": settings})]))
    # -1: an evaluation before the first step is made again as well.
    truncate_after(session.folder.metrics, done if has_checkpoint else -1)
