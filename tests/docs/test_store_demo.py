"""`make demo` works, and says what happened."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

DEMO = Path(__file__).parents[2] / "examples" / "store_demo.py"


def test_the_demo(tmp_path: Path) -> None:
    command = [sys.executable, str(DEMO), "--kills", "2", "--store", str(tmp_path / "demo")]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stderr == ""
    assert "is sound" in result.stdout
    assert "call " in result.stdout
    assert "bit for bit" in result.stdout
    again = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert again.returncode == 2
    assert "name a new folder" in again.stdout
