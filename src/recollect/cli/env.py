"""`recollect env`: list environments, check that they keep the contract, play them, write one."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recollect.cli.env_options import SetOption, environment_options
from recollect.cli.failure import FINDINGS
from recollect.cli.output import Column, remark, say, waiting, write_json, write_table
from recollect.cli.stdin import read_stdin_line
from recollect.cli.store_option import EXITS_WITH_FINDINGS, JsonOption, examples
from recollect.cli.untrusted import visible, visible_lines

if TYPE_CHECKING:
    from recollect.envs.base import Environment, Message, Opening
    from recollect.envs.floors import Floor
    from recollect.envs.survey import Cell
    from recollect.envs.transcript import Agent, Transcript
    from recollect.types import Task

app = typer.Typer(
    help="List environments, check them, play them, write your own.",
    epilog="Names: desk, desk:airline, tau2:retail, single_turn:FILE.jsonl, a plug-in's name, or "
    "path/to/file.py:ClassName (whose code is run).",
    no_args_is_help=True,
    rich_markup_mode=None,
)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The environment's name.")]

# Tasks that `play --seed` chooses among.
_CHOICE = 200


def _load(name: str, settings: Sequence[str] | None) -> Environment:
    from recollect.envs.registry import load_environment

    return load_environment(name, **environment_options(settings))


@app.command(
    epilog=examples(
        "recollect env ls", "recollect env ls desk:airline", "recollect env ls desk --json"
    )
)
def ls(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="One environment.")] = "",
    floor_tasks: Annotated[
        int, typer.Option(help="Test tasks per domain and level for the floors.", min=1)
    ] = 100,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a Markdown table.")] = False,
    as_json: JsonOption = False,
    settings: SetOption = None,
) -> None:
    """Show what there is: tasks by domain, level and split, gold lengths, and floors.

    Floors are the success rates of agents without skill, on the test split: nothing (says it
    is done), handover and refuse (the same answer to everybody), random (random tools).
    """
    from recollect.envs.floors import floors
    from recollect.envs.registry import environment_names
    from recollect.envs.survey import survey

    if markdown and as_json:
        raise typer.BadParameter("choose one of --markdown and --json")
    if not name and not as_json and not markdown:
        say("Environments: " + ", ".join(environment_names()))
        say("")
    environment = _load(name or "desk", settings)
    with waiting("counting tasks and playing the floors"):
        cells = survey(environment)
        split = "test" if "test" in environment.splits else environment.splits[-1]
        found = floors(environment, split, floor_tasks)
    if as_json:
        write_json(
            {
                "names": environment_names(),
                "environment": environment.name,
                "version": environment.version,
                "limits": asdict(environment.limits),
                "cells": [asdict(cell) for cell in cells],
                "floors": [asdict(floor) for floor in found],
                "left_out": _left_out(environment),
            }
        )
        return
    columns, rows = _table(environment.splits, cells, found)
    if markdown:
        _write_markdown(columns, rows)
        return
    write_table(columns, rows)
    if name:
        _write_kinds(cells)
        _write_left_out(_left_out(environment))


def _table(
    splits: Sequence[str], cells: Sequence[Cell], floors: Sequence[Floor]
) -> tuple[list[Column], list[list[str]]]:
    agents = list(dict.fromkeys(floor.agent for floor in floors))
    share = {(f.domain, f.level, f.agent): f"{100 * f.success:.1f}%" for f in floors}
    titles = ["level", *splits, "turns", "words", *agents]
    columns = [Column("domain"), *(Column(title, right=True) for title in titles)]
    rows = [
        [
            cell.domain,
            str(cell.level),
            *(str(cell.counts[split]) for split in splits),
            "-" if cell.turns is None else f"{cell.turns:.1f}",
            "-" if cell.words is None else f"{cell.words:.0f}",
            *(share.get((cell.domain, cell.level, agent), "-") for agent in agents),
        ]
        for cell in cells
    ]
    return columns, rows


def _write_markdown(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    say("| " + " | ".join(column.title for column in columns) + " |")
    say("|" + "|".join(" ---: " if column.right else " --- " for column in columns) + "|")
    for row in rows:
        say("| " + " | ".join(row) + " |")


def _left_out(environment: Environment) -> dict[str, str]:
    from recollect.envs.base import OffersLeftOut

    return dict(environment.left_out()) if isinstance(environment, OffersLeftOut) else {}


def _write_left_out(left: Mapping[str, str]) -> None:
    for reason in dict.fromkeys(left.values()):
        ids = [visible(id) for id, why in left.items() if why == reason]
        say("")
        say(f"Left out, because {visible(reason)} ({len(ids)}): {' '.join(ids)}")


def _write_kinds(cells: Sequence[Cell]) -> None:
    rows = [[cell.domain, str(cell.level), " ".join(cell.kinds)] for cell in cells if cell.kinds]
    if rows:
        say("")
        columns = [Column("domain"), Column("level", right=True), Column("kinds", narrow="wrap")]
        write_table(columns, rows)


@app.command(
    epilog=examples(
        "recollect env check desk",
        "recollect env check my_task.py:MyTask --tasks 5",
        "recollect env check single_turn:prompts.jsonl --set reward=rewards.py:exact",
        exits=EXITS_WITH_FINDINGS,
    )
)
def check(
    name: NameArgument,
    tasks: Annotated[int, typer.Option(help="Tasks to try per split.", min=1)] = 20,
    seed: Annotated[int, typer.Option(help="Seed of the episodes.", min=0)] = 0,
    as_json: JsonOption = False,
    settings: SetOption = None,
) -> None:
    """Prove that an environment keeps the contract, or show what it breaks."""
    from recollect.envs.checker import check_environment

    environment = _load(name, settings)
    with waiting("playing"):
        report = check_environment(environment, tasks, seed)
    if as_json:
        write_json({**asdict(report), "ok": report.ok})
    else:
        columns = [Column("check"), Column("tried", right=True), Column("found", right=True)]
        columns.append(Column("promise", narrow="wrap"))
        rows = [[c.name, str(c.tried), str(len(c.findings)), c.promise] for c in report.checks]
        write_table(columns, rows)
        for entry in report.checks:
            for finding in entry.findings[:5]:
                where = f"task {finding.task}: " if finding.task else ""
                say(visible(f"{entry.name}: {where}{finding.problem}"))
            if len(entry.findings) > 5:
                say(f"{entry.name}: and {len(entry.findings) - 5} more (--json has them all)")
        say(f"{name} keeps the contract." if report.ok else f"{name} breaks the contract.")
    if not report.ok:
        raise typer.Exit(FINDINGS)


@app.command(
    epilog=examples(
        "recollect env play desk:airline --level 2",
        "recollect env play desk --task retail:3:cancel-refused:4 --gold",
        "printf '/seat id=B4K7 seat=aisle\\nDone.\\n' | recollect env play desk:airline --json",
    )
)
def play(
    name: NameArgument,
    task: Annotated[str, typer.Option(metavar="ID", help="A task by its id.")] = "",
    level: Annotated[int | None, typer.Option(help="A task of this level.", min=0)] = None,
    split: Annotated[
        str | None, typer.Option(help="A task of this split.", show_default="train")
    ] = None,
    seed: Annotated[int, typer.Option(help="Chooses the task, and its chance.", min=0)] = 0,
    gold: Annotated[bool, typer.Option("--gold", help="Watch the ideal agent instead.")] = False,
    as_json: JsonOption = False,
    settings: SetOption = None,
) -> None:
    """Be the agent: type a message to the user, or a tool call. Ends with the score.

    A call can be typed whole, or short: /seat id=B4K7 seat=aisle. One line is one turn; the
    end of the input (Ctrl-D) walks away.
    """
    from recollect.envs.lookup import TaskLookup
    from recollect.envs.transcript import play as play_episode
    from recollect.types import StopReason

    if task and (level is not None or split is not None):
        raise typer.BadParameter("--task names the task; --level and --split choose among others")
    environment = _load(name, settings)
    known = TaskLookup(environment)
    chosen = known.find(task) if task else _choose(environment, split or "train", level, seed)
    inner = _gold_agent(environment, chosen) if gold else _Person()
    agent = inner if as_json else _Shown(inner, echo=gold)
    if not as_json:
        say(f"Task {visible(chosen.id)}, {chosen.split} split")
    transcript = play_episode(environment, chosen, agent, seed)
    if as_json:
        write_json(_document(transcript))
        return
    left = transcript.stop is StopReason.UNKNOWN  # before the last messages were answered
    for message in transcript.exchanges[-1].turn.messages if not left else ():
        _show(message.name or message.kind.value, message.text)
    parts = ", ".join(f"{key} {value:g}" for key, value in transcript.score.parts.items())
    verdict = "success" if transcript.score.success else "no success"
    stop = "not finished" if left else transcript.stop.value
    say(f"-- {stop}: reward {transcript.score.reward:g}, {verdict}")
    if parts:
        say(f"   {parts}")


def _choose(environment: Environment, split: str, level: int | None, seed: int) -> Task:
    from recollect.errors import UnknownTask

    tasks = environment.tasks(split)
    fitting = list(islice((t for t in tasks if level in (None, t.level)), _CHOICE))
    if not fitting:
        raise UnknownTask(environment.name, f"task in {split} of level", str(level))
    return fitting[seed % len(fitting)]


def _gold_agent(environment: Environment, task: Task) -> Agent:
    from recollect.envs.base import OffersGold
    from recollect.envs.transcript import Script
    from recollect.errors import BadEnvironment

    if not isinstance(environment, OffersGold):
        raise BadEnvironment(environment.name, "offers no gold", "Play it yourself.")
    return Script(environment.gold(task))


class _Person:
    """An agent who types."""

    def begin(self, opening: Opening) -> None:
        """Remember the tools, to read short calls, and tell a person how to type one."""
        self._tools = opening.tools
        if opening.tools and sys.stdin.isatty():
            first = opening.tools[0]
            values = "".join(f" {each.name}=VALUE" for each in first.parameters)
            remark(f"Type /{first.name}{values} for a call, anything else as a message.")

    def act(self, messages: Sequence[Message]) -> str | None:
        """Read one line; None at the end of the input."""
        from recollect.envs.shorthand import expand_call

        if sys.stdin.isatty():
            typer.echo("you> ", nl=False, err=True)
        line = read_stdin_line()
        return expand_call(line.rstrip("\n"), self._tools) if line else None


class _Shown:
    """An agent whose episode is shown on the terminal while it goes on."""

    def __init__(self, inner: Agent, echo: bool) -> None:
        self._inner = inner
        self._echo = echo

    def begin(self, opening: Opening) -> None:
        """Show the tools; `act` shows the messages."""
        self._inner.begin(opening)
        if opening.tools:
            _show("tools", " ".join(spec.signature() for spec in opening.tools))

    def act(self, messages: Sequence[Message]) -> str | None:
        """Show what is new, let the inner agent act, and show that if nobody typed it."""
        for message in messages:
            _show(message.name or message.kind.value, message.text)
        text = self._inner.act(messages)
        if text is not None and self._echo:
            _show("assistant", text)
        return text


def _show(who: str, text: str) -> None:
    for number, line in enumerate(visible_lines(text)):
        say(f"{'' if number else visible(who):>10}  {line}")


def _document(transcript: Transcript) -> dict[str, object]:
    task, score = transcript.task, transcript.score
    return {
        "task": {"id": task.id, "domain": task.domain, "level": task.level, "split": task.split},
        "seed": transcript.seed,
        "messages": [{"role": who, "content": text} for who, text in transcript.lines()],
        "stop": transcript.stop.value,
        "reward": score.reward,
        "success": score.success,
        "parts": dict(score.parts),
    }


@app.command(epilog=examples("recollect env new my_task", "recollect env new my_task --dir envs"))
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Like my_task.")],
    folder: Annotated[Path, typer.Option("--dir", help="Where to write.")] = Path(),
    as_json: JsonOption = False,
) -> None:
    """Write a small working environment and a test for it, to start your own from."""
    from recollect.envs.scaffold import class_name, write_environment

    module, test = write_environment(name, folder)
    if as_json:
        write_json({"name": f"{module}:{class_name(name)}", "files": [str(module), str(test)]})
        return
    say(f"Wrote {module} and {test}. Next:")
    say(f"  recollect env play {module}:{class_name(name)}")
    say(f"  recollect env check {module}:{class_name(name)}")
    remark("Checking and playing run the file's code.")
