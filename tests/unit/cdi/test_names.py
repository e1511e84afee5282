"""Kinds and names of devices, and UIDs that become part of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_driver.cdi.names import check_claim_uid, is_claim_uid, is_device, is_kind
from dra_driver.errors import ClaimError

NAMES = st.from_regex(r"[a-zA-Z][a-zA-Z0-9_.-]{0,20}[a-zA-Z0-9]", fullmatch=True)


@given(NAMES, NAMES)
def test_a_kind_is_a_vendor_and_a_class(vendor: str, class_: str) -> None:
    assert is_kind(f"{vendor}/{class_}")


@pytest.mark.parametrize("part", ["0a", "-a", "a-", "a/b", "", "ä1", "ab\n", "a:b", "a=b"])
def test_bad_vendors_and_classes(part: str) -> None:
    assert (is_kind(f"{part}/class"), is_kind(f"vendor/{part}"), is_kind(part)) == (False, False, False)


@pytest.mark.parametrize("text", ["v/class", "vendor/c"])
def test_a_single_letter_that_ends_runtimes_is_no_vendor_and_no_class(text: str) -> None:
    assert not is_kind(text)


@pytest.mark.parametrize("text", ["a", "0", "GPU-1", "0:1", "gpu_0.1-a"])
def test_good_devices(text: str) -> None:
    assert is_device(text)


@pytest.mark.parametrize("text", [":0", "0:", "a=b", "a b", "", "ß", "0\n"])
def test_bad_devices(text: str) -> None:
    assert not is_device(text)


@pytest.mark.parametrize(
    "uid", ["", ".", "..", "../x", "a/b", "a.json", "a\0", "a\n", "-a", "a-", "x" * 65, "x" * 300, "ü"]
)
def test_hostile_uids_are_refused(uid: str) -> None:
    with pytest.raises(ClaimError, match="is no UID of a claim"):
        check_claim_uid(uid)


@given(st.uuids())
def test_uuids_are_uids_of_claims(uid: object) -> None:
    assert is_claim_uid(str(uid))
