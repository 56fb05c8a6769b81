"""docs/notes.md: what notes buy."""

from __future__ import annotations

from statistics import median

from .spelling import DOMAINS, Quoting, Results, estimate, percent


def median_of(found: Results, key: str = "final") -> str:
    """Median success over the seeds."""
    return f"{percent(median(found[key]))} %"


def difference(found: Results) -> str:
    """Points against the baseline, with as many decimals as they have: `+10 (-5 to +19.5)`."""
    change = found["against_baseline"]["final_difference"]
    return estimate(change, lambda value: f"{100 * value:+.4g}" if value else "0")


def given(domain: str, methods: Results) -> str:
    """The rows of a domain with a bank that was given."""
    base = methods["baseline"]
    rows = [f"| {domain} | baseline | {median_of(base)} | - | | {base['reached']} |"]
    rows += [
        f"| | {name} | {median_of(found)} | {median_of(found, 'final_with_notes')} | "
        f"{difference(found)} | {found['reached']} |"
        for name, found in methods.items()
        if name in ("ec", "ei", "het")
    ]
    return "\n".join(rows)


def own(domain: str, methods: Results) -> str:
    """The row of a domain with notes of its own."""
    base, ei = methods["baseline"], methods["ei"]
    cells = (median_of(base), median_of(ei), median_of(ei, "final_with_notes"), difference(ei))
    return f"| {domain} | {' | '.join(cells)} |"


def notes(results: Results) -> list[str]:
    """Both tables, and what the true ratio costs."""
    figures = results["figures"]
    recorded = [figures["given"][domain]["methods"]["ei-recorded"] for domain in DOMAINS]
    gains = [100 * r["against_baseline"]["final_difference"]["point"] for r in recorded]
    finals = [percent(median(r["final"])) for r in recorded]
    return [
        *(given(domain, figures["given"][domain]["methods"]) for domain in DOMAINS),
        *(own(domain, figures["own"][domain]["methods"]) for domain in DOMAINS),
        f"gains {gains[0]:.0f}, {gains[1]:.0f} and {gains[2]:.0f} points",
        f"medians: {finals[0]}, {finals[1]} and {finals[2]} %",
    ]


QUOTES: dict[str, Quoting] = {"notes": notes}
