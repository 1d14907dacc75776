"""Whether a web address may lead to another: to the same host, or to one that anybody can reach.

What is inside of a network, or in this machine, is often open to whoever is there. An address that
somebody else chose must not take us to it: `http://169.254.169.254/` has the secrets of a machine
in a cloud. Names are looked up, so that other spellings of a number, and names that lead inside,
count as what they are; whoever answers differently the next time is not found out.
"""

import ipaddress
import socket
from urllib.parse import urlsplit

type Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


def may_lead(origin: str, target: str) -> bool:
    """Whether `target`, a URL, may be asked because `origin` said so."""
    source, sink = urlsplit(origin).hostname or "", urlsplit(target).hostname or ""
    if not sink or source == sink:
        return bool(sink)
    found = addresses_of(sink)
    if all(map(_is_public, found)):
        return True
    return found <= addresses_of(source)


def addresses_of(host: str) -> set[Address]:
    """None for a name that nobody knows: nothing can be asked of it either."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return set()
    return {_embedded(ipaddress.ip_address(str(each[4][0]).partition("%")[0])) for each in found}


def _embedded(address: Address) -> Address:
    """The address of version 4 that one of version 6 stands for, if it does."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


def _is_public(address: Address) -> bool:
    return address.is_global and not address.is_multicast
