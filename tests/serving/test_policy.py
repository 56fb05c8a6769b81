"""A served policy and the real `openai` client: what an agent does there trains."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from recollect.config.loading import load_config
from recollect.envs.registry import load_environment
from recollect.errors import BadRequest
from recollect.models.loading import load_policy
from recollect.serving.asking import read_request
from recollect.serving.http import PolicyServer
from recollect.serving.opening import open_service
from recollect.store import open_reader, open_store
from recollect.store.records import Query
from recollect.train.folder import RunFolder
from recollect.trajectory import Trajectory
from recollect.types import RunId, SegmentKind
from train.small import LETTERS, make_config, make_model, run_to_end

openai = pytest.importorskip("openai")


class Served:
    """A server in a thread, its store, and a client."""

    def __init__(self, server: PolicyServer, store: Path) -> None:
        self.server = server
        self.store = store
        self.client = openai.OpenAI(base_url=server.url, api_key="none", max_retries=0)

    def ask(self, *messages: dict[str, Any], **options: Any) -> Any:
        options = {"max_tokens": 12, **options}
        return self.client.chat.completions.create(model="any", messages=list(messages), **options)

    def reward(self, id_: str, **body: Any) -> Any:
        return self.client.post(f"/trajectories/{id_}", body=body, cast_to=object)

    def rows(self) -> list[Trajectory]:
        with open_reader(self.store) as reader:
            return reader.get([row.id for row in reader.rows(Query(), None, 1000).rows])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of a small model."""
    folder = tmp_path_factory.mktemp("runs")
    model = make_model(folder / "model")
    run_to_end(folder / "first", make_config(model, "eval.every=0", "run.steps=2"))
    return folder / "first"


@pytest.fixture
def served(run: Path, tmp_path: Path) -> Iterator[Served]:
    yield from _serve(str(run), tmp_path / "served.db")


def _serve(name: str, store: Path) -> Iterator[Served]:
    with open_store(store) as opened:
        service, turn_tokens = open_service(name, opened, None, seed=3)
        with PolicyServer(service, 0, turn_tokens) as server:
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
            thread.start()
            try:
                yield Served(server, store)
            finally:
                server.shutdown()
                thread.join()
                service.close()


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def _logprobs(run: Path, row: Trajectory) -> np.ndarray:
    """Log-probs of a row's sampled tokens by one plain pass of transformers over all of it."""
    from recollect.train.checkpoint import newest_checkpoint

    checkpoint = newest_checkpoint(RunFolder(run).checkpoints)
    assert checkpoint is not None
    model = load_policy(str(checkpoint.folder)).model.eval()
    ids = torch.tensor(row.tokens.astype(np.int64))[None]
    with torch.no_grad():
        logits = model(ids).logits[0].log_softmax(-1)
    picked = logits[:-1].gather(1, ids[0, 1:, None])[:, 0].numpy()
    return picked[row.sampled[1:]]


# -- the promise ----------------------------------------------------------------------------


def test_what_an_agent_does_with_the_openai_client_trains(
    served: Served, run: Path, tmp_path: Path
) -> None:
    """An agent plays tasks of the run's environment by itself, and another run learns from it."""
    environment = load_environment(LETTERS)
    for task in list(environment.tasks("train"))[:3]:
        for attempt in range(4):
            episode = environment.start(task, seed=attempt)
            messages = [{"role": m.kind.value, "content": m.text} for m in episode.opening.messages]
            while True:
                found = served.ask(*messages, metadata={"task": task.id}, max_tokens=8)
                turn = episode.respond(found.choices[0].message.content or "")
                if turn.done or found.choices[0].finish_reason == "length":
                    break
                messages.append(found.choices[0].message.model_dump(exclude_none=True))
                messages += [{"role": m.kind.value, "content": m.text} for m in turn.messages]
            score = episode.score()
            served.reward(found.id, reward=score.reward, success=attempt == 0 or score.success)
    rows = served.rows()
    assert len(rows) == 12
    for row in rows:
        assert row.logprobs is not None
        np.testing.assert_allclose(_logprobs(run, row), row.logprobs, atol=2e-4)
        assert row.policy_version == 2
        assert row.environment_version == environment.version
    known = {task.key for task in environment.tasks("train")}
    assert {row.task for row in rows} <= known

    served.server.shutdown()
    flags = [f"pool.start_from={served.store}", "replay.modes=[mix]", "replay.mix_ratio=0.5"]
    base = RunFolder(run).load().model.name
    config = make_config(Path(base), "eval.every=0", *flags)
    run_to_end(tmp_path / "second", config)
    with open_reader(tmp_path / "second" / "store.db") as reader:
        used = [use for step in (1, 2, 3) for use in reader.uses(RunId("second"), step)]
    assert {use.trajectory for use in used} & {row.id for row in rows}


