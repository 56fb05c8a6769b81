"""`recollect serve`: a policy for agents written elsewhere."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Annotated

import typer

from recollect.cli.env_options import SetOption, environment_options
from recollect.cli.output import remark, say
from recollect.cli.serving import check_threshold, served, wait_for_the_end
from recollect.cli.store_option import examples, store_path
from recollect.cli.train import require_training

app = typer.Typer(
    help="Serve a policy to agents written elsewhere.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def _group() -> None:
    """Keep `policy` a command of its own, though it is the only one."""


@app.command(
    epilog=examples(
        "recollect serve policy runs/demo-1",
        "recollect serve policy smol --port 8000 --store served.db",
        "OPENAI_BASE_URL=http://127.0.0.1:8000/v1 OPENAI_API_KEY=none python my_agent.py",
    )
)
def policy(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run's folder, or a model.")],
    port: Annotated[
        int, typer.Option(help="Port on 127.0.0.1; 0 = any free one.", min=0, max=65535)
    ] = 0,
    store: Annotated[
        str | None,
        typer.Option(
            "--store",
            "-s",
            metavar="PATH",
            help="Where scored conversations go: a file, a folder, or postgres://...; without "
            "it RUN/served.db, whatever $RECOLLECT_STORE says.",
        ),
    ] = None,
    environment: Annotated[
        str | None,
        typer.Option("--env", metavar="NAME", help="Environment that they belong to; RUN's own."),
    ] = None,
    settings: SetOption = None,
    threshold: Annotated[
        float, typer.Option(help="Reward from which a conversation is a success.")
    ] = 1.0,
    seed: Annotated[int | None, typer.Option(help="Seed of the sampling.", min=0)] = None,
) -> None:
    """Serve a run's newest policy as OpenAI's chat completions, on this machine only.

    Answers carry token ids, and log-probs where asked for. POST {"reward": 1.0} to
    /v1/trajectories/ID, with the id of an answer, to keep its conversation as a trajectory: the
    tokens as they were sampled. A run can begin with them: pool.start_from=RUN/served.db. Name
    the task by metadata={"task": ID} in every request. Ctrl-C ends, when what is being
    answered is answered.
    """
    check_threshold(threshold)
    options = environment_options(settings)
    require_training()
    from contextlib import ExitStack

    from recollect.serving.http import PolicyServer
    from recollect.serving.opening import open_service
    from recollect.store import open_store

    beside = Path(run) / "served.db" if Path(run).is_dir() else Path("served.db")
    where = beside if store is None else store_path(store)
    with ExitStack() as stack:
        chance = secrets.randbelow(2**31) if seed is None else seed
        service, turn_tokens = open_service(run, None, environment, chance, options, remark)
        stack.callback(service.close)
        server = PolicyServer(service, port, turn_tokens, threshold)
        stack.callback(server.server_close)
        # Last, so that a model or port that cannot be had leaves no store behind.
        service.record_in(stack.enter_context(open_store(where)))
        stack.enter_context(served(server, "recollect-policy"))
        say(server.url)
        remark(f"{service.origin.name}, version {service.origin.policy_version}; Ctrl-C ends.")
        remark(f"Scored conversations go to {where}, run {service.origin.run}.")
        wait_for_the_end()
    remark("Stopped.")
