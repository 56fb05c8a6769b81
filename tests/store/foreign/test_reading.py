"""Files as other projects write them, through `import_file` and back out of the store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recollect.errors import BadFile
from recollect.store import open_store
from recollect.store.foreign.sampler import SampledBy
from recollect.store.importing import ImportReport, import_file
from recollect.store.records import Query
from recollect.trajectory import Trajectory
from recollect.types import Origin, SegmentKind, StopReason, Task

SAMPLED = SampledBy("tok-1", policy_version=7, temperature=0.8)


def _lines(path: Path, *documents: Any) -> Path:
    path.write_text("".join(json.dumps(document) + "\n" for document in documents))
    return path


def _import(
    tmp_path: Path, file: Path, **options: Any
) -> tuple[ImportReport, list[Trajectory], dict[str, Task]]:
    with open_store(tmp_path / "pool.db") as store:
        report = import_file(store, file, **options)
        again = import_file(store, file, **options)
        assert (again.added, again.known) == (0, report.added)
        rows = store.get([row.id for row in store.rows(Query(), None, 100).rows])
        assert list(store.verify()) == []
        return report, rows, {task.key: task for task in store.tasks().values()}


# -- verl -----------------------------------------------------------------------------------

VERL = {
    "input": "user\n2 + 2?\nassistant\n",
    "output": "4",
    "gts": "4",
    "score": 1.0,
    "step": 5,
    "acc": True,
    "pred": "4",
}


def test_verl_dumps_are_demos_with_everything_kept(tmp_path: Path) -> None:
    file = _lines(tmp_path / "5.jsonl", VERL, {**VERL, "output": "5", "score": 0.0}, {"input": "x"})
    report, rows, tasks = _import(tmp_path, file, format="verl", environment="gsm8k")
    assert (report.added, report.bad_total, report.bad[0].line) == (2, 1, 3)
    assert {row.origin for row in rows} == {Origin.DEMO}
    assert [(row.reward.value, row.success, row.step) for row in rows] == [
        (1.0, True, 5),
        (0.0, False, 5),
    ]
    assert rows[0].extra["verl"] == {"gts": "4", "acc": True, "pred": "4"}
    assert [s.text for s in rows[1].segments] == [VERL["input"], "5"]
    (task,) = tasks.values()  # one prompt, one task
    assert task.environment == "gsm8k"


@pytest.mark.parametrize("format_", ["verl", "trl", "tau2", "verifiers"])
def test_equal_attempts_of_a_group_all_come_in(tmp_path: Path, format_: str) -> None:
    if format_ == "trl":
        file = _trl(tmp_path / "c", prompt=["a"] * 3, completion=["b"] * 3, exact=[1.0] * 3)
    elif format_ == "tau2":
        document = _tau2()
        del document["simulations"][0]["id"]
        file = _lines(tmp_path / "c", {**document, "simulations": document["simulations"][:1] * 3})
    else:
        file = _lines(tmp_path / "c", *([VERL if format_ == "verl" else _result()] * 3))
    report, rows, tasks = _import(tmp_path, file, format=format_)
    assert (report.added, report.known, len(tasks)) == (3, 0, 1)
    assert len({row.id for row in rows}) == 3


# -- TRL ------------------------------------------------------------------------------------


def _trl(path: Path, **columns: Any) -> Path:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    pq.write_table(pa.table(columns), path)
    return path


def test_trl_completions_sum_their_reward_functions(tmp_path: Path) -> None:
    file = _trl(
        tmp_path / "completions_00003.parquet",
        step=[3, 3, 3],
        prompt=["2 + 2?"] * 3,
        completion=["4", "five", "?"],
        exact=[1.0, 0.0, float("nan")],
        short=[0.5, 0.25, float("nan")],
        note=["a", "b", "c"],
        advantage=[1.0, -1.0, 0.0],
    )
    report, rows, _ = _import(tmp_path, file, format="trl")
    assert (report.added, report.bad_total) == (2, 1)
    assert [row.reward.value for row in rows] == [1.5, 0.25]
    assert rows[0].reward.parts == {"exact": 1.0, "short": 0.5}
    assert rows[0].extra["trl"] == {"note": "a", "advantage": 1.0}
    assert len({row.group for row in rows}) == 1


def test_trl_conversations_stay_conversations(tmp_path: Path) -> None:
    prompt = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    call = {"type": "function", "function": {"name": "wave", "arguments": "{}"}}
    answer = [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "waved", "tool_calls": None},
        {"role": "assistant", "content": "Hello", "tool_calls": None},
    ]
    file = _trl(tmp_path / "c.parquet", prompt=[prompt], completion=[answer], kind=[0.0])
    _, (row,), _ = _import(tmp_path, file, format="trl")
    kinds = [segment.kind.value for segment in row.segments]
    assert kinds == ["system", "user", "assistant", "tool", "assistant"]
    assert row.segments[2].calls[0].name == "wave"


def test_trl_writes_what_we_read(tmp_path: Path) -> None:
    """The real trainer's table, as pandas writes it."""
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(
        {"step": [1], "prompt": ["Hi"], "completion": ["Ho"], "f": [0.5], "advantage": [0.0]}
    )
    frame.to_parquet(tmp_path / "completions_00001.parquet", index=False)
    report, _, _ = _import(tmp_path, tmp_path / "completions_00001.parquet", format="trl")
    assert report.added == 1


