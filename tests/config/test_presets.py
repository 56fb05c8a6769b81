"""The presets are valid, described, and hold only differences."""

import pytest

from recollect.config import Config, list_presets, load_config
from recollect.config.presets import preset_text
from recollect.config.settings import all_settings
from recollect.config.without_replay import OFF
from recollect.errors import ConfigMissing


def test_the_list() -> None:
    presets = list_presets()
    assert {"demo", "one_gpu"} <= set(presets)
    assert all(about.endswith(".") and about[0].isupper() for about in presets.values())


@pytest.mark.parametrize("name", list(list_presets()))
def test_each_is_valid_and_not_empty(name: str) -> None:
    loaded = load_config(name)
    assert (loaded.config != Config()) == (name != "off")  # which only takes replay away
    assert (loaded.name, loaded.presets) == (name, (name,))
    assert preset_text(name).startswith("# ")
    # A preset may not be called like a section, or `recollect train NAME` could not be explained.
    assert name not in all_settings()


def test_off_is_what_a_twin_is_without() -> None:
    """One meaning of a run without replay: the same settings, to the same values."""
    off, twin = load_config("off"), load_config(None, OFF)
    assert off.config == twin.config
    said = {key for key, source in off.sources.items() if source.kind == "preset"}
    assert said == {key for key, source in twin.sources.items() if source.kind == "flag"}


def test_the_demo_needs_no_gpu_and_no_network() -> None:
    model = load_config("demo").config.model
    assert (model.name, model.device, model.dtype) == ("tiny", "cpu", "float32")


def test_one_gpu_trains_adapters() -> None:
    model = load_config("one_gpu").config.model
    assert model.lora.rank > 0
    assert model.dtype == "bfloat16"


def test_unknown_names() -> None:
    with pytest.raises(ConfigMissing) as caught:
        preset_text("one-gpu")
    assert "Did you mean one_gpu?" in caught.value.hint
