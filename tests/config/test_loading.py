"""Layers, provenance of every kind, and errors that name the file and the line."""

from pathlib import Path

import numpy as np
import pytest

from recollect.config import Config, load_config
from recollect.config.values import values_of
from recollect.errors import BadConfig, BadConfigFile, ConfigMissing


def write(folder: Path, text: str, name: str = "mine.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_every_value_says_where_it_comes_from(tmp_path: Path) -> None:
    path = write(tmp_path, "preset: demo\nrun:\n  seed: 5\nenvironment:\n  options:\n    size: 9\n")
    loaded = load_config(path, ["run.steps=7", "environment.options.shaped=true"])
    texts = {key: source.text for key, source in loaded.sources.items()}
    assert list(texts) == list(values_of(loaded.config))
    assert texts["run.folder"] == "default"
    assert texts["model.device"] == "preset demo, line 8"
    assert texts["run.seed"] == f"{path}:3"
    assert texts["environment.options.size"] == f"{path}:6"
    assert texts["run.steps"] == "flag run.steps=7"
    assert texts["environment.options.shaped"] == "flag environment.options.shaped=true"
    assert {source.kind for source in loaded.sources.values()} == {
        "default", "preset", "file", "flag",
    }  # fmt: skip
    assert (loaded.presets, loaded.name) == (("demo",), "mine")


def test_code_is_a_source_too() -> None:
    loaded = load_config({"run": {"steps": 3}, "environment": {"levels": (1, 2)}})
    assert loaded.sources["run.steps"].text == "code"
    assert loaded.config.environment.levels == (1, 2)
    assert (loaded.presets, loaded.name) == ((), "run")


def test_paths_may_be_text(tmp_path: Path) -> None:
    path = write(tmp_path, "run: {steps: 3}\n", "my config.yaml")
    assert load_config(str(path)).config == load_config(path).config
    assert load_config(path).name == "my-config"


def test_a_section_with_nothing_in_it_is_harmless(tmp_path: Path) -> None:
    assert load_config(write(tmp_path, "train:\n  # eps: 1\nrun:\n")).config == Config()


def test_numbers_with_exponents_are_numbers(tmp_path: Path) -> None:
    path = write(tmp_path, "train:\n  learning_rate: 1e-3\n  eps: 1E-9\n")
    assert load_config(path).config.train.learning_rate == 1e-3


def test_presets_stack_and_the_file_wins(tmp_path: Path) -> None:
    path = write(tmp_path, "preset: [demo, one_gpu]\nrun:\n  steps: 30\n")
    loaded = load_config(path)
    assert loaded.config.model.device == "cuda"
    assert loaded.config.environment.levels == (1,)
    assert loaded.config.run.steps == 30
    assert loaded.presets == ("demo", "one_gpu")


def test_flags_choose_presets(tmp_path: Path) -> None:
    path = write(tmp_path, "preset: demo\nrun:\n  steps: 30\n")
    replaced = load_config(path, ["preset=one_gpu"])
    assert replaced.presets == ("one_gpu",)
    assert (replaced.config.environment.levels, replaced.config.run.steps) == (None, 30)
    assert load_config(path, ["preset+=one_gpu"]).presets == ("demo", "one_gpu")
    assert load_config(path, ["preset=none"]).presets == ()
    assert load_config("demo", ["preset+=one_gpu"]).name == "demo-one_gpu"
    assert load_config(None, ["preset=demo"]).config == load_config("demo").config
    assert load_config(None, ["preset=demo"]).name == "demo"
    assert load_config({"preset": "demo"}).config == load_config("demo").config


def test_a_files_list_and_options_replace_a_presets(tmp_path: Path) -> None:
    first = load_config("demo", ["environment.options.size=5"]).config
    assert first.environment.levels == (1,)
    path = write(tmp_path, "preset: demo\nenvironment:\n  levels: [4]\n  options: {}\n")
    loaded = load_config(path)
    assert loaded.config.environment.levels == (4,)
    assert loaded.sources["environment.options"].text == f"{path}:4"


@pytest.mark.parametrize(
    ("text", "line", "what", "hint"),
    [
        ("run:\n  stepz: 3\n", 2, "run.stepz is not a setting", "Did you mean run.steps?"),
        ("run:\n  lr: 3\n", 2, "run.lr is not", "Did you mean train.learning_rate?"),
        ("trian:\n  eps: 3\n", 1, "trian is not a setting", "Did you mean train?"),
        ("train.eps: 3\n", 1, "train.eps is not a setting", '"train:", and "eps:" indented'),
        ("learning_rate: 3\n", 1, "learning_rate is not", "or train.learning_rate?"),
        ("\nrun: 3\n", 2, "run is a section and cannot be set to 3", "such as run.name"),
        ("run:\n- 3\n", 1, "run is a section and cannot be set to [3]", "such as run.name"),
        ("model:\n  lora: 8\n", 2, "model.lora is a section", "such as model.lora.rank"),
        ("run:\n  steps: many\n", 2, "run.steps must be a whole number, not 'many'", ""),
        ("run:\n  steps: 3.5\n", 2, "run.steps must be a whole number, not 3.5", "from 1"),
        ("run:\n  steps: '3'\n", 2, "run.steps must be a whole number, not '3'", ""),
        ("run:\n  steps: true\n", 2, "run.steps must be a whole number, not True", ""),
        ("run:\n  steps: {a: 1}\n", 2, "run.steps must be a whole number, not {", ""),
        ("run:\n  steps:\n", 2, "not None", "Remove the line"),
        ("train:\n  eps: true\n", 2, "train.eps must be a number, not True", ""),
        ("train:\n  eps: 1e-3x\n", 2, "train.eps must be a number, not '1e-3x'", ""),
        ("train:\n  beta1: 1\n", 2, "train.beta1 must be below 1, not 1", ""),
        ("rollout:\n  top_p: 1.5\n", 2, "rollout.top_p must be at most 1, not 1.5", ""),
        ("model:\n  dtype: bf16\n", 2, "one of auto, float32, bfloat16", "mean bfloat16?"),
        ("algo:\n  aggregation: token_mean\n", 2, "not 'token_mean'", "mean token-mean?"),
        ("algo:\n  advantage: grpo_mean\n", 2, "not 'grpo_mean'", "mean dr_grpo?"),
        ("model:\n  name: ''\n", 2, "model.name must not be empty", ""),
        ("run:\n  name: a7\n  folder: 7\n", 3, "run.folder must be text, not 7", "quotes"),
        ("telemetry:\n  sinks: wandb\n", 2, "must be a list, not 'wandb'", "[wandb]"),
        ("environment:\n  levels:\n  - 1\n  - x\n", 2, "environment.levels[1] must be", ""),
        ("environment:\n  options: [1]\n", 2, "options must be a mapping, not [1]", ""),
        ("preset: dmeo\n", 1, "there is no preset 'dmeo'", "Did you mean demo?"),
        ("preset: [demo, 3]\n", 1, "there is no preset 3", "Presets: baseline, conservative"),
        ("run:\n  steps: 5\ntrain:\n  warmup_steps: 6\n", 4, "train.warmup_steps = 6", "Lower"),
    ],
)
def test_errors_name_file_and_line(
    tmp_path: Path, text: str, line: int, what: str, hint: str
) -> None:
    path = write(tmp_path, text)
    with pytest.raises(BadConfig) as caught:
        load_config(path)
    assert caught.value.what.startswith(f"{path}:{line}")
    assert what in caught.value.what
    assert hint in caught.value.hint
    assert caught.value.what.endswith(".")


@pytest.mark.parametrize("section", ["telemetry", "telemetry.wandb", "run"])
def test_a_trackers_key_is_no_setting(tmp_path: Path, section: str) -> None:
    """It stays in the tracker's own variable; given here it is refused, and not repeated."""
    secret = "hunter2-hunter2"
    lines = "".join(f"{'  ' * n}{name}:\n" for n, name in enumerate(section.split(".")))
    path = write(tmp_path, f"{lines}{'  ' * len(section.split('.'))}api_key: {secret}\n")
    for source, flags in ((path, []), (None, [f"{section}.api_key={secret}"])):
        with pytest.raises(BadConfig, match="not a setting") as caught:
            load_config(source, flags)
        assert secret not in f"{caught.value.what} {caught.value.hint}"


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    path = write(tmp_path, "run:\n  stepz: 3\n  seed: x\ntrain:\n  eps: -1\n")
    with pytest.raises(BadConfig) as caught:
        load_config(path, ["model.nmae=x"])
    assert len(caught.value.problems) == 4
    assert "4 settings are wrong: (1) " in caught.value.what
    for part in (
        f"{path}:2: run.stepz",
        f"{path}:3: run.seed",
        f"{path}:5: train.eps",
        "model.nmae",
    ):
        assert part in caught.value.what


def test_many_problems_are_cut() -> None:
    with pytest.raises(BadConfig, match=r"20 settings are wrong: .* \.\.\. 12 more"):
        load_config({f"x{n}": n for n in range(20)})


def test_an_error_in_a_default_section_names_the_place_above(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match=r"mine.yaml:2 and .*mine.yaml:3: the 64 rows|: the 6 rows"):
        load_config(write(tmp_path, "rollout:\n  tasks_per_step: 3\n  rows_per_task: 2\n"),
                    ["train.minibatches=4"])  # fmt: skip


def test_nothing_of_that_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigMissing) as caught:
        load_config("demmo")
    assert "Did you mean demo?" in caught.value.hint
    assert "one_gpu" in caught.value.hint
    with pytest.raises(ConfigMissing, match="no preset and no file"):
        load_config(tmp_path / "no.yaml")
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "", "mine.yaml")
    with pytest.raises(ConfigMissing) as caught:
        load_config("mine")
    assert "Did you mean mine.yaml?" in caught.value.hint


