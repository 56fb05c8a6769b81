"""One exception class per failure; each says what, where, and what to do next.

Library code raises these and nothing vaguer. The command line prints `what` and `hint` on
separate lines and leaves with `exit_code`; it never shows a traceback for one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


class RecollectError(Exception):
    """Base of every failure we know by name: `what` happened and a `hint` for the next step."""

    exit_code = 2

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(f"{what} {hint}".strip())
        self.what = what
        self.hint = hint


class InvalidRecord(RecollectError):
    """A record breaks the contract of `recollect.types`; `field` names the culprit."""

    def __init__(self, field: str, problem: str, record: str = "") -> None:
        where = f"{record}: " if record else ""
        super().__init__(f"{where}{field}: {problem}.")
        self.field = field
        self.problem = problem


class CorruptFrame(RecollectError):
    """A stored frame fails its checksum or its own lengths: bytes changed since."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"The frame is damaged: {problem}.")
        self.problem = problem


class MissingExtra(RecollectError):
    """A feature needs an optional dependency that is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(
            f"{feature} needs a package that is not installed.",
            f"Install it with: pip install 'recollect[{extra}]'",
        )


class StoreError(RecollectError):
    """Base of everything that can go wrong with a store; `path` is the store's file."""

    def __init__(self, path: Path | str, what: str, hint: str = "") -> None:
        super().__init__(what, hint)
        self.path = Path(path)


class StoreMissing(StoreError):
    """There is no store at this path."""

    def __init__(self, path: Path | str) -> None:
        super().__init__(
            path,
            f"There is no store at {path}.",
            "Name another with --store, or make one with: recollect pool import FILE --store PATH",
        )


class NotAStore(StoreError):
    """The file exists but Recollect did not make it."""

    def __init__(self, path: Path | str, why: str) -> None:
        super().__init__(
            path,
            f"{path} is not a Recollect store: {why}.",
            "Nothing was changed. Name the right file with --store.",
        )


class StoreTooNew(StoreError):
    """A later version of Recollect wrote this store."""

    def __init__(self, path: Path | str, found: int, known: int) -> None:
        super().__init__(
            path,
            f"{path} has schema {found}; this Recollect knows schemas up to {known}.",
            "Nothing was changed. Upgrade with: pip install --upgrade recollect",
        )


class StoreTooOld(StoreError):
    """The store needs a migration, which only a writer may run."""

    def __init__(self, path: Path | str, found: int, known: int) -> None:
        super().__init__(
            path,
            f"{path} has schema {found}; this Recollect reads schema {known}.",
            f"Bring it up to date with: recollect pool migrate --store {path}",
        )


class StoreLocked(StoreError):
    """Another live process is the store's writer."""

    def __init__(self, path: Path | str, owner: str) -> None:
        super().__init__(
            path,
            f"{path} is being written by {owner}.",
            "Reading works meanwhile. To write, wait for that process or stop it.",
        )
        self.owner = owner


class StoreBusy(StoreError):
    """SQLite could not get a file lock in time: a long read or a foreign program holds it."""

    def __init__(self, path: Path | str, waited: float) -> None:
        super().__init__(
            path,
            f"{path} stayed locked for {waited:g} s by another connection.",
            "Close other programs that have the file open, then try again.",
        )


class StoreFull(StoreError):
    """The disk (or the store's size limit) is full; the transaction was rolled back whole."""

    def __init__(self, path: Path | str, free: int | None) -> None:
        room = "" if free is None else f" ({free:,} bytes free)"
        super().__init__(
            path,
            f"No room left on the disk that holds {path}{room}.",
            "Nothing acknowledged was lost. Free some space, then go on.",
        )


class StoreReadOnly(StoreError):
    """The store or its folder cannot be written."""

    def __init__(self, path: Path | str, why: str = "") -> None:
        reason = f": {why}" if why else ""
        super().__init__(
            path,
            f"{path} cannot be written{reason}.",
            "Check the permissions of the file and its folder, or copy the store elsewhere.",
        )


