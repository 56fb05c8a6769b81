import pytest

from recollect.telemetry.spelling import decimal, forecast, hours, percent, seconds, whole

NAN = float("nan")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0000"),
        (0.01234, "0.0123"),
        (-0.01234, "-0.0123"),
        (0.00001, "1.0e-05"),
        (12345.6, "12345.6000"),
        (2.5e6, "2.5e+06"),
        (NAN, "nan"),
        (-float("inf"), "-inf"),
    ],
)
def test_decimal(value: float, text: str) -> None:
    assert decimal(value, 4) == text


def test_counts_and_shares() -> None:
    assert whole(1234567.0) == "1,234,567"
    assert whole(NAN) == "nan"
    assert percent(0.4567) == "45.7%"
    assert percent(None) == percent(NAN) == "-"
    assert percent(None, "n/a") == percent(NAN, "n/a") == "n/a"


def test_forecasts() -> None:
    given = (0.4, 119, 120, 7199, 7200, 9000)
    assert [forecast(value) for value in given] == [
        "0 s", "119 s", "2 min", "120 min", "2.0 h", "2.5 h",
    ]  # fmt: skip


def test_durations() -> None:
    assert [seconds(value) for value in (0.04, 9.94, 9.96, 99, 100, 3723)] == [
        "0.0 s", "9.9 s", "10 s", "99 s", "0:01:40", "1:02:03",
    ]  # fmt: skip
    assert seconds(NAN) == "-"
    assert hours(None) == hours(NAN) == "-:--:--"
    assert hours(59.6) == "0:01:00"
    assert hours(360000) == "100:00:00"
