"""Loading what a user points at."""

from __future__ import annotations

import math

import pytest

from recollect.envs.trusted import load_object
from recollect.errors import BadEnvironment


def test_modules_and_files(tmp_path):
    assert load_object("math:sqrt") is math.sqrt
    path = tmp_path / "mine.py"
    path.write_text("from dataclasses import dataclass\n@dataclass\nclass A:\n    x: int = 3\n")
    assert load_object(f"{path}:A")().x == 3


def test_two_files_of_one_name_do_not_meet(tmp_path):
    for folder, value in (("a", 1), ("b", 2)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "same.py").write_text(f"x = {value}")
    assert load_object(f"{tmp_path}/a/same.py:x") == 1
    assert load_object(f"{tmp_path}/b/same.py:x") == 2
    assert load_object(f"{tmp_path}/a/same.py:x") == 1


@pytest.mark.parametrize("spec", ["", "math", ":x", "math:", "math:a b", "math:sqrt()"])
def test_other_forms_are_refused(spec):
    with pytest.raises(BadEnvironment, match="not of the form"):
        load_object(spec)


def test_a_missing_module_is_named():
    with pytest.raises(BadEnvironment, match="module no_such_thing fails to load"):
        load_object("no_such_thing:f")


def test_code_that_ends_the_process_is_a_failure_to_load(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("import sys\nsys.exit(5)\n")
    with pytest.raises(BadEnvironment, match="fails to load: SystemExit: 5"):
        load_object(f"{path}:A")
