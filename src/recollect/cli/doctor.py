"""`recollect doctor`: what is wrong with a run, or with this installation, and what to do."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recollect.cli.failure import FINDINGS
from recollect.cli.output import Column, decimal, remark, say, write_json, write_table
from recollect.cli.store_option import EXITS_WITH_FINDINGS, JsonOption, examples

if TYPE_CHECKING:
    from recollect.doctor.diagnosis import Diagnosis
    from recollect.doctor.finding import Finding
    from recollect.doctor.installation import Check
    from recollect.doctor.speed import Times
    from recollect.proof.promises import Verdict

EPILOG = examples(
    "recollect doctor",
    "recollect doctor runs/demo-1",
    "recollect doctor runs/demo-1 --json",
    "recollect doctor --prove --folder /data",
    exits=EXITS_WITH_FINDINGS,
)


def doctor(
    run: Annotated[
        Path | None, typer.Argument(help="A run's folder; without it, this installation.")
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option("--folder", help="Where stores would be: its disk is tried; else here."),
    ] = None,
    prove: Annotated[
        bool,
        typer.Option("--prove", help="Try the promises here: kills, flips, a full disk, resume."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Find out what is wrong with a run, or with this installation.

    A run may be finished or under way; it is only read. Every finding comes with the figures that
    show it and the settings to change. --prove takes a minute or two, works in a folder of its own
    on the disk of --folder and removes it.
    """
    if run is not None:
        if prove:
            raise typer.BadParameter("--prove tries this installation; leave the run out")
        if folder is not None:
            raise typer.BadParameter("--folder is for this installation; leave the run out")
        _examine(run, as_json)
    elif prove:
        _prove(folder or Path(), as_json)
    else:
        _check(folder or Path(), as_json)


def _examine(run: Path, as_json: bool) -> None:
    from recollect.cli.documents import document
    from recollect.doctor.diagnosis import diagnose
    from recollect.train.folder import RunFolder

    found = diagnose(RunFolder(run))
    if as_json:
        plain = document(found)
        assert isinstance(plain, dict)
        write_json(plain | {"findings": [_finding_document(f) for f in found.findings]})
    else:
        _show(found, run)
    if found.findings:
        raise typer.Exit(FINDINGS)


def _finding_document(finding: Finding) -> dict[str, object]:
    from recollect.cli.documents import document

    plain = document(finding)
    assert isinstance(plain, dict)
    changes = [{**item, "flag": c.flag} for item, c in
               zip(plain["changes"], finding.changes, strict=True)]  # fmt: skip
    return plain | {"changes": changes}


def _show(found: Diagnosis, run: Path) -> None:
    from recollect.config.scalars import spell
    from recollect.doctor.trial import trial_flags
    from recollect.train.folder import STAGE_MARK, RunFolder

    ratio = "" if found.ratio is None else f", replay ratio {found.ratio:.2f}"
    if found.ratio is not None and found.asked_ratio is not None:
        ratio += f" (asked for {found.asked_ratio:.2f})"
    say(f"{found.run}: step {found.step} of {found.steps}, {found.rollouts:,} rollouts{ratio}.")
    say(_where_the_time_goes(found.times))
    for number, finding in enumerate(found.findings, start=1):
        say()
        say(f"{number}. {finding.what} [{finding.area}: {finding.name}]")
        for item in finding.evidence:
            say(f"     {decimal(item.value):>10}  {item.what}{_place(item.steps)}")
        for change in finding.changes:
            say(f"   try {change.flag} (now {spell(change.now)}): {change.why}")
    say()
    if not found.findings:
        say("Nothing wrong was found.")
    else:
        flags = trial_flags(RunFolder(run).load(), found.findings)
        if (run / STAGE_MARK).is_file():
            say("To try the first change of each, give the whole continual run these settings:")
            say(f"  {shlex.join(flags)}")
        else:
            say("To try the first change of each, in a new run:")
            say(f"  {shlex.join([*_train_again(run), *flags])}")
    for text in found.unjudged:
        remark(f"Not judged: {text}.")


def _train_again(run: Path) -> list[str]:
    """Spell the command that trains as a run was trained, on as many machines."""
    from recollect.integrations.verl.workplace import Workplace

    command = ["recollect", "train", str(run / "config.yaml"), "run.name=NAME"]
    cluster = Workplace(run).cluster()
    if cluster is not None:
        command += ["--engine", "verl", "--nodes", str(cluster.nodes), "--gpus", str(cluster.gpus)]
        command += ["--ray", cluster.address] if cluster.address else []
    return command


def _place(steps: str) -> str:
    return f" ({steps})" if steps else ""


def _where_the_time_goes(times: Times) -> str:
    rest = 1 - times.share("collect") - times.share("update")
    return (
        f"A step takes {times.step:.2f} s: {100 * times.share('collect'):.0f} % generation, "
        f"{100 * times.share('update'):.0f} % training, {100 * rest:.0f} % the rest; "
        f"evaluation adds {times.evaluating:.2f} s."
    )


def _check(folder: Path, as_json: bool) -> None:
    from recollect.cli.documents import document
    from recollect.doctor.installation import check_installation

    checks = check_installation(folder)
    if as_json:
        write_json([document(check) for check in checks])
    else:
        _write_checks(checks)
    if any(check.ok is False for check in checks):
        raise typer.Exit(FINDINGS)


def _write_checks(checks: list[Check]) -> None:
    words = {True: "ok", False: "WRONG", None: "not there"}
    write_table(
        [Column("what"), Column("state"), Column("found", narrow="wrap")],
        [(check.name, words[check.ok], check.found) for check in checks],
    )
    for check in checks:
        if check.hint and not check.ok:
            say(f"{check.name}: {check.hint}")


def _prove(folder: Path, as_json: bool) -> None:
    from recollect.cli.documents import document
    from recollect.proof.promises import prove

    verdicts: list[Verdict] = []
    words = {True: "holds", False: "BROKEN", None: "not tried"}
    for verdict in prove(folder):  # without a bar, whose thread would be forked with the writers
        verdicts.append(verdict)
        if not as_json:
            say(f"{words[verdict.holds]:<9}  {verdict.promise}")
            say(f"           {verdict.evidence} ({verdict.seconds:.1f} s)")
    if as_json:
        write_json([document(verdict) for verdict in verdicts])
    if any(verdict.holds is False for verdict in verdicts):
        raise typer.Exit(FINDINGS)
