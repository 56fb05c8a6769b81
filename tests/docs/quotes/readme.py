"""README.md and README.zh-CN.md: the same figures, said twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, TypeAlias

from .spelling import CHINESE, WORDS, Quoting, Results, generated, percent, ratio, reached

# Figures by name, with counts in the words of a language.
Spelt: TypeAlias = dict[str, Any]
DOMAINS = ("airline", "retail", "telecom")

PROMISES = (
    "survives kill -9 | {kills} kills, {rows} rows read back | {lost} |",
    "hurts no other | {flips} bytes flipped in records, {anywhere} anywhere in a store | {missed} |",
    "on a CPU | {resumes} runs of other seeds, killed and resumed | {differing} |",
    "as the ledger says | all {orders} orders, from {starts} starts | {unlike} |",
    "gradient | {cases} cases in which every possible answer is enumerated | {wrong} |",
)
PROMISES_IN_CHINESE = (
    "kill -9 | 杀死 {kills} 次，读回 {rows} 行 | {lost} |",
    "不伤及其他 | 在记录中翻转 {flips} 个字节，在存储文件任意处 {anywhere} 个 | {missed} |",
    "逐位相同 | {resumes} 个不同种子的运行，杀死并恢复 | {differing} |",
    "概率被抽取 | 全部 {orders} 种顺序，{starts} 种起点 | {unlike} |",
    "梯度训练 | {cases} 种情形，所有可能的回答逐一枚举 | {wrong} |",
)
GAIN = (
    "each tuned, {seeds} seeds | where success is rare: all {with_replay} reach the target, the "
    "strongest without replay {strongest}, the next strongest {next}, with {rare} times the rollouts "
    "(95 % interval from {rare_low}). Elsewhere the strongest needs {often} times ({often_low} to "
    "{often_high}), but less time unless generation is what costs it: `replay_gain.json` |",
    "earlier run of a stronger model | all {inherited} get there after {first:.0f} to {last:.0f} rollouts, "
    "the strongest without replay {without} of {seeds} within {bound}: `replay_gain.json` |",
)
GAIN_IN_CHINESE = (
    "各自调优，{seeds}个种子 | 成功稀少时：{with_replay}个种子全部达到目标，最强的不回放{strongest}个，"
    "次强的{next}个，并需要 {rare} 倍的 rollout（95 % 区间从 {rare_low} 起）。其他情形最强的不回放需要 "
    "{often} 倍（{often_low} 到 {often_high}），但除非时间主要花在生成上，它用时更少：`replay_gain.json` |",
    "轨迹池开始 | {inherited}个种子全部在 {first:.0f} 到 {last:.0f} 条 rollout 后达到，最强的不回放在 {bound} 条内"
    "{seeds}个中{without}个达到：`replay_gain.json` |",
)
NOTES = (
    "{seeds} seeds | *without* notes {ei[0]}, {ei[1]} and {ei[2]} % on three domains, against "
    "{never[0]}, {never[1]} and {never[2]} % without them ever: `notes.json` |",
)
NOTES_IN_CHINESE = (
    "{seeds}个种子 | *不带*笔记评测，三个领域为 {ei[0]}、{ei[1]}、{ei[2]} %；从未有过笔记的为 "
    "{never[0]}、{never[1]}、{never[2]} %：`notes.json` |",
)
CONTINUAL = (
    "supervised, {seeds} seeds | forgets {sft:.0f} points; with rehearsal {replay:.1f}. GRPO by itself "
    "forgets {grpo:.1f}: `continual.json` |",
)
CONTINUAL_IN_CHINESE = (
    "监督训练，{seeds}个种子 | 遗忘 {sft:.0f} 个百分点；带复习 {replay:.1f}。GRPO 本身只遗忘 {grpo:.1f}："
    "`continual.json` |",
)
SPEED = (
    "against TRL {release}'s GRPOTrainer, same model and work | {tiny:.2f}x (1 M parameters) and "
    "{large:.2f}x (30 M) with short prompts, {tiny_long:.1f}x and {large_long:.1f}x with prompts of "
    "{tokens:,} tokens: `vs_trl.json` |",
)
SPEED_IN_CHINESE = (
    "对比 TRL {release} 的 GRPOTrainer，模型与工作量相同 | 短提示 {tiny:.2f}x（1 M 参数）和 {large:.2f}x"
    "（30 M），{tokens:,} 个 token 的提示 {tiny_long:.1f}x 和 {large_long:.1f}x：`vs_trl.json` |",
)


def promises(results: Results, words: Sequence[str]) -> Spelt:
    """What was tried, and how often it failed."""
    tried = results["figures"]
    kills, flips, resumes = tried["kills"], tried["flips"], tried["resumes"]
    return {
        "kills": f"{kills['tried']:,}",
        "rows": f"{kills['acknowledged_rows_read_back']:,}",
        "lost": kills["lost"],
        "flips": f"{flips['in_records']:,}",
        "anywhere": f"{sum(flips['anywhere'].values()):,}",
        "missed": flips["missed"],
        "resumes": resumes["tried"],
        "differing": resumes["tried"] - resumes["identical"],
        "orders": tried["draws"]["orders"],
        "starts": tried["draws"]["starts"],
        "unlike": int(tried["draws"]["largest_deviation"] > 0),
        "cases": tried["estimators"]["cases"],
        "wrong": int(tried["estimators"]["largest_difference"] > 1e-12),
    }


def gain(results: Results, words: Sequence[str]) -> Spelt:
    """Replay against the strongest run without it, and the strongest but one."""
    sparse, dense, inherited = (
        results["figures"][regime]["best"] for regime in ("sparse", "dense", "inherited")
    )
    second = next(name for name in sparse["against"] if name != sparse["strongest"])
    rare = sparse["against"][second]["rollouts_ratio"]
    often = dense["against"][dense["strongest"]]["rollouts_ratio"]
    begun = inherited["arms"]["replay"]["rollouts_to_target"]

    def there(regime: Results, arm: str) -> str:
        return words[reached(regime["arms"][arm]["rollouts_to_target"])]

    return {
        "seeds": words[len(results["seeds"])],
        "with_replay": there(sparse, "replay"),
        "strongest": there(sparse, sparse["strongest"]),
        "next": there(sparse, second),
        "rare": ratio(rare["point"]),
        "rare_low": ratio(rare["low"]),
        "often": ratio(often["point"]),
        "often_low": ratio(often["low"]),
        "often_high": ratio(often["high"]),
        "inherited": there(inherited, "replay"),
        "without": there(inherited, inherited["strongest"]),
        "first": min(filter(None, begun)),
        "last": max(filter(None, begun)),
        "bound": generated(results["figures"]["inherited"]["settings"]),
    }


def notes(results: Results, words: Sequence[str]) -> Spelt:
    """EI against the baseline, both without notes."""
    given = results["figures"]["given"]

    def finals(method: str) -> list[str]:
        return [percent(median(given[domain]["methods"][method]["final"])) for domain in DOMAINS]

    seeds = words[len(results["seeds"])]
    return {"seeds": seeds, "ei": finals("ei"), "never": finals("baseline")}


def continual(results: Results, words: Sequence[str]) -> Spelt:
    """Points that are forgotten."""
    methods = results["figures"]["methods"]

    def forgotten(method: str) -> float:
        return float(100 * methods[method]["measures"]["forgetting"]["mean"])

    return {
        "seeds": words[len(results["seeds"])],
        "sft": forgotten("sft"),
        "replay": forgotten("sft+replay"),
        "grpo": forgotten("sequential"),
    }


def speed(results: Results, words: Sequence[str]) -> Spelt:
    """How many times TRL's rollouts a second."""
    cases = {case["case"]["name"]: case for case in results["figures"]["cases"]}
    return {
        "release": ".".join(results["versions"]["trl"].split(".")[:2]),
        "tiny": cases["tiny"]["ratio"]["median"],
        "large": cases["30M"]["ratio"]["median"],
        "tiny_long": cases["tiny-long"]["ratio"]["median"],
        "large_long": cases["30M-long"]["ratio"]["median"],
        "tokens": cases["tiny-long"]["case"]["prompt_tokens"],
    }


def saying(
    texts: Sequence[str], spell: Callable[[Results, Sequence[str]], Spelt], words: Sequence[str]
) -> Quoting:
    """Fill the figures of a results file into the texts of one language."""
    return lambda results: [text.format_map(spell(results, words)) for text in texts]


ENGLISH = {
    "promises": saying(PROMISES, promises, WORDS),
    "replay_gain": saying(GAIN, gain, WORDS),
    "notes": saying(NOTES, notes, WORDS),
    "continual": saying(CONTINUAL, continual, WORDS),
    "vs_trl": saying(SPEED, speed, WORDS),
}
IN_CHINESE = {
    "promises": saying(PROMISES_IN_CHINESE, promises, CHINESE),
    "replay_gain": saying(GAIN_IN_CHINESE, gain, CHINESE),
    "notes": saying(NOTES_IN_CHINESE, notes, CHINESE),
    "continual": saying(CONTINUAL_IN_CHINESE, continual, CHINESE),
    "vs_trl": saying(SPEED_IN_CHINESE, speed, CHINESE),
}