def test_a_path_object_is_never_a_preset() -> None:
    with pytest.raises(ConfigMissing):
        load_config(Path("demo"))


@pytest.mark.parametrize("name", ["a\0b", "x" * 5000])
def test_impossible_paths(name: str) -> None:
    with pytest.raises(BadConfigFile, match="cannot be read"):
        load_config(name)


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(BadConfigFile, match="cannot be read: Is a directory"):
        load_config(tmp_path)
    big = tmp_path / "big.yaml"
    big.write_bytes(b"#" * 300_000)
    with pytest.raises(BadConfigFile, match="larger than 256 kB"):
        load_config(big)
    (tmp_path / "latin.yaml").write_bytes(b"run:\n  name: \xe9\n")
    with pytest.raises(BadConfigFile, match=r"latin.yaml:2: is not UTF-8"):
        load_config(tmp_path / "latin.yaml")
    with pytest.raises(BadConfigFile, match=r"mine.yaml:2: the key 'run' is given twice"):
        load_config(write(tmp_path, "run: {}\nrun: {}\n"))


class Looped(dict[str, object]):
    """A mapping that holds itself."""


def test_mappings_hold_plain_values_only() -> None:
    looped = Looped()
    looped["run"] = looped
    for bad in (
        {"run": {"steps": object()}},
        {"run": {3: 1}},
        {"run": {"seed": 2**63}},
        {"run": {"name": "\ud800"}},
        {"environment": {"options": {"x": {1, 2}}}},
        looped,
    ):
        with pytest.raises(BadConfig, match="code: "):
            load_config(bad)


def test_subclasses_become_plain() -> None:
    loaded = load_config({"train": {"eps": np.float64(0.5)}})
    assert type(loaded.config.train.eps) is float


def test_dotted_names_in_a_mapping_are_explained() -> None:
    with pytest.raises(BadConfig) as caught:
        load_config({"train.eps": 1.0})
    assert "Settings are nested" in caught.value.hint


def test_a_list_of_nothing_usable_is_not_called_empty_as_well() -> None:
    with pytest.raises(BadConfig) as caught:
        load_config(None, ["environment.levels=[-1]"])
    assert "environment.levels[0] must be at least 0" in str(caught.value)
    assert "empty" not in str(caught.value)
    with pytest.raises(BadConfig, match=r"environment\.levels must not be empty"):
        load_config(None, ["environment.levels=[]"])
