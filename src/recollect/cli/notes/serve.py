"""`recollect notes serve`: the bank for agents and trainers written elsewhere."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Annotated

import typer

from recollect.cli.output import remark, say
from recollect.cli.serving import check_threshold, served, wait_for_the_end
from recollect.cli.store_option import DEFAULT, StoreOption, examples, store_path

EPILOG = examples(
    "recollect notes serve --store runs/demo-1 --read-only",
    "recollect notes serve --port 8002 --token-file notes.token",
    "RECOLLECT_NOTES_TOKEN=$(cat notes.token) recollect train demo --method ei "
    "notes.remote=http://127.0.0.1:8002 distill.by=remote",
)
VARIABLE = "RECOLLECT_NOTES_TOKEN"
_LEAST = 16  # characters of a token


def serve(
    port: Annotated[int, typer.Option(help="Port; 0 = any free one.", min=0, max=65535)] = 8002,
    listen: Annotated[
        str, typer.Option(help="Address to listen on; other machines reach others than loopback.")
    ] = "127.0.0.1",
    name: Annotated[
        list[str] | None,
        typer.Option("--name", help="A further name that requests may call this server by."),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(help="File with the token; made, for you alone, where it is not there."),
    ] = None,
    no_token: Annotated[
        bool, typer.Option("--no-token", help="Want no token; on a loopback address only.")
    ] = False,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Only give notes out; a run may go on writing.")
    ] = False,
    files: Annotated[
        Path | None,
        typer.Option(help="Folder that dump and load may use; without it they are refused."),
    ] = None,
    min_trust: Annotated[
        float, typer.Option(help="Notes trusted less are not given out.", min=0, max=1)
    ] = 0.5,
    trust: Annotated[
        float | None,
        typer.Option(help="Trust of notes that are sent in.", min=0, max=1, show_default="0.5"),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            help="Score from which an attempt that is sent in is a success.", show_default="1.0"
        ),
    ] = None,
    store: StoreOption = DEFAULT,
) -> None:
    """Serve the bank over HTTP, with the task-memory calls of ReMe, on this machine only.

    POST /retrieve_task_memory, /summary_task_memory, /vector_store, /record_task_memory and
    /delete_task_memory; see docs/notes.md. Requests carry Authorization: Bearer TOKEN. The token is
    $RECOLLECT_NOTES_TOKEN, or that of --token-file, or a new one that is printed. Ctrl-C ends, when
    what is being answered is answered.
    """
    from contextlib import ExitStack

    from recollect.notes.service.calls import NoteService, ServiceRules
    from recollect.notes.service.server import NoteServer
    from recollect.notes.store_bank import StoreBank
    from recollect.store import open_reader, open_store
    from recollect.wire.guard import LOOPBACK_NAMES, Guard

    if read_only and (trust is not None or threshold is not None):
        raise typer.BadParameter("--trust and --threshold are for what is sent in; not --read-only")
    trust = 0.5 if trust is None else trust
    threshold = 1.0 if threshold is None else threshold
    check_threshold(threshold)
    is_local = listen in ("127.0.0.1", "localhost")
    if no_token and not is_local:
        raise typer.BadParameter("--no-token goes with a loopback address only")
    if no_token and token_file is not None:
        raise typer.BadParameter("--no-token or --token-file, not both")
    if files is not None and not files.is_dir():
        raise typer.BadParameter(f"--files: {files} is no folder")
    token = None if no_token else _token(token_file)
    names = (*LOOPBACK_NAMES, listen.lower(), *(each.lower() for each in name or ()))
    rules = ServiceRules(min_trust, trust, threshold, files)
    path = store_path(store)
    with ExitStack() as stack:
        server = NoteServer(None, (listen, port), Guard(token, names))
        stack.callback(server.server_close)
        # Only now, so that a port that cannot be had leaves no store behind.
        opened = stack.enter_context(open_reader(path) if read_only else open_store(path))
        server.service = NoteService(StoreBank(opened), rules)
        stack.enter_context(served(server, "recollect-notes"))
        say(server.url)
        remark(f"Notes of {path}{', to read only' if read_only else ''}; Ctrl-C ends.")
        if not is_local:
            remark("Other machines can reach it, and nothing is encrypted on the way.")
        wait_for_the_end()
    remark("Stopped.")


def _token(file: Path | None) -> str:
    """Find the token, or make one: into the file where there is to be one, else onto the screen."""
    if file is None:
        from recollect.wire.secret import secret

        given = secret(VARIABLE)
        if given:
            return _checked(given, f"${VARIABLE}")
        made = secrets.token_urlsafe(32)
        remark(f"Token: {made}")
        return made
    if file.exists():
        text = file.read_text(encoding="utf-8", errors="replace")  # what is replaced is refused
        return _checked(text.strip(), str(file))
    made = secrets.token_urlsafe(32)
    # Nobody else may ever read it, not even for a moment.
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as sink:
        sink.write(made + "\n")
    remark(f"A new token is in {file}.")
    return made


def _checked(token: str, where: str) -> str:
    if len(token) < _LEAST or not token.isascii() or not token.isprintable() or " " in token:
        raise typer.BadParameter(f"{where}: a token has {_LEAST} or more characters, no spaces")
    return token
