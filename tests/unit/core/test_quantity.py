import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_driver.quantity import Format, Quantity


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("0.5Gi", "512Mi"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("1024Ki", "1Mi"),
        ("81559Mi", "81559Mi"),
        ("40Gi", "40Gi"),
        ("1000Ki", "1000Ki"),
        ("1.5Ki", "1536"),
        ("0.5Ki", "512"),
        ("1e3", "1e3"),
        ("1E3", "1e3"),
        ("1E", "1E"),
        ("12000", "12k"),
        ("0", "0"),
        ("-5", "-5"),
        ("+7", "7"),
        (".5", "500m"),
        ("5.", "5"),
        ("0.0000000001", "1n"),
        ("100000000000Ei", "9223372036854775807"),
        ("0.3Ki", "307200m"),
        ("Gi", "0"),
        ("e3", "0"),
        ("9223372036854775808", "9223372036854775808"),
    ],
)
def test_text_becomes_canonical_as_on_the_api_server(text: str, canonical: str) -> None:
    assert canonical == str(Quantity.parse(text))


@pytest.mark.parametrize(
    "text", ["", "Ei", "1 Gi", "1_0", "1e3Gi", "1K", "1gi", "--1", "1.2.3", "٣", "1Gi\n", "0x10", ".Pi"]
)
def test_what_is_no_quantity_is_refused_and_named(text: str) -> None:
    with pytest.raises(ValueError, match="is no quantity") as caught:
        Quantity.parse(text)

    assert repr(text) in str(caught.value)


def test_equal_amounts_are_equal_whatever_their_notation() -> None:
    assert Quantity.parse("1Gi") == Quantity.parse("1073741824") == Quantity.of_bytes(2**30)
    assert len({Quantity.parse("1k"), Quantity.parse("1000"), Quantity.of(1000)}) == 1


def test_amounts_are_ordered_by_value() -> None:
    assert Quantity.parse("81559Mi") < Quantity.parse("80Gi")
    assert Quantity.parse("80G") < Quantity.parse("80Gi")


def test_the_integer_value_rounds_away_from_zero() -> None:
    assert (2, -2, 1) == tuple(Quantity.parse(text).value for text in ("1500m", "-1500m", "1n"))


def test_enormous_exponents_are_cheap() -> None:
    assert Quantity.parse("1e999999999") > Quantity.parse("100E")
    assert Quantity.parse("1n") == Quantity.parse("1e-999999999")


@given(st.integers(min_value=-(2**62), max_value=2**62), st.sampled_from(list(Format)))
def test_canonical_text_reads_back_as_the_same_amount(value: int, form: Format) -> None:
    quantity = Quantity(value * 10**9, form)

    assert quantity == Quantity.parse(str(quantity))


@given(st.integers(min_value=-(2**62), max_value=2**62), st.sampled_from(list(Format)))
def test_canonical_text_that_was_read_stays(value: int, form: Format) -> None:
    text = str(Quantity.parse(str(Quantity(value * 10**9, form))))

    assert text == str(Quantity.parse(text))
