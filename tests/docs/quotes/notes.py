"""docs/notes.md: what notes buy."""

from __future__ import annotations

from statistics import mean, median

from .spelling import WORDS, Quoting, Results, claim, estimate, percent, setting, table

DOMAINS = ("airline", "retail", "telecom")
# The first difference of a table names the unit.
FIRST = {"given": ("airline", "ec"), "own": ("airline", "ei")}


def signed(value: float) -> str:
    """Points with a sign and as many decimals as they have; 0 has none."""
    return f"{100 * value:+.4g}" if value else "0"


def median_of(found: Results, key: str = "final") -> str:
    """Median success over the seeds."""
    return f"{percent(median(found[key]))} %"


def difference(figures: Results, bank: str, domain: str, method: str) -> str:
    """Points against the baseline: `+10 (-5 to +19.5)`."""
    found = figures[bank][domain]["methods"][method]["against_baseline"]["final_difference"]
    text = estimate(found, signed)
    return text.replace(" (", " points (") if FIRST[bank] == (domain, method) else text


def given_rows(figures: Results, domain: str) -> list[str]:
    """A domain with a bank that was given; what beats the baseline clearly is in bold."""
    methods = figures["given"][domain]["methods"]
    base = methods["baseline"]
    rows = [f"| {domain} | baseline | {median_of(base)} | - | | {base['reached']} |"]
    for method in ("ec", "ei", "het"):
        found = methods[method]
        bold = "**" if found["against_baseline"]["final_difference"]["low"] > 0 else ""
        rows.append(
            f"| | {bold}{method}{bold} | {bold}{median_of(found)}{bold} | "
            f"{median_of(found, 'final_with_notes')} | "
            f"{bold}{difference(figures, 'given', domain, method)}{bold} | {found['reached']} |"
        )
    return rows


def own_row(figures: Results, domain: str) -> str:
    """A domain with notes of its own."""
    base, ei = (figures["own"][domain]["methods"][method] for method in ("baseline", "ei"))
    return (
        f"| {domain} | {median_of(base)} | {median_of(ei)} | {median_of(ei, 'final_with_notes')} | "
        f"{difference(figures, 'own', domain, 'ei')} |"
    )


def lessons(figures: Results) -> list[str]:
    """What is said of a bank that was given."""
    methods = {d: figures["given"][d]["methods"] for d in DOMAINS}
    gains = {
        name: [methods[d][name]["against_baseline"]["final_difference"] for d in DOMAINS]
        for name in ("ec", "ei", "ei-recorded", "het")
    }
    clear = {
        name: {d for d, gain in zip(DOMAINS, found, strict=True) if gain["low"] > 0}
        for name, found in gains.items()
    }
    share = mean(g["point"] for g in gains["het"]) / mean(g["point"] for g in gains["ei"])
    recorded, recomputed = (
        [f"{100 * gain['point']:.0f}" for gain in gains[name]] for name in ("ei-recorded", "ei")
    )
    finals = [percent(median(methods[d]["ei-recorded"]["final"])) for d in DOMAINS]
    return [
        claim(clear["ei"] == set(DOMAINS), "EI beats the baseline on all three domains"),
        f"HET gains about {WORDS[round(10 * share)]} tenths of that, "
        f"{claim(clear['het'] == {'telecom'}, 'clearly on telecom only')}; "
        f"{claim(not clear['ec'], 'EC nothing')}",
        f"With `notes.ratio: recorded` EI gains {recorded[0]}, {recorded[1]} and {recorded[2]} points on "
        f"the baseline, {claim(not clear['ei-recorded'], 'none of them clear')}, instead of "
        f"{recomputed[0]}, {recomputed[1]} and {recomputed[2]} (medians: {finals[0]}, {finals[1]} and "
        f"{finals[2]} %).",
    ]


def notes(results: Results) -> list[str]:
    """Everything that the section takes from the file."""
    figures = results["figures"]
    rollouts = {
        bank: 32 * int(setting(found["airline"]["settings"], "run.steps"))
        for bank, found in figures.items()
    }
    own = [figures["own"][d]["methods"] for d in DOMAINS]
    unclear = all(
        found[m]["against_baseline"]["final_difference"]["low"] <= 0
        for found in own
        for m in ("ec", "ei", "het")
    )
    return [
        f"on each desk domain, {WORDS[len(results['seeds'])]} seeds",
        f"and learns from {rollouts['given']} rollouts:",
        f"| reached {percent(figures['given']['airline']['target'])} % |",
        table(row for domain in DOMAINS for row in given_rows(figures, domain)),
        *lessons(figures),
        f"the shipped model learns from {rollouts['own']} rollouts.",
        table(own_row(figures, domain) for domain in DOMAINS),
        claim(unclear, "Nothing clear is left here when the notes are taken away"),
        f"(ec, {median_of(own[1]['ec'], 'final_with_notes')}) on retail, not on airline.",
    ]


QUOTES: dict[str, Quoting] = {"notes": notes}