def test_a_row_that_cannot_be_kept_leaves_the_others(tmp_path: Path) -> None:
    """A struct column of any kind goes into `extra`; a date has no place in JSON."""
    from datetime import datetime, timezone

    file = _trl(
        tmp_path / "c.parquet",
        step=[1.0, float("nan"), 2.0],
        prompt=["a", "b", "c"],
        completion=["1", "2", "3"],
        exact=[1.0, 1.0, 1.0],
        when=[None, None, datetime(2026, 1, 1, tzinfo=timezone.utc)],
    )
    report, rows, _ = _import(tmp_path, file, format="trl")
    assert [row.step for row in rows] == [1]
    assert [bad.line for bad in report.bad] == [2, 3]
    assert report.bad[0].field == "step"
    assert "datetime" in report.bad[1].reason


# -- tau2 -----------------------------------------------------------------------------------


def _tau2() -> dict[str, Any]:
    say = {"timestamp": "2026-01-01", "cost": None, "usage": None}
    call = {"id": "c1", "name": "get_user", "arguments": {"id": "u1"}, "requestor": "assistant"}
    mine = {"id": "u9", "name": "toggle_data", "arguments": {}, "requestor": "user"}
    messages = [
        {"role": "assistant", "content": "Hi! How can I help?", "tool_calls": None, **say},
        {"role": "user", "content": "My phone is slow.", **say},
        {"role": "assistant", "content": None, "tool_calls": [call], **say},
        {"role": "tool", "id": "c1", "content": "{}", "requestor": "assistant", **say},
        {"role": "assistant", "content": "Turn data on.", **say},
        {"role": "user", "content": None, "tool_calls": [mine], **say},
        {"role": "tool", "id": "u9", "content": "done", "requestor": "user", **say},
        {"role": "user", "content": "It works. ###STOP###", **say},
    ]
    simulation = {
        "id": "sim-1",
        "task_id": "t-7",
        "trial": 0,
        "seed": 300,
        "duration": 1.5,
        "messages": messages,
        "reward_info": {"reward": 1.0},
        "termination_reason": "user_stop",
    }
    broken = {**simulation, "id": "sim-2", "reward_info": None}
    return {
        "timestamp": "2026-01-01",
        "info": {"environment_info": {"domain_name": "telecom"}},
        "tasks": [],
        "simulations": [simulation, broken],
    }


