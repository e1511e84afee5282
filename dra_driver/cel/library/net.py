"""IP addresses and networks: ip("10.0.0.1"), cidr("10.0.0.0/8").containsIP(...)."""

import ipaddress
import re
from collections.abc import Callable
from typing import Any

from dra_driver.cel.declarations import Library, Overload, function, method
from dra_driver.cel.errors import EvaluationError
from dra_driver.cel.types import BOOL, INT, STRING, opaque
from dra_driver.cel.values import Opaque

IP = opaque("net.IP")
CIDR = opaque("net.CIDR")
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_PRICE = 20  # of reading one
_BITS = re.compile(r"0|[1-9][0-9]?|1[0-2][0-9]", re.ASCII)


class Ip(Opaque):
    __slots__ = ("address",)
    type_name = IP.name

    def __init__(self, address: _Address) -> None:
        self.address = address

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ip) and self.address == other.address

    def __hash__(self) -> int:
        return hash(self.address)


class Cidr(Opaque):
    """An address with a prefix length; host bits are kept until masked()."""

    __slots__ = ("interface",)
    type_name = CIDR.name

    def __init__(self, interface: ipaddress.IPv4Interface | ipaddress.IPv6Interface) -> None:
        self.interface = interface

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cidr) and self.interface == other.interface

    def __hash__(self) -> int:
        return hash(self.interface)


def _address(text: str) -> _Address:
    try:
        address = ipaddress.ip_address(text)
    except ValueError as error:
        raise EvaluationError(f"IP Address '{text}' parse error during conversion from string") from error
    if "%" in text:
        raise EvaluationError(f"IP address '{text}' with zone value is not allowed")
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        raise EvaluationError(f"IPv4-mapped IPv6 address '{text}' is not allowed")
    return address


def _ip(text: str) -> Ip:
    return Ip(_address(text))


def _cidr(text: str) -> Cidr:
    host, slash, bits = text.rpartition("/")
    if not slash or not _BITS.fullmatch(bits):
        raise EvaluationError(f"network address parse error during conversion from string: {text!r}")
    try:
        return Cidr(ipaddress.ip_interface(f"{_address(host)}/{bits}"))
    except ValueError as error:
        raise EvaluationError(
            f"network address parse error during conversion from string: {text!r}"
        ) from error


def _succeeds(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def test(text: str) -> bool:
        try:
            parse(text)
        except EvaluationError:
            return False
        return True

    return test


def _contains_ip(network: Cidr, ip: Ip) -> bool:
    return ip.address.version == network.interface.version and ip.address in network.interface.network


def _contains_cidr(network: Cidr, other: Cidr) -> bool:
    outer: Any = network.interface.network
    inner: Any = other.interface.network
    return bool(outer.version == inner.version and inner.subnet_of(outer))


def _masked(network: Cidr) -> Cidr:
    return Cidr(ipaddress.ip_interface(str(network.interface.network)))


def _link_local_multicast(address: _Address) -> bool:
    if isinstance(address, ipaddress.IPv4Address):
        return address.packed[:3] == b"\xe0\x00\x00"
    return address.packed[0] == 0xFF and address.packed[1] & 0x0F == 0x02


def _global_unicast(address: _Address) -> bool:
    """As Go means it: also private addresses, but nothing special."""
    special = address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    return not special and address != ipaddress.IPv4Address("255.255.255.255")


def _test(name: str, test: Callable[[_Address], bool]) -> Overload:
    return method(name, (IP,), BOOL, lambda ip: test(ip.address))


LIBRARY = Library(
    (
        function("ip", (STRING,), IP, _ip, price=_PRICE),
        method("ip", (CIDR,), IP, lambda network: Ip(network.interface.ip)),
        function("isIP", (STRING,), BOOL, _succeeds(_address), price=_PRICE),
        function("ip.isCanonical", (STRING,), BOOL, lambda text: str(_address(text)) == text, price=_PRICE),
        function("string", (IP,), STRING, lambda ip: str(ip.address)),
        method("family", (IP,), INT, lambda ip: ip.address.version),
        _test("isUnspecified", lambda address: address.is_unspecified),
        _test("isLoopback", lambda address: address.is_loopback),
        _test("isLinkLocalMulticast", _link_local_multicast),
        _test("isLinkLocalUnicast", lambda address: address.is_link_local),
        _test("isGlobalUnicast", _global_unicast),
        function("cidr", (STRING,), CIDR, _cidr, price=_PRICE),
        function("isCIDR", (STRING,), BOOL, _succeeds(_cidr), price=_PRICE),
        function("string", (CIDR,), STRING, lambda network: str(network.interface)),
        method("containsIP", (CIDR, IP), BOOL, _contains_ip),
        method(
            "containsIP",
            (CIDR, STRING),
            BOOL,
            lambda network, text: _contains_ip(network, _ip(text)),
            price=_PRICE,
        ),
        method("containsCIDR", (CIDR, CIDR), BOOL, _contains_cidr),
        method(
            "containsCIDR",
            (CIDR, STRING),
            BOOL,
            lambda network, text: _contains_cidr(network, _cidr(text)),
            price=_PRICE,
        ),
        method("masked", (CIDR,), CIDR, _masked),
        method("prefixLength", (CIDR,), INT, lambda network: network.interface.network.prefixlen),
    ),
    types=(IP, CIDR),
)
