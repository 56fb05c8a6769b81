"""A user sees the run's own lines; what verl and Ray print is in a file."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from recollect.integrations.verl.screen import apart


def test_lines_are_shown_as_they_come_and_noise_is_kept_apart(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log, lines = tmp_path / "log", tmp_path / "lines"
    shown = ""
    with apart(log, lines):
        os.write(2, b"noise of ours\n")
        child = "import sys; print('noise of a child'); print('its error', file=sys.stderr)"
        subprocess.run([sys.executable, "-c", child], check=True)
        lines.write_text("step 1\n")
        ended = time.monotonic() + 20
        while not shown and time.monotonic() < ended:
            time.sleep(0.05)
            shown = capfd.readouterr().out
        with lines.open("a") as file:
            file.write("step 2\n")
    os.write(1, b"after\n")
    assert shown == "step 1\n", "not only at the end"
    out, err = capfd.readouterr()
    assert (out, err) == ("step 2\nafter\n", "")
    assert sorted(log.read_text().splitlines()) == [
        "its error",
        "noise of a child",
        "noise of ours",
    ]


def test_an_error_leaves_the_screen_as_it_was(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ZeroDivisionError), apart(tmp_path / "log", tmp_path / "lines"):
        os.write(1 // 0, b"noise")
    os.write(1, b"said\n")
    os.write(2, b"wrong\n")
    assert capfd.readouterr() == ("said\n", "wrong\n")
