from recollect.telemetry.finite import counted_metrics, finite

NAN, INF = float("nan"), float("inf")


def test_what_is_not_finite_becomes_none_and_is_counted() -> None:
    found = counted_metrics({"train/loss": NAN, "policy/kl": -INF, "reward/mean": 1})
    assert found == {
        "train/loss": None,
        "policy/kl": None,
        "reward/mean": 1.0,
        "health/not_finite": 2.0,
    }


def test_the_count_is_ours_alone() -> None:
    assert counted_metrics({"health/not_finite": NAN}) == {"health/not_finite": 0.0}


def test_other_numbers_become_plain_floats() -> None:
    import numpy as np

    assert type(finite(np.float32(0.5))) is float
    assert type(finite(3)) is float
    assert finite(None) is None