class StoreDamaged(StoreError):
    """SQLite itself finds the file damaged."""

    def __init__(self, path: Path | str, why: str) -> None:
        super().__init__(
            path,
            f"{path} is damaged: {why}.",
            f"See what is hurt with: recollect pool verify --store {path}",
        )


class StoreFailed(StoreError):
    """The operating system or SQLite failed in a way no other class names."""

    def __init__(self, path: Path | str, why: str) -> None:
        super().__init__(
            path,
            f"The store {path} failed: {why}.",
            "The transaction was rolled back. Check the disk, then try again.",
        )


class StoreConflict(StoreError):
    """Something with this key is stored already, with other content."""

    def __init__(self, path: Path | str, table: str, key: str) -> None:
        super().__init__(
            path,
            f"{table} {key} is already stored with different content.",
            "Records never change once stored: give the new one another id, or fence its step.",
        )
        self.key = key


class CorruptRecord(StoreError):
    """Stored trajectories whose frames fail their checksum; they are quarantined, not returned."""

    def __init__(self, path: Path | str, ids: Sequence[str], problem: str) -> None:
        shown = ", ".join(ids[:3]) + (f" and {len(ids) - 3} more" if len(ids) > 3 else "")
        super().__init__(
            path,
            f"Damaged trajectory {shown}: {problem}.",
            f"Set such records aside with: recollect pool verify --store {path}",
        )
        self.ids = tuple(ids)


class UnknownId(StoreError):
    """No record of this kind has this id."""

    def __init__(self, path: Path | str, kind: str, given: str, hint: str = "") -> None:
        super().__init__(
            path,
            f"No {kind} {given!r} in {path}.",
            hint or "List what is there with: recollect pool ls",
        )
        self.given = given


class AmbiguousId(StoreError):
    """A shortened id fits several records."""

    def __init__(self, path: Path | str, kind: str, given: str, matches: Sequence[str]) -> None:
        super().__init__(
            path,
            f"{given!r} fits several {kind} ids: {', '.join(matches)}.",
            "Give a few more characters.",
        )
        self.matches = tuple(matches)


class BadQuery(StoreError):
    """A user's SQL is malformed, would write, or ran too long."""

    def __init__(self, path: Path | str, why: str, hint: str = "") -> None:
        super().__init__(
            path,
            f"The query was refused: {why}.",
            hint or 'See the tables with: recollect pool sql "SELECT name, sql FROM sqlite_schema"',
        )


class BadFile(RecollectError):
    """A file to import cannot be used at all (single bad lines are reported, not raised)."""

    def __init__(self, path: Path | str, why: str, hint: str = "") -> None:
        super().__init__(f"{path}: {why}.", hint)
        self.path = Path(path)


class UnknownEnvironment(RecollectError):
    """No environment has this name."""

    def __init__(self, name: str, known: Sequence[str], nearest: str = "") -> None:
        guess = f"Did you mean {nearest!r}? " if nearest else ""
        super().__init__(
            f"There is no environment {name!r}.",
            f"{guess}Known: {', '.join(known)}; or give your own as path/to/file.py:ClassName.",
        )
        self.nearest = nearest


class BadEnvironment(RecollectError):
    """An environment exists but cannot be made: its code, its options or its data are wrong."""

    def __init__(self, name: str, why: str, hint: str = "") -> None:
        super().__init__(f"Environment {name}: {why}.", hint)


class UnknownTask(RecollectError):
    """An environment was given a task, a split or a kind that it does not have."""

    def __init__(self, environment: str, what: str, given: str, known: Sequence[str] = ()) -> None:
        shown = f"Known: {', '.join(known)}." if known else "List them with: recollect env ls"
        super().__init__(f"Environment {environment} has no {what} {given[:80]!r}.", shown)