def test_tokens_are_those_that_were_sampled_and_never_made_from_text_again(
    served: Served, run: Path
) -> None:
    first = served.ask(user("Letters."), logprobs=True, max_tokens=200)
    said = first.choices[0]
    assert said.finish_reason == "stop"
    assert len(said.logprobs.content) == len(said.token_ids)
    second = served.ask(
        user("Letters."), said.message.model_dump(exclude_none=True), user("More."), max_tokens=5
    )
    served.reward(second.choices[0].trajectory, reward=0.25)
    (row,) = served.rows()
    kinds = [segment.kind for segment in row.segments]
    assert kinds == [SegmentKind.USER, SegmentKind.ASSISTANT] * 2
    sampled = row.tokens[row.sampled].tolist()
    assert sampled == [*said.token_ids, *second.choices[0].token_ids]
    assert row.tokens.tolist() == [*second.prompt_token_ids, *second.choices[0].token_ids]
    assert row.logprobs is not None
    told = [entry.logprob for entry in said.logprobs.content]
    np.testing.assert_array_equal(row.logprobs[: len(told)], np.array(told, dtype=np.float32))
    assert (row.reward.value, row.success) == (0.25, False)


def test_many_answers_at_once_are_a_group(served: Served) -> None:
    found = served.ask(user("Letters."), n=6)
    assert len(found.choices) == 6
    assert len({tuple(choice.token_ids) for choice in found.choices}) > 1
    for choice in found.choices:
        served.reward(choice.trajectory, reward=1.0)
    rows = served.rows()
    assert len({row.id for row in rows}) == 6
    assert len({row.group for row in rows}) == len({row.task for row in rows}) == 1
    assert all(row.success for row in rows)


def test_agents_at_the_same_time_do_not_mix(served: Served) -> None:
    found: dict[int, Any] = {}

    def work(number: int) -> None:
        found[number] = served.ask(user(f"Letters {number}."), max_tokens=6 + number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, each in found.items():
        assert len(each.choices[0].token_ids) <= 6 + number
        served.reward(each.id, reward=float(number), success=False)
    texts = {row.segments[0].text: row.reward.value for row in served.rows()}
    assert texts == {f"Letters {n}.": float(n) for n in range(6)}


def test_an_answer_can_be_continued_twice(served: Served) -> None:
    first = served.ask(user("Letters."), max_tokens=200)
    message = first.choices[0].message.model_dump(exclude_none=True)
    ids = [
        served.ask(user("Letters."), message, user(more)).choices[0].trajectory
        for more in ("One.", "Two.", "Two.")
    ]
    for id_ in (first.choices[0].trajectory, *ids):
        served.reward(id_, reward=0.0)
    rows = served.rows()
    assert len(rows) == 4
    start = rows[0].tokens.tolist()
    assert all(row.tokens.tolist()[: len(start)] == start for row in rows)


def test_tools_are_calls_that_openai_understands(tmp_path: Path) -> None:
    """The built-in model writes calls; they come back as tool_calls and are answered by id."""
    environment = load_environment("desk:airline", size=20)
    task = next(environment.tasks("train"))
    opening = environment.start(task, 0).opening
    messages = [{"role": m.kind.value, "content": m.text} for m in opening.messages]
    tools = [tool.schema() for tool in opening.tools]
    for each in _serve("tiny", tmp_path / "served.db"):
        for _ in range(20):
            found = each.ask(*messages, tools=tools, max_tokens=40)
            if found.choices[0].finish_reason == "tool_calls":
                break
        (call,) = found.choices[0].message.tool_calls
        json.loads(call.function.arguments)
        message = found.choices[0].message.model_dump(exclude_none=True)
        answer = {"role": "tool", "tool_call_id": call.id, "content": "ok"}
        last = each.ask(*messages, message, answer, tools=tools)
        each.reward(last.id, reward=1.0)
        (row,) = each.rows()
        names = [s.name for s in row.segments if s.kind is SegmentKind.TOOL]
        assert names == [call.function.name]
        assert row.segments[-3].calls[0].name == call.function.name


# -- what is refused ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"stream": True}, "stream"),
        ({"stop": ["x"]}, "stop"),
        ({"temperature": -1.0}, "temperature"),
        ({"n": 0}, "n: must be"),
        ({"logprobs": 5}, "logprobs: must be"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"presence_penalty": 0.5}, "presence_penalty"),
        ({"extra_body": {"unheard_of": 1}}, "unheard_of"),
        ({"tools": [{"type": "function"}]}, "tools"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
    ],
)
def test_what_would_be_ignored_is_refused(
    served: Served, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(openai.BadRequestError, match=words):
        served.ask(user("Letters."), **options)


def test_conversations_that_were_not_sampled_here_are_refused(served: Served) -> None:
    strange = {"role": "assistant", "content": "I was somebody else."}
    with pytest.raises(openai.BadRequestError, match="not sampled here"):
        served.ask(user("Letters."), strange, user("More."))
    with pytest.raises(openai.BadRequestError, match="nothing to answer"):
        served.ask(user("Letters."), strange)
    with pytest.raises(openai.BadRequestError, match="is not text"):
        served.ask({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]})
    with pytest.raises(openai.BadRequestError, match="tokens"):
        served.ask(user("long " * 5000))


