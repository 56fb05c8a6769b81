"""How the report looks: one style sheet, for light and dark, for screens and paper."""

from __future__ import annotations

# Okabe and Ito's colours keep apart for every common form of colour blindness; on a dark page
# their lighter relatives do.
STYLE = """
:root { color-scheme: light dark; --page: #fbfbfa; --card: #fff; --ink: #1c1d1f; --soft: #63666b;
  --rule: #e3e3e0; --grid: #ececea; --mark: #f3f5f9; --a0: #0072b2; --a1: #d55e00; --a2: #009e73;
  --a3: #b8578f; --a4: #b97f00; --a5: #2f93cb; }
@media (prefers-color-scheme: dark) { :root { --page: #15171a; --card: #1d2024; --ink: #e8e9eb;
  --soft: #9da2a9; --rule: #32363c; --grid: #2a2e33; --mark: #23282f; --a0: #5db5ea; --a1: #ff9152;
  --a2: #3fc79c; --a3: #e59cc8; --a4: #efbd4b; --a5: #9dd6f7; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
main { max-width: 1120px; margin: 0 auto; padding: 2.2rem 1.4rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .3rem; letter-spacing: -.01em; }
h2 { font-size: 1.08rem; margin: 2.6rem 0 .7rem; }
p { margin: .4rem 0; max-width: 78ch; }
.soft, figcaption span { color: var(--soft); }
.verdict { background: var(--mark); border-left: 4px solid var(--a0); border-radius: 0 8px 8px 0;
  padding: 1rem 1.2rem; margin: 1.3rem 0; font-size: 1.04rem; }
.verdict p { max-width: none; margin: 0; }
.cards, .charts { display: grid; gap: 1rem; }
.cards { grid-template-columns: repeat(auto-fit, minmax(215px, 1fr)); }
.charts { grid-template-columns: repeat(auto-fit, minmax(min(430px, 100%), 1fr)); }
.card, figure { background: var(--card); border: 1px solid var(--rule); border-radius: 10px; }
.card { padding: .9rem 1.1rem; }
.card b { display: block; font-size: 1.65rem; line-height: 1.25; font-weight: 650;
  font-variant-numeric: tabular-nums; }
.card small { color: var(--soft); display: block; font-size: .84rem; line-height: 1.45; }
figure { margin: 0; padding: .8rem .9rem .5rem; min-width: 0; }
figcaption { font-weight: 600; margin: 0 0 .35rem; }
figcaption span { font-weight: 400; font-size: .86rem; display: block; }
.wide { overflow-x: auto; background: var(--card); border: 1px solid var(--rule);
  border-radius: 10px; }
table { border-collapse: collapse; width: 100%; font-size: .92rem;
  font-variant-numeric: tabular-nums; }
th, td { padding: .45rem .9rem; text-align: right; white-space: nowrap;
  border-top: 1px solid var(--rule); }
tr:first-child > * { border-top: 0; }
th:first-child, td:first-child, .words td, .words th { text-align: left; }
th { color: var(--soft); font-weight: 600; }
td i { color: var(--soft); font-style: normal; font-size: .87em; }
tr.best td { font-weight: 650; background: var(--mark); }
.key { display: inline-block; width: .75em; height: .75em; border-radius: 50%;
  margin-right: .45em; }
pre { background: var(--card); border: 1px solid var(--rule); border-radius: 10px;
  padding: .8rem 1rem; overflow-x: auto; font: .86rem/1.5 ui-monospace, Menlo, Consolas, monospace;
  white-space: pre-wrap; overflow-wrap: anywhere; }
ul { padding-left: 1.2rem; max-width: 82ch; } li { margin: .3rem 0; }
.legend > span { margin-right: 1.4rem; white-space: nowrap; }
svg { display: block; width: 100%; height: auto; }
svg text { font-size: 12px; fill: var(--soft); } svg text.tag { font-size: 11px; }
svg .grid { stroke: var(--grid); } svg .axis { stroke: var(--soft); stroke-opacity: .6; }
svg .tie { stroke: var(--rule); stroke-width: 3; }
svg .target { stroke: var(--soft); stroke-dasharray: 5 4; stroke-opacity: .8; }
svg .mean { fill: none; stroke: var(--c); stroke-width: 2.2; stroke-linejoin: round; }
svg .thread { fill: none; stroke: var(--c); stroke-width: .8; stroke-opacity: .4; }
svg .area { fill: var(--c); fill-opacity: .14; } svg .dot { fill: var(--c); }
svg .open { fill: var(--card); stroke: var(--c); stroke-width: 2; }
svg .arrow { fill: none; stroke: var(--c); stroke-width: 1.6; }
svg text[class*="tag c"] { fill: var(--c); }
.c0 { --c: var(--a0); } .c1 { --c: var(--a1); } .c2 { --c: var(--a2); } .c3 { --c: var(--a3); }
.c4 { --c: var(--a4); } .c5 { --c: var(--a5); } .key { background: var(--c); }
@media print { body { background: #fff; } figure, .card, .wide { break-inside: avoid; } }
"""
COLOURS = 6
