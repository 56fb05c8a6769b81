"""Commands that install an extra or an update, from where Recollect was installed from."""

from __future__ import annotations

import json
import shlex
from importlib import metadata
from urllib.parse import urlsplit
from urllib.request import url2pathname


def install_command(extra: str) -> str:
    """Say what to type for an extra, such as `pip install -e '/home/me/recollect[plot]'`.

    There is no release in a registry yet, so a bare name would find nothing, or something else:
    pip's own record of the installation says where the source is.
    """
    folder, editable = _source()
    what = f"{folder or 'recollect'}[{extra}]"
    return f"pip install {'-e ' if editable else ''}{shlex.quote(what)}"


def update_command() -> str:
    """Say what to type for a newer Recollect: its source is a checkout, not a registry."""
    folder, editable = _source()
    if not folder:
        return "git pull in its checkout, then pip install ."
    pull = f"git -C {shlex.quote(folder)} pull"
    return pull if editable else f"{pull} && pip install {shlex.quote(folder)}"


def _source() -> tuple[str, bool]:
    """Folder of the source and whether it is installed in place; "" where pip recorded none."""
    try:
        text = metadata.distribution("recollect").read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        text = None
    record = json.loads(text or "{}")
    address = urlsplit(record.get("url", ""))
    if address.scheme != "file" or "dir_info" not in record:
        return "", False
    return url2pathname(address.path), bool(record["dir_info"].get("editable"))
