import random
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from recollect.errors import BadFile, MissingExtra
from recollect.telemetry.plots import PANELS, plot_run

from .samples import Event, evaluation, step
from .test_reading import written


def make_run(folder: Path, seed: int = 0, steps: int = 12) -> Path:
    draw = random.Random(seed)
    events: list[Event] = [evaluation(0, 4)]
    for number in range(1, steps + 1):
        events.append(
            step(
                number,
                steps,
                train__loss=float("nan") if number == 5 else draw.gauss(0, 0.1),
                reward__mean=number / steps + draw.random() / 9,
                policy__entropy=1.0,
                reward__dead_groups=draw.random(),
                rollout__rows_total=64 * number,
            )
        )
        if number % 4 == 0:
            events.append(evaluation(number, 4 + number))
    return written(folder, *events)


def png_size(path: Path) -> tuple[int, int]:
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    return width, height


def test_one_run(tmp_path: Path) -> None:
    out = tmp_path / "pictures" / "curve.png"
    assert plot_run([make_run(tmp_path / "demo")], out) == [out, out.with_suffix(".csv")]
    width, height = png_size(out)
    assert 1500 < width < 2500
    assert 800 < height < 1500
    assert out.stat().st_size > 30_000


def test_both_formats_without_a_suffix(tmp_path: Path) -> None:
    files = plot_run([make_run(tmp_path / "demo")], tmp_path / "curve")
    assert [file.suffix for file in files] == [".png", ".svg", ".csv"]
    svg = files[1].read_text()
    assert svg.startswith("<?xml")
    assert len(svg) > 20_000


def test_groups_become_bands_and_the_same_runs_the_same_bytes(tmp_path: Path) -> None:
    groups = {
        label: [make_run(tmp_path / f"{label}-{seed}", seed) for seed in range(2)]
        for label in ("replay", "_twin $x")
    }
    first, second = (
        plot_run(groups, tmp_path / name, x="rollouts", title="Two", panels=PANELS[:2])
        for name in ("one.svg", "two.svg")
    )
    assert first[0].read_bytes() == second[0].read_bytes()
    assert first[1].read_bytes() == second[1].read_bytes()
    assert "replay-1" in first[1].read_text()


def test_a_run_with_one_step_and_only_some_panels(tmp_path: Path) -> None:
    folder = written(tmp_path / "demo", step(1))
    (picture, table) = plot_run([folder], tmp_path / "curve.png", x="minutes", panels=PANELS[:3])
    assert png_size(picture)[0] > 800
    assert "eval/success" not in table.read_text()


def test_a_torn_last_line_does_not_matter(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "demo")
    with (folder / "metrics.jsonl").open("ab") as file:
        file.write(b'{"kind"')
    assert len(plot_run([folder], tmp_path / "curve.png", panels=PANELS[:1])) == 2


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="nothing to draw"):
        plot_run([written(tmp_path / "empty")], tmp_path / "curve.png")
    with pytest.raises(BadFile, match=r"not in \.gif"):
        plot_run([tmp_path], tmp_path / "curve.gif")
    with pytest.raises(BadFile, match="cannot be read"):
        plot_run([tmp_path / "nowhere"], tmp_path / "curve.png")
    assert not list(tmp_path.glob("curve*"))


def test_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtra, match=r"\[plot\]"):
        plot_run([make_run(tmp_path / "demo")], tmp_path / "curve.png")


def test_the_room_imports_nothing_heavy() -> None:
    code = (
        "import sys, recollect.telemetry.plots, recollect.telemetry.fanout, "
        "recollect.telemetry.progress\n"
        "heavy = {'torch', 'matplotlib', 'wandb', 'swanlab', 'tensorboard', 'trackio'}\n"
        "sys.exit(', '.join(heavy & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