class BadDataset(RecollectError):
    """A line of a file of prompts cannot be used."""

    def __init__(self, path: Path | str, line: int, why: str, hint: str = "") -> None:
        super().__init__(f"{path}, line {line}: {why}.", hint)
        self.path = Path(path)
        self.line = line


class RewardFailed(RecollectError):
    """A user's reward function raised, or returned something that is not a finite number."""

    def __init__(self, task: str, why: str) -> None:
        super().__init__(
            f"The reward of task {task} failed: {why}.",
            "The attempt was not scored. Make the function return a finite number for any text.",
        )


class EpisodeOver(RecollectError):
    """Somebody went on answering after an episode had ended or was closed."""

    def __init__(self, task: str) -> None:
        super().__init__(
            f"The episode of task {task} is over.",
            "Stop when a turn says done, and start a new episode for another attempt.",
        )


class WouldOverwrite(RecollectError):
    """A command would replace a file that is already there."""

    def __init__(self, path: Path | str) -> None:
        super().__init__(f"{path} is already there; nothing was written.", "Choose another name.")
        self.path = Path(path)


class UnusableChatTemplate(RecollectError):
    """A model's chat template cannot be used to build prompts piece by piece."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"The model's chat template cannot be used: {why}.",
            "Choose an instruction-tuned model, or set tokenizer.chat_template to a ChatML one.",
        )


class EnvironmentHung(RecollectError):
    """So many environment calls never came back that going on makes no sense."""

    def __init__(self, stuck: int, seconds: float) -> None:
        super().__init__(
            f"{stuck} environment calls gave no answer within {seconds:g} s.",
            "Look for what blocks with: recollect env check NAME; "
            "raise rollout.call_seconds if it is only slow.",
        )


class TooManyFailures(RecollectError):
    """A larger share of a step's episodes failed than the run allows."""

    def __init__(self, failed: int, total: int, example: str) -> None:
        super().__init__(
            f"{failed} of {total} episodes failed, for example: {example}.",
            "Check the environment with: recollect env check NAME; "
            "rollout.max_failed_share is the share that a step tolerates.",
        )


class ModelMissing(RecollectError):
    """A model cannot be loaded from where the configuration says."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(
            f"The model {name!r} cannot be loaded: {why.splitlines()[0][:300]}",
            "Give `tiny` (built in), a folder made by save_pretrained, or a hub id that is cached "
            "or can be downloaded.",
        )


class CheckpointDamaged(RecollectError):
    """A checkpoint folder does not match its manifest."""

    def __init__(self, path: Path | str, why: str) -> None:
        super().__init__(
            f"The checkpoint {path} is damaged: {why}.",
            "Resume takes the newest whole one by itself; this one can be deleted.",
        )


class TrainingDiverged(RecollectError):
    """Several updates in a row had a loss or gradient that is not finite."""

    exit_code = 3

    def __init__(self, step: int, count: int, saved: Path | str) -> None:
        super().__init__(
            f"{count} updates in a row up to step {step} were not finite and were skipped.",
            f"The last batch is saved in {saved}. Lower train.learning_rate, or set "
            "model.dtype=float32, then resume.",
        )


class RunExists(RecollectError):
    """A run folder of this name is there already."""

    def __init__(self, path: Path | str) -> None:
        super().__init__(
            f"{path} holds a run already.",
            f"Go on with it: recollect resume {path}. Or choose another: run.name=NAME. "
            f"Or delete the folder.",
        )


class RunMissing(RecollectError):
    """There is no run where one was named, or no run at all."""

    def __init__(self, path: Path | str, why: str = "there is no run") -> None:
        super().__init__(f"{path}: {why}.", "List runs with: recollect runs ls")


class ExportFailed(RecollectError):
    """An export could not be written; nothing stands under the name that was asked for."""

    def __init__(self, target: Path | str, why: str, hint: str = "") -> None:
        super().__init__(
            f"The export to {target} failed: {why}.",
            hint or "Nothing was written under that name. Check the folder and its free space.",
        )


class UnknownMetric(RecollectError):
    """Somebody logs metrics that the table of names does not document."""

    def __init__(self, names: Sequence[str], nearest: str = "") -> None:
        guess = f"Did you mean {nearest!r}? " if nearest else ""
        super().__init__(
            f"Undocumented metric {', '.join(map(repr, names[:5]))}.",
            f"{guess}Document it in src/recollect/telemetry/names.py, then run: "
            "python scripts/write_metric_docs.py",
        )
        self.names = tuple(names)


class UnknownTracker(RecollectError):
    """No experiment tracker has this name."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__(f"There is no tracker {name!r}.", f"Known: {', '.join(known)}.")