@pytest.mark.parametrize(
    ("message", "member"),
    [
        ({"role": "tool", "content": "a", "tool_call_id": ["a"]}, "messages[0].tool_call_id"),
        ({"role": "assistant", "content": "a", "tool_calls": 5}, "messages[0].tool_calls"),
        ({"role": ["user"], "content": "a"}, "messages[0].role"),
    ],
)
def test_a_member_of_the_wrong_type_is_named(message: dict[str, Any], member: str) -> None:
    with pytest.raises(BadRequest) as caught:
        read_request({"messages": [message, user("Go on.")]}, 8)
    assert (caught.value.member, caught.value.status) == (member, 400)


@pytest.mark.parametrize("how", [{"temperature": 0}, {"extra_body": {"top_k": 1}}])
def test_a_greedy_answer_is_given_but_not_kept(served: Served, how: dict[str, Any]) -> None:
    """Its log-probs are those of another policy than the one that chose it."""
    found = served.ask(user("Letters."), **how)
    with pytest.raises(openai.ConflictError, match="chosen, not sampled"):
        served.reward(found.id, reward=1.0)
    assert served.rows() == []


def test_an_answer_has_one_score(served: Served) -> None:
    id_ = served.ask(user("Letters.")).id
    served.reward(id_, reward=1.0)
    served.reward(id_, reward=1.0)
    with pytest.raises(openai.ConflictError, match="another score"):
        served.reward(id_, reward=0.0)
    assert [row.reward.value for row in served.rows()] == [1.0]


def test_sampling_stays_the_same_within_a_conversation(served: Served) -> None:
    first = served.ask(user("Letters."), max_tokens=200)
    message = first.choices[0].message.model_dump(exclude_none=True)
    with pytest.raises(openai.BadRequestError, match="temperature"):
        served.ask(user("Letters."), message, user("More."), temperature=0.5)


def test_tools_stay_the_same_within_a_conversation(served: Served) -> None:
    """Those of a later request would never be read; to ask for none ends the calls."""
    tools = [{"type": "function", "function": {"name": name}} for name in ("seat", "meal")]
    first = served.ask(user("Letters."), tools=tools[:1], max_tokens=200)
    message = first.choices[0].message.model_dump(exclude_none=True)
    with pytest.raises(openai.BadRequestError, match="tools: may not change"):
        served.ask(user("Letters."), message, user("More."), tools=tools)
    served.ask(user("Letters."), message, user("More."), tools=tools[:1])
    served.ask(user("Letters."), message, user("More."))


def test_a_twin_that_is_sampled_otherwise_is_in_nobodys_way(served: Served) -> None:
    """Two agents ask the same and get the same short answer, each at its own temperature."""
    begun = [user("Letters.")]
    texts: dict[float, set[str]] = {}
    for temperature in (1.0, 0.9):
        found = served.ask(*begun, temperature=temperature, n=32, max_tokens=200)
        whole = [each for each in found.choices if each.finish_reason == "stop"]
        texts[temperature] = {each.message.content for each in whole}
    shared = sorted(texts[1.0] & texts[0.9])
    assert shared, "no answer was given at both temperatures"
    said = {"role": "assistant", "content": shared[0]}
    for temperature in (0.9, 1.0, 0.9, 1.0):
        served.ask(*begun, said, user("More."), temperature=temperature)


@pytest.fixture
def begun_alike(served: Served) -> list[dict[str, Any]]:
    """Two tasks that begin with the same words and have an answer in common, one group in each."""
    begun = [user("Letters.")]
    texts: list[set[str]] = []
    for metadata in ({"task": "A", "group": "one"}, {"task": "B", "group": "two"}):
        found = served.ask(*begun, metadata=metadata, n=32, max_tokens=200)
        whole = [each for each in found.choices if each.finish_reason == "stop"]
        texts.append({each.message.content for each in whole})
    shared = sorted(texts[0] & texts[1])
    assert shared, "no answer was given in both tasks"
    return [*begun, {"role": "assistant", "content": shared[0]}, user("More.")]


