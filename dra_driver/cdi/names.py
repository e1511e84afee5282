"""Qualified CDI names, `vendor/class=device`, by the rules of the CDI parser.

Vendor and class start with a letter, end with a letter or digit, and have `_`, `-` and `.` between; a device
also takes `:`, and may start with a digit. Names are ASCII, whatever Python's `str.isalpha` thinks.
"""

import re
from dataclasses import dataclass
from typing import Self

from dra_driver.errors import ClaimError

_VENDOR_OR_CLASS = re.compile(r"[A-Za-z](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?")
_DEVICE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.:-]*[A-Za-z0-9])?")
_CLAIM_UID = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,62}[A-Za-z0-9])?")


def is_vendor(text: str) -> bool:
    return _VENDOR_OR_CLASS.fullmatch(text) is not None


def is_class(text: str) -> bool:
    return _VENDOR_OR_CLASS.fullmatch(text) is not None


def is_device(text: str) -> bool:
    return _DEVICE.fullmatch(text) is not None


def is_kind(text: str) -> bool:
    """Whether `text` is `vendor/class`."""
    vendor, slash, class_ = text.partition("/")
    return bool(slash) and is_vendor(vendor) and is_class(class_)


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


@dataclass(frozen=True, slots=True)
class QualifiedName:
    """A device as the kubelet hands it to the container runtime."""

    vendor: str
    class_: str
    device: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `vendor/class=device`; ValueError says which part is wrong."""
        kind, equals, device = text.partition("=")
        vendor, slash, class_ = kind.partition("/")
        if not equals or not slash:
            raise ValueError(f"{text!r} is no qualified CDI name: expected vendor/class=device")
        for part, value, valid in (
            ("vendor", vendor, is_vendor(vendor)),
            ("class", class_, is_class(class_)),
            ("device", device, is_device(device)),
        ):
            if not valid:
                raise ValueError(f"{text!r} is no qualified CDI name: {value!r} cannot be a {part}")
        return cls(vendor, class_, device)

    @property
    def kind(self) -> str:
        return f"{self.vendor}/{self.class_}"

    def __str__(self) -> str:
        return f"{self.kind}={self.device}"
