"""Qualified names, and UIDs that become part of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_driver.cdi.names import QualifiedName, check_claim_uid, is_claim_uid, is_class, is_device, is_vendor
from dra_driver.errors import ClaimError

VENDORS = st.from_regex(r"[a-zA-Z]([a-zA-Z0-9_.-]{0,20}[a-zA-Z0-9])?", fullmatch=True)
DEVICES = st.from_regex(r"[a-zA-Z0-9]([a-zA-Z0-9_.:-]{0,20}[a-zA-Z0-9])?", fullmatch=True)


@given(VENDORS, VENDORS, DEVICES)
def test_what_is_printed_is_parsed_again(vendor: str, class_: str, device: str) -> None:
    name = QualifiedName(vendor, class_, device)

    assert QualifiedName.parse(str(name)) == name


@given(st.text().filter(lambda text: not ("/" in text and "=" in text)))
def test_text_without_both_separators_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no qualified CDI name: expected vendor/class=device"):
        QualifiedName.parse(text)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("0/c=d", "'0' cannot be a vendor"),
        ("v/=d", "'' cannot be a class"),
        ("v/c=", "'' cannot be a device"),
        ("v/c=d=e", "'d=e' cannot be a device"),
        ("v/c/c=d", "'c/c' cannot be a class"),
    ],
)
def test_the_wrong_part_is_named(text: str, part: str) -> None:
    with pytest.raises(ValueError, match=part):
        QualifiedName.parse(text)


@pytest.mark.parametrize("text", ["0a", "-a", "a-", "a/b", "", "ä", "a\n", "a:b"])
def test_bad_vendors_and_classes(text: str) -> None:
    assert (is_vendor(text), is_class(text)) == (False, False)


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
