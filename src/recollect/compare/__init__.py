"""The comparison room: several arms of one configuration, the same seeds, an honest verdict.

`study.run_study` trains every arm on every seed as ordinary runs and measures them from their
metrics.jsonl; `statistics` and `verdict` say what may be concluded; `report` shows it. With
`tuning`, each arm is first brought to its strongest setting with the same budget.
"""
