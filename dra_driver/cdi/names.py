"""Qualified CDI names, `vendor/class=device`, by the rules of the CDI parser.

Vendor and class start with a letter, end with a letter or digit, and have `_`, `-` and `.` between; a device
also takes `:`, and may start with a digit. Names are ASCII, whatever Python's `str.isalpha` thinks.
"""

import re

from dra_driver.errors import ClaimError

# A single letter is a name too, by the rules, but makes containerd end in a panic (seen with 1.7.24 and 2.1.9).
_VENDOR_OR_CLASS = r"[A-Za-z][A-Za-z0-9_.-]*[A-Za-z0-9]"
_KIND = re.compile(f"{_VENDOR_OR_CLASS}/{_VENDOR_OR_CLASS}")
_DEVICE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.:-]*[A-Za-z0-9])?")
_CLAIM_UID = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,62}[A-Za-z0-9])?")


def is_device(text: str) -> bool:
    return _DEVICE.fullmatch(text) is not None


def is_kind(text: str) -> bool:
    """Whether `text` is `vendor/class`."""
    return _KIND.fullmatch(text) is not None


def is_claim_uid(text: str) -> bool:
    """Whether `text` may be part of a file name and of a device name: no path, no dots, at most 64 characters.

    UIDs are UUIDs in practice, but the API promises a string only, and what arrives over the socket is
    not checked by anybody before us.
    """
    return _CLAIM_UID.fullmatch(text) is not None


def check_claim_uid(text: str) -> str:
    """`text` itself, or ClaimError where `is_claim_uid` denies it."""
    if not is_claim_uid(text):
        raise ClaimError(f"{text[:64]!r} is no UID of a claim: expected letters, digits and dashes")
    return text