class TrackerNotReady(RecollectError):
    """A tracker is installed but cannot be used as asked."""

    def __init__(self, name: str, why: str, hint: str) -> None:
        super().__init__(f"{name} cannot be used: {why}.", hint)


class ConfigMissing(RecollectError):
    """There is neither a preset nor a file of this name."""

    def __init__(self, given: str, presets: Sequence[str], nearest: str = "") -> None:
        guess = f"Did you mean {nearest}? " if nearest else ""
        super().__init__(
            f"There is no preset and no file {given[:120]!r}.",
            f"{guess}Presets: {', '.join(presets)}; or give the path of a YAML file.",
        )


class BadConfigFile(RecollectError):
    """A text with settings cannot be read as YAML; `where` is its file and line, or the flag."""

    def __init__(self, where: str, why: str, hint: str = "") -> None:
        super().__init__(f"{where}: {why}.", hint)
        self.where = where


class BadConfig(RecollectError):
    """Settings that are unknown, of the wrong type, or at odds: `problems` are (what, hint)."""

    def __init__(self, problems: Sequence[tuple[str, str]]) -> None:
        self.problems = tuple(problems)
        if len(problems) == 1:
            super().__init__(*problems[0])
            return
        texts = [f"({n}) {what} {hint}".rstrip() for n, (what, hint) in enumerate(problems, 1)]
        shown = " ".join(texts[:8]) + (f" ... {len(texts) - 8} more" if len(texts) > 8 else "")
        super().__init__(f"{len(texts)} settings are wrong: {shown}")


class BadComparison(RecollectError):
    """Arms, seeds or a grid that cannot be compared, or a folder that holds another comparison."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(f"This cannot be compared: {what}.", hint)


class ComparisonFailed(RecollectError):
    """A run of a comparison ended with an error; those that finished are kept."""

    def __init__(self, run: Path | str, why: str, log: Path | str) -> None:
        super().__init__(
            f"The run {run} failed: {why}.",
            f"Its output is in {log}. Repair the cause, then give the same command again: "
            "finished runs are not repeated.",
        )


class ComparisonStopped(RecollectError):
    """Somebody interrupted a comparison; `number` is the signal's."""

    def __init__(self, number: int) -> None:
        super().__init__(
            "The comparison was interrupted; its runs are saved.",
            "Give the same command again to go on: finished runs are not repeated.",
        )
        self.exit_code = 128 + number


class NothingToStartFrom(StoreError):
    """The pool that a run is to begin with has no row it could train on."""

    def __init__(self, path: Path | str, left: int) -> None:
        rows = f"All of its {left:,} rows were" if left else "It has no live rows"
        why = f"{rows} made with another tokenizer, template or environment." if left else rows
        super().__init__(
            path,
            f"pool.start_from: nothing in {path} can be replayed here. {why}",
            "Use a store of the same model and environment, or set pool.start_from=none.",
        )


class EmptyPool(StoreError):
    """There is nothing to draw from."""

    def __init__(self, path: Path | str) -> None:
        super().__init__(
            path,
            f"{path} holds no live trajectories.",
            "Train a while first, or import some with: recollect pool import FILE",
        )