def test_tau2_results_keep_what_the_agent_saw(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    file.write_text(json.dumps(_tau2(), indent=2))
    report, (row,), tasks = _import(tmp_path, file, format="tau2")
    assert (report.added, report.bad_total, report.bad[0].line) == (1, 1, 2)
    assert [segment.kind.value for segment in row.segments] == [
        *("assistant", "user", "assistant", "tool", "assistant", "user"),
    ]
    assert "done" not in [segment.text for segment in row.segments]  # the user's own tool
    assert json.loads(row.segments[2].calls[0].arguments) == {"id": "u1"}
    assert (row.id, row.stop, row.success) == ("sim-1", StopReason.DONE, True)
    task = tasks[row.task]
    assert (task.environment, task.id, task.domain) == ("tau2:telecom", "t-7", "telecom")


def test_several_answers_of_tools_in_one_message(tmp_path: Path) -> None:
    document = _tau2()
    good, other = document["simulations"]
    answers = [{"id": "c1", "content": "{}"}, {"role": "tool", "id": "c2", "content": "[]"}]
    good["messages"][3] = {"role": "tool", "tool_messages": answers}
    wrong = [{"role": "tool", "tool_messages": ["not an object"]}]
    document["simulations"] = [good, {**other, "reward_info": {"reward": 1.0}, "messages": wrong}]
    file = tmp_path / "results.json"
    file.write_text(json.dumps(document))
    report, (row,), _ = _import(tmp_path, file, format="tau2")
    tools = [s for s in row.segments if s.kind is SegmentKind.TOOL]
    assert [(s.text, s.call_id) for s in tools] == [("{}", "c1"), ("[]", "c2")]
    assert [(bad.line, bad.field) for bad in report.bad] == [(2, "messages[0].tool_messages[0]")]


@pytest.mark.parametrize("content", ["{}", "[]", '{"simulations": 3}', "garbage"])
def test_documents_that_are_not_tau2s_are_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "results.json"
    file.write_text(content)
    with open_store(tmp_path / "pool.db") as store, pytest.raises(BadFile, match=r"not"):
        import_file(store, file, format="tau2")


# -- verifiers ------------------------------------------------------------------------------


def _result() -> dict[str, Any]:
    """Two calls of the model with a message of the environment between them."""

    def tokens(read: list[int], written: list[int]) -> dict[str, Any]:
        return {
            "prompt_ids": read,
            "prompt_mask": [0] * len(read),
            "completion_ids": written,
            "completion_mask": [1] * len(written),
            "completion_logprobs": [-0.5] * len(written),
        }

    return {
        "example_id": 4,
        "task": "wordle",
        "prompt": [{"role": "system", "content": "Play."}, {"role": "user", "content": "Go"}],
        "completion": [
            {"role": "assistant", "content": "CRANE"},
            {"role": "user", "content": "No."},
            {"role": "assistant", "content": "SLATE"},
        ],
        "reward": 0.75,
        "metrics": {"turns": 2.0},
        "trajectory": [
            {"tokens": tokens([1, 2, 3], [10, 11])},
            {"tokens": tokens([1, 2, 3, 10, 11, 4], [12])},
        ],
    }


def test_verifiers_results_are_fresh_rows_where_it_is_known_who_sampled(tmp_path: Path) -> None:
    file = _lines(tmp_path / "results.jsonl", _result())
    _, (row,), tasks = _import(tmp_path, file, format="verifiers", sampled=SAMPLED)
    assert row.origin is Origin.FRESH
    assert (row.policy_version, row.tokenizer) == (7, "tok-1")
    assert row.sampling is not None
    assert row.sampling.temperature == 0.8
    assert row.tokens.tolist() == [1, 2, 3, 10, 11, 4, 12]
    assert row.tokens[row.sampled].tolist() == [10, 11, 12]
    np.testing.assert_array_equal(row.logprobs, np.full(3, -0.5, np.float32))
    assert tasks[row.task].id == "4"
    assert row.reward.parts == {"turns": 2.0}


def test_verifiers_results_are_demos_where_it_is_not(tmp_path: Path) -> None:
    file = _lines(tmp_path / "results.jsonl", _result())
    _, (row,), _ = _import(tmp_path, file, format="verifiers")
    assert (row.origin, row.tokens.size) == (Origin.DEMO, 0)
    assert [segment.text for segment in row.segments][-1] == "SLATE"


def test_examples_in_a_prompt_were_not_sampled(tmp_path: Path) -> None:
    """Few-shot answers, and a beginning that was put into the model's mouth."""
    shots = _result()
    shots["prompt"] = [
        {"role": "user", "content": "Go"},
        {"role": "assistant", "content": "AROSE"},
        {"role": "user", "content": "Again"},
    ]
    begun = {**_result(), "example_id": 5}
    begun["prompt"] = [{"role": "user", "content": "Go"}, {"role": "assistant", "content": "I say"}]
    begun["metrics"] = {"turns": 2, "won": True}
    file = _lines(tmp_path / "results.jsonl", shots, begun)
    report, rows, _ = _import(tmp_path, file, format="verifiers", sampled=SAMPLED)
    assert report.bad == ()
    for row in rows:
        assert row.tokens[row.sampled].tolist() == [10, 11, 12]
        assert row.sampled.tolist() == [False] * 3 + [True, True, False, True]
    assert rows[1].reward.parts == {"turns": 2.0, "won": 1.0}


def test_an_answer_to_nothing_is_a_bad_line(tmp_path: Path) -> None:
    file = _lines(tmp_path / "results.jsonl", {**_result(), "prompt": []}, _result())
    report, rows, _ = _import(tmp_path, file, format="verifiers", sampled=SAMPLED)
    assert len(rows) == 1
    assert [str(bad) for bad in report.bad] == [
        "line 1: prompt: is empty: nothing stands before the first answer"
    ]


def test_calls_that_do_not_continue_each_other_are_bad_lines(tmp_path: Path) -> None:
    """A harness that rewrites its history makes several trajectories of one rollout."""
    result = _result()
    result["trajectory"][1]["tokens"]["prompt_ids"][3] = 99
    few = _result()
    few["trajectory"].pop()
    short = _result()
    short["trajectory"][0]["tokens"]["completion_logprobs"].pop()
    file = _lines(tmp_path / "results.jsonl", _result(), result, few, short)
    report, rows, _ = _import(tmp_path, file, format="verifiers", sampled=SAMPLED)
    assert len(rows) == 1
    assert [bad.line for bad in report.bad] == [2, 3, 4]
    assert "does not go on" in report.bad[0].reason


def _trace(**answer: list[Any]) -> dict[str, Any]:
    """One of verifiers' traces of version 1, with mask and log-probs of its answer."""

    def node(role: str, text: str, ids: list[int], parent: int | None, **more: Any) -> Any:
        message = {"role": role, "content": text}
        return {"message": message, "token_ids": ids, "parent": parent, **more}

    return {
        "version": 1,
        "id": "trace-1",
        "task": {"type": "T", "data": {}, "key": "k-1"},
        "agent": {},
        "nodes": [
            node("system", "Play.", [1, 2], None, mask=[False] * 2),
            node("user", "Go", [3], 0, mask=[False]),
            node("assistant", "a lost branch", [9], 1, mask=[True], logprobs=[-3.0]),
            node("assistant", "CRANE", [4, 10, 11], 1, **answer),
        ],
        "rewards": {"won": {"score": 1.0, "weight": 0.5}, "skipped": None},
    }


def test_verifiers_traces_know_the_tokens_of_each_message(tmp_path: Path) -> None:
    trace = _trace(mask=[False, True, True], logprobs=[-0.25, -1.0])
    unscored = {**trace, "id": "trace-2", "rewards": {}}
    file = _lines(tmp_path / "traces.jsonl", trace, unscored)
    report, (row,), _ = _import(tmp_path, file, format="verifiers", sampled=SAMPLED)
    assert [bad.line for bad in report.bad] == [2]
    assert row.id == "trace-1"
    assert row.tokens.tolist() == [1, 2, 3, 4, 10, 11]
    assert row.tokens[row.sampled].tolist() == [10, 11]
    assert [segment.kind for segment in row.segments][-1] is SegmentKind.ASSISTANT
    assert row.logprobs is not None
    assert row.logprobs.tolist() == [-0.25, -1.0]
    assert row.reward.value == 0.5


def test_logprobs_of_every_token_are_taken_by_position(tmp_path: Path) -> None:
    every = _trace(mask=[0, 1, 1], logprobs=[0.0, -1.0, -2.0])
    neither = _trace(mask=[0, 0, 1], logprobs=[-1.0, -2.0]) | {"id": "trace-2"}
    file = _lines(tmp_path / "traces.jsonl", every, neither)
    report, (row,), _ = _import(tmp_path, file, format="verifiers", sampled=SAMPLED)
    assert row.logprobs is not None
    assert row.logprobs.tolist() == [-1.0, -2.0]
    assert row.tokens[row.sampled].tolist() == [10, 11]
    assert [bad.line for bad in report.bad] == [2]
    assert "2 for 3 tokens, of which 1 were sampled" in report.bad[0].reason


def test_one_logprob_too_many_is_a_bad_line(tmp_path: Path) -> None:
    """Cut to the length of the tokens, each might be another token's."""
    long, flags = _result(), _result()
    long["trajectory"][0]["tokens"]["completion_logprobs"].append(-0.5)
    flags["trajectory"][1]["tokens"]["completion_mask"].append(1)
    file = _lines(tmp_path / "results.jsonl", _result(), long, flags)
    report, rows, _ = _import(tmp_path, file, format="verifiers", sampled=SAMPLED)
    assert len(rows) == 1
    assert [str(bad) for bad in report.bad] == [
        "line 2: trajectory.tokens: 3 log-probs and 2 flags for 2 tokens",
        "line 3: trajectory.tokens: 1 log-probs and 2 flags for 1 tokens",
    ]


def test_a_trace_without_tokens_is_a_demo_whoever_sampled_it(tmp_path: Path) -> None:
    trace = _trace()
    for node in trace["nodes"]:
        del node["token_ids"]
    file = _lines(tmp_path / "traces.jsonl", trace)
    _, (row,), _ = _import(tmp_path, file, format="verifiers", sampled=SAMPLED)
    assert (row.origin, row.tokens.size) == (Origin.DEMO, 0)


def test_an_environment_that_is_named_stands_above_the_files(tmp_path: Path) -> None:
    file = _lines(tmp_path / "results.jsonl", _result())
    _, (row,), tasks = _import(tmp_path, file, format="verifiers", environment="games")
    assert (tasks[row.task].environment, tasks[row.task].domain) == ("games", "wordle")


@pytest.mark.parametrize(
    ("format", "option"),
    [("verl", {"sampled": SAMPLED}), ("verl", {"default_reward": 0.0})]
    + [("verifiers", {"default_reward": 0.0}), ("tau2", {"sampled": SAMPLED})],
)
def test_what_another_projects_file_has_no_use_for_is_refused(
    tmp_path: Path, format: str, option: dict[str, Any]
) -> None:
    file = _lines(tmp_path / "5.jsonl", VERL)
    with open_store(tmp_path / "pool.db") as store, pytest.raises(BadFile, match="Leave the"):
        import_file(store, file, format=format, **option)
