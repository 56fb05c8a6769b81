"""The command that installs an extra: of the folder that Recollect was installed from, if any."""

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
