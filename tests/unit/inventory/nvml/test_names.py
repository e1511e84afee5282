"""NVML's numbers in the official driver's words."""

import pytest

from dra_driver.inventory.nvml_names import addressing_mode, architecture, brand, multiprocessors


@pytest.mark.parametrize(
    ("number", "capability", "expected"),
    [
        (7, (8, 0), "Ampere"),
        (8, (8, 9), "Ada Lovelace"),
        (10, None, "Blackwell"),
        (13, None, "Rubin"),
        (None, (7, 0), "Volta"),
        (None, (7, 5), "Turing"),
        (None, (8, 6), "Ampere"),
        (None, (8, 9), "Ada Lovelace"),
        (None, (12, 1), "Blackwell"),
        (0xFFFFFFFF, (9, 0), "Hopper"),
        (99, (10, 3), "Blackwell"),
        (99, (99, 0), "Unknown"),
        (99, None, "Unknown"),
        (None, (99, 0), None),
        (None, None, None),
    ],
)
def test_an_architecture_is_told_by_number_then_family_then_unknown(
    number: int | None, capability: tuple[int, int] | None, expected: str | None
) -> None:
    assert architecture(number, capability) == expected


@pytest.mark.parametrize(
    ("number", "expected"), [(0, "Unknown"), (2, "Tesla"), (5, "GeForce"), (14, "Nvidia"), (99, "Unknown")]
)
def test_brands_have_the_official_spelling(number: int, expected: str) -> None:
    assert brand(number) == expected


@pytest.mark.parametrize(("number", "expected"), [(0, "None"), (1, "HMM"), (2, "ATS"), (3, None)])
def test_addressing_modes_have_the_official_spelling(number: int, expected: str | None) -> None:
    assert addressing_mode(number) == expected


@pytest.mark.parametrize(
    ("cores", "capability", "expected"),
    [
        (6912, (8, 0), 108),
        (16896, (9, 0), 132),
        (18176, (8, 9), 142),
        (2560, (7, 5), 40),
        (18944, (10, 0), 148),
        (24064, (12, 0), 188),
        (16896, (99, 0), None),
        (100, (9, 0), None),
        (0, (9, 0), None),
    ],
    ids=["A100", "H100", "L40S", "T4", "B200", "RTX PRO 6000", "unknown", "uneven", "none"],
)
def test_multiprocessors_follow_from_cores_where_the_ratio_is_known(
    cores: int, capability: tuple[int, int], expected: int | None
) -> None:
    assert multiprocessors(cores, capability) == expected
