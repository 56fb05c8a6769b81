"""From our settings to verl's: every one is carried over, or refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from recollect.config.loading import load_config
from recollect.config.presets import list_presets
from recollect.config.schema.config import Config
from recollect.config.settings import Setting, all_settings
from recollect.errors import BadConfig
from recollect.integrations.verl import support
from recollect.integrations.verl.cluster import Cluster
from recollect.integrations.verl.mapping import verl_settings

RUN = Path("/runs/one")


def made(*flags: str) -> Config:
    return load_config(None, ["model.name=tiny", *flags]).config


def told(*flags: str, cluster: Cluster | None = None) -> dict[str, object]:
    config = made(*flags)
    cpu = config.model.device == "cpu"
    found = verl_settings(config, cluster or Cluster(cpu=cpu), RUN)
    keys = [each.key.lstrip("+") for each in found]
    assert len(set(keys)) == len(keys), "one value for each of verl's settings"
    assert all(each.source for each in found)
    return {each.key.lstrip("+"): each.value for each in found}


def refused(*flags: str) -> str:
    with pytest.raises(BadConfig) as caught:
        told(*flags)
    return str(caught.value)


def test_every_setting_of_ours_has_a_place() -> None:
    unknown = [key for key in all_settings() if not support.is_known(key)]
    assert unknown == [], "say in support.py who reads it under verl, or it will be refused"
    twice = [k for k in support.CARRIED if k.partition(".")[0] in support.LOOP | support.LOSS]
    assert twice == []
    assert set(all_settings()) >= support.CARRIED
    assert {r.key for r in support.REFUSED} <= set(all_settings())


def test_a_setting_that_nobody_reads_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(support, "CARRIED", support.CARRIED - {"train.epochs"})
    told()  # at its default it changes nothing
    message = refused("train.epochs=2")
    assert "train.epochs = 2 is not carried over to verl" in message
    assert "default" in message


def test_settings_of_our_own_sampler_are_refused() -> None:
    message = refused("rollout.engine=vllm", "rollout.mismatch_cap=3")
    assert "rollout.engine = vllm is not carried over to verl" in message
    assert "rollout.mismatch_cap = 3" in message


@pytest.mark.parametrize(
    ("flag", "why"),
    [
        ("rollout.top_p=0.9", "log-probs"),
        ("rollout.top_k=50", "log-probs"),
        ("algo.advantage=gae", "critic"),
        ("algo.kl_coef=0.1", "reference"),
        ("algo.entropy_coef=0.01", "replayed tokens"),
        ("train.weight_decay=0.1", "norms"),
        ("draw.choice=lowest_entropy", "entropies"),
        ("draw.choice=highest_entropy", "entropies"),
        ("model.lora.rank=8", "adapters"),
        ("model.name=Qwen/Qwen3-8B", "hub"),
    ],
)
def test_what_would_change_its_meaning_is_refused(flag: str, why: str) -> None:
    message = refused(flag)
    assert message.startswith(flag.partition("=")[0])
    assert why in message


def test_all_that_is_wrong_is_said_at_once() -> None:
    message = refused("rollout.top_p=0.9", "train.weight_decay=0.1", "algo.kl_coef=1.0")
    assert message.startswith("3 settings are wrong")
    for key in ("rollout.top_p", "train.weight_decay", "algo.kl_coef"):
        assert key in message


def test_a_policy_that_writes_notes_is_refused_only_where_it_would() -> None:
    told("distill.by=policy", "distill.every=0")
    assert "distill.by" in refused("distill.by=policy", "distill.every=2")


def test_an_adapter_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text("{}")
    assert "adapters" in refused(f"model.name={tmp_path}")


def test_figures_arrive_where_verl_looks_for_them() -> None:
    found = told(
        "run.steps=7",
        "rollout.temperature=0.8",
        "rollout.max_tokens=500",
        "rollout.batch_rows=24",
        "train.learning_rate=3e-6",
        "train.beta2=0.95",
        "train.eps=1e-6",
        "train.max_grad_norm=0.5",
        "train.pack_tokens=9000",
        "model.gradient_checkpointing=true",
        "algo.aggregation=seq-mean-token-mean",
        cluster=Cluster(nodes=2, gpus=8),
    )
    rollout, actor = "actor_rollout_ref.rollout", "actor_rollout_ref.actor"
    assert found["trainer.total_training_steps"] == 7
    assert found[f"{rollout}.temperature"] == 0.8
    assert found["data.max_response_length"] == 500
    assert found[f"{rollout}.max_num_seqs"] == 24
    assert found[f"{actor}.optim.lr"] == 3e-6
    assert found[f"{actor}.optim.betas"] == [0.9, 0.95]
    assert found[f"{actor}.optim.override_optimizer_config"] == {"eps": 1e-6}
    assert found[f"{actor}.optim.clip_grad"] == 0.5
    assert found[f"{actor}.ppo_max_token_len_per_gpu"] == 9000
    assert found["actor_rollout_ref.model.enable_gradient_checkpointing"] is True
    assert found[f"{actor}.loss_agg_mode"] == "seq-mean-token-mean"
    assert (found["trainer.nnodes"], found["trainer.n_gpus_per_node"]) == (2, 8)
    assert found[f"{rollout}.name"] == "vllm"
    assert found["trainer.device"] == "cuda"
    assert found[f"{rollout}.dtype"] == "bfloat16"


def test_single_precision_is_asked_for_twice() -> None:
    """Told only its model_dtype, verl computes in bfloat16."""
    found = told("model.device=cpu")
    engine = "actor_rollout_ref.actor.fsdp_config"
    assert found[f"{engine}.mixed_precision"] == dict.fromkeys(
        ("param_dtype", "reduce_dtype", "buffer_dtype"), "fp32"
    )
    assert f"{engine}.mixed_precision" not in told()
    assert found["ray_kwargs.ray_init.num_cpus"] == 16, "with eight it was seen to wait for ever"


def test_a_cluster_that_is_up_is_joined() -> None:
    found = told(cluster=Cluster(2, 8, address="auto"))
    assert found["ray_kwargs.ray_init.address"] == "auto"
    assert "ray_kwargs.ray_init.num_cpus" not in found
    assert told()["ray_kwargs.ray_init.address"] == "local", "never somebody else's by chance"


@pytest.mark.parametrize("name", list_presets())
def test_presets_are_carried_over_or_refused_for_a_reason(name: str) -> None:
    config = load_config(name).config
    if all(refusal.takes(config) for refusal in support.REFUSED):
        assert verl_settings(config, Cluster(), RUN)
    else:
        with pytest.raises(BadConfig, match="under verl"):
            verl_settings(config, Cluster(), RUN)


def test_a_new_setting_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    some: Setting = next(iter(all_settings().values()))
    assert not support.is_known(replace(some, key="train.new").key)
    assert not support.is_known("newsection.new")
