"""What can go wrong with runs: their models, checkpoints, metrics, comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from recollect.errors.base import RecollectError


class UnusableChatTemplate(RecollectError):
    """A model's chat template cannot be used to build prompts piece by piece."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"The model's chat template cannot be used: {why}.",
            "Choose an instruction-tuned model, or put a template (ChatML will do) into the "
            "model's folder as chat_template.jinja.",
        )


class ModelMissing(RecollectError):
    """A model cannot be loaded from where the configuration says."""

    def __init__(self, name: str, why: str, hint: str = "") -> None:
        super().__init__(
            f"The model {name!r} cannot be loaded: {why.splitlines()[0][:300]}",
            hint
            or "Give `tiny` (built in), `smol` (recollect model fetch smol), a folder made by "
            "save_pretrained, or a hub id that is cached or can be downloaded (without a network, "
            "HF_HUB_OFFLINE=1 asks nobody). `recollect eval` and `recollect serve policy` take a "
            "run's folder too.",
        )


class NotesFromEvaluation(RecollectError):
    """Notes were learnt, or would be, from tasks that are evaluated on."""

    def __init__(self, tasks: int, notes: Sequence[str]) -> None:
        if notes:
            what = f"{len(notes)} live notes were learnt from tasks that this run is evaluated on."
            hint = f"Take them out with: recollect notes ban {' '.join(notes[:3])}"
            hint += " ..." if len(notes) > 3 else ""
        else:
            what = f"{tasks} tasks are both trained and evaluated on, and notes would leak."
            hint = "Set eval.split to another split, eval.every=0, or distill.every=0."
        super().__init__(what, hint)


class FetchFailed(RecollectError):
    """A model could not be fetched or converted; nothing is left of the attempt."""

    def __init__(self, name: str, why: str, hint: str = "") -> None:
        super().__init__(f"The model {name!r} cannot be fetched: {why}.", hint)


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
            f"The last batch is saved in {saved}. Lower train.learning_rate in the run's "
            "config.yaml, or set model.dtype to float32 there, then resume.",
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

    def __init__(self, path: Path | str, why: str = "there is no run", hint: str = "") -> None:
        super().__init__(f"{path}: {why}.", hint or "List runs with: recollect runs ls")


class UnknownTracker(RecollectError):
    """No experiment tracker has this name."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__(f"There is no tracker {name!r}.", f"Known: {', '.join(known)}.")


class TrackerNotReady(RecollectError):
    """A tracker is installed but cannot be used as asked."""

    def __init__(self, name: str, why: str, hint: str) -> None:
        super().__init__(f"{name} cannot be used: {why}.", hint)


class BadComparison(RecollectError):
    """Arms, seeds or a grid that cannot be compared, or a folder that holds another comparison."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(f"This cannot be compared: {what}.", hint)


class ComparisonFailed(RecollectError):
    """A run of a comparison ended with an error; those that finished are kept."""

    def __init__(self, run: Path | str, why: str, log: Path | None) -> None:
        said = (
            "It ended before it wrote anything: a script that compares must do so below "
            'if __name__ == "__main__":, because every run is a process that reads it again.'
            if log is None
            else f"Its output is in {log}."
        )
        super().__init__(
            f"The run {run} failed: {why}.",
            f"{said} Repair the cause, then give the same command again: "
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


class BadContinual(RecollectError):
    """A continual run that cannot be made, or a folder that holds another one."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(f"{what}.", hint)


class BadRequest(RecollectError):
    """A request to a server of ours cannot be answered as it was asked; `member` is to blame."""

    def __init__(self, member: str, why: str, status: int = 400) -> None:
        super().__init__(f"{member}: {why}.")
        self.member = member
        self.status = status


class CannotListen(RecollectError):
    """A server of ours cannot have the address that it was given."""

    def __init__(self, host: str, port: int, why: str) -> None:
        super().__init__(
            f"Nothing can be served at {host}:{port}: {why}.",
            "Choose another port (0 takes any free one) or address, or end what listens there.",
        )


class RankLost(RecollectError):
    """A process of a run that several work on is gone."""

    def __init__(self, rank: int, whom: str, why: str) -> None:
        super().__init__(
            f"Rank {rank} has lost {whom}: {why}",
            "Nothing committed is lost. Go on with: recollect resume RUN, with as many processes "
            "as you like.",
        )


class CannotShard(RecollectError):
    """The weights of a model cannot be cut among processes."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"These weights cannot be cut among processes: {why}.",
            "Set train.parallel=ddp, with which every process holds all of them.",
        )


class RankFailed(RecollectError):
    """A process of a run that several work on could not do its part."""

    def __init__(self, rank: int, why: str) -> None:
        super().__init__(
            f"Rank {rank} has failed: {why}",
            "Repair the cause, then go on with: recollect resume RUN",
        )


class GeneratorLost(RecollectError):
    """Whoever samples for a run, beside its trainer, is gone or does what was not asked."""

    def __init__(self, who: str, why: str, hint: str = "") -> None:
        super().__init__(
            f"{who} cannot sample for this run: {why}.",
            hint or "Nothing committed is lost. Go on with: recollect resume RUN",
        )


class ClusterLost(RecollectError):
    """Something that a run needs on its cluster is gone or stands still."""

    AGAIN = "Nothing committed is lost. Go on with: recollect resume RUN"

    def __init__(self, why: str, hint: str = "") -> None:
        super().__init__(f"The cluster cannot go on: {why}.", hint or self.AGAIN)


class DriverFailed(RecollectError):
    """The driver of a run on a cluster ended with an error, which is said again here."""

    def __init__(self, what: str, hint: str, exit_code: int) -> None:
        super().__init__(what, hint)
        self.exit_code = exit_code
