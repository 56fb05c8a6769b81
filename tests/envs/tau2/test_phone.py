from __future__ import annotations

import pytest

from recollect.envs.tau2.phone import find_calls, write_call
from recollect.envs.tools import Call

NAMES = ("toggle_data", "toggle_data_saver_mode", "set_network_mode_preference", "reboot_device")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Please run toggle_data() now.", [Call("toggle_data", {})]),
        ("Could you toggle data saver mode?", [Call("toggle_data_saver_mode", {})]),
        (
            'Use `set_network_mode_preference(mode="4g_5g_preferred")`.',
            [Call("set_network_mode_preference", {"mode": "4g_5g_preferred"})],
        ),
        (
            "set_network_mode_preference(mode=4g_only, n=2, b=true)",
            [Call("set_network_mode_preference", {"mode": "4g_only", "n": 2, "b": True})],
        ),
        ("Toggle Data, then reboot-device.", [Call("toggle_data", {}), Call("reboot_device", {})]),
        ("Please run toggle_data() now, İlker.", [Call("toggle_data", {})]),  # grows in lower case
        ("Is your data on?", []),
        ("untoggle_datas", []),
        ("", []),
    ],
)
def test_calls_are_found(text: str, found: list[Call]) -> None:
    assert list(find_calls(text, NAMES, 5)) == found


def test_no_more_than_asked_for() -> None:
    assert len(find_calls("toggle_data " * 50, NAMES, 3)) == 3


def test_without_tools_there_is_nothing_to_find() -> None:
    assert find_calls("toggle_data()", (), 3) == ()


@pytest.mark.parametrize("arguments", [{}, {"mode": "x"}, {"gb": 2.0, "on": True, "a": "b c"}])
def test_what_is_written_is_read(arguments: dict[str, object]) -> None:
    text = write_call("toggle_data", arguments)  # type: ignore[arg-type]
    assert find_calls(text, NAMES, 1) == (Call("toggle_data", arguments),)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text", ["toggle_data(" * 5000, "İ toggle_data(a=\u0131)", "toggle_data(\ud800=1)"]
)
def test_garbage_does_not_raise(text: str) -> None:
    find_calls(text, NAMES, 5)