@pytest.mark.parametrize("named", ["task", "group", "both"])
def test_attempts_that_begin_alike_stay_with_their_tasks(
    served: Served, begun_alike: list[dict[str, Any]], named: str
) -> None:
    for task, group in (("B", "two"), ("A", "one"), ("B", "two"), ("A", "one")):
        labels = {"task": task, "group": group}
        metadata = labels if named == "both" else {named: labels[named]}
        found = served.ask(*begun_alike, metadata=metadata)
        served.reward(found.id, reward=1.0 if task == "A" else 0.0)
    with open_reader(served.store) as reader:
        filed = [(reader.task(row.task).id, row.reward.value) for row in served.rows()]
    assert sorted(filed) == [("A", 1.0), ("A", 1.0), ("B", 0.0), ("B", 0.0)]
    assert len({row.group for row in served.rows()}) == 2


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ({}, "metadata.task: is needed"),
        ({"task": "C"}, "metadata.task: is not the task"),
        ({"task": "A", "group": "two"}, "metadata.group: is not the group"),
    ],
)
def test_a_conversation_is_filed_under_no_other_task(
    served: Served, begun_alike: list[dict[str, Any]], metadata: dict[str, str], words: str
) -> None:
    with pytest.raises(openai.BadRequestError, match=words):
        served.ask(*begun_alike, metadata=metadata)


def test_several_groups_of_a_task_are_told_apart(served: Served) -> None:
    begun = [user("Letters.")]
    texts: list[set[str]] = []
    for group in ("one", "two"):
        found = served.ask(*begun, metadata={"group": group}, n=32, max_tokens=200)
        whole = [each for each in found.choices if each.finish_reason == "stop"]
        texts.append({each.message.content for each in whole})
    said = {"role": "assistant", "content": min(texts[0] & texts[1])}
    with pytest.raises(openai.BadRequestError, match=r"metadata\.group: is needed"):
        served.ask(*begun, said, user("More."))
    served.ask(*begun, said, user("More."), metadata={"group": "two"})


def test_scores_that_make_no_sense_are_refused(served: Served) -> None:
    id_ = served.ask(user("Letters.")).id
    for body, words in (
        ({}, "reward"),
        ({"reward": "much"}, "reward"),
        ({"reward": 10**400}, "reward"),
        ({"reward": 1.0, "parts": {"a": 10**400}}, "parts"),
        ({"reward": 1.0, "success": 1}, "success"),
        ({"reward": 1.0, "sucess": True}, "sucess"),
    ):
        with pytest.raises(openai.BadRequestError, match=words):
            served.reward(id_, **body)
    with pytest.raises(openai.NotFoundError, match="no answer"):
        served.reward("chatcmpl-nobody", reward=1.0)
    assert served.rows() == []


def test_other_names_of_this_machine_and_other_paths_are_refused(served: Served) -> None:
    for host, path, status in (
        ("evil.example:80", "/models", 403),
        ("127.0.0.1", "/nothing", 404),
        ("localhost:9", "/models", 200),
    ):
        request = urllib.request.Request(served.server.url + path, headers={"Host": host})
        try:
            with urllib.request.urlopen(request) as reply:
                found = reply.status
        except urllib.error.HTTPError as error:
            found = error.code
        assert found == status
    assert [model.id for model in served.client.models.list()] == ["first"]


def test_how_long_an_answer_may_get_where_nobody_says(run: Path, tmp_path: Path) -> None:
    """A run's as long as a turn of its agent, which a model by name was never trained to end."""
    with open_store(tmp_path / "served.db") as store:
        _, of_run = open_service(str(run), store, None, seed=3)
        _, of_name = open_service("tiny", store, None, seed=3)
    assert of_run == RunFolder(run).load().rollout.max_turn_tokens
    assert of_name == load_policy("tiny").model.config.max_position_embeddings


def test_a_model_by_name_is_served_without_a_run(tmp_path: Path) -> None:
    assert load_config(None, []).config.model.name == "tiny"
    for each in _serve("tiny", tmp_path / "served.db"):
        found = each.ask(user("Hello."), metadata={"task": "greeting"})
        each.reward(found.id, reward=1.0)
        with open_reader(each.store) as reader:
            (task,) = reader.tasks().values()
        assert (task.environment, task.id) == ("served", "greeting")
