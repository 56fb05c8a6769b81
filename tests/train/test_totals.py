from __future__ import annotations

from recollect.train.totals import Totals


def test_a_checkpoint_keeps_them() -> None:
    totals = Totals(rows=10, failed=3, skipped=1)
    assert Totals.restore({"policy_version": 4, **totals.state()}) == totals
