"""What a browser may do with the server.

Every web page can make a browser send requests to 127.0.0.1. Two of its means are refused here: a name of the attacker
that points to this machine (DNS rebinding) shows in `Host`, and requests of another page show in `Origin` or, where a
browser sends none (images, links), in `Sec-Fetch-Site`. Programs send neither of these two.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nearmt.errors import ConfigError
from nearmt.serve.errors import Forbidden

_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
#: Paths to which links of other pages may lead: they only show something.
_LANDING = frozenset({"/", "/health", "/ready"})
#: Any origin, where keys are needed.
ANY_ORIGIN = "*"

_POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self' data:",
    "font-src": "'self'",
    "connect-src": "'self'",
    "form-action": "'self'",
    "base-uri": "'none'",
    "frame-ancestors": "'none'",
}
#: Of every answer.
HEADERS = {
    "content-security-policy": "; ".join(f"{name} {value}" for name, value in _POLICY.items()),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}


def is_loopback(host: str) -> bool:
    """Whether an address to listen on reaches this machine only."""
    if host.lower() in _LOOPBACK_NAMES:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class Guard:
    """Which names the server answers to, and which other origins may use it."""

    #: Names of the server in lower case.
    hosts: frozenset[str]
    #: Whether it answers to any address in numbers: those need no look-up, so they cannot be rebound.
    numbers: bool = False
    origins: frozenset[str] = frozenset()

    @classmethod
    def of(cls, host: str, allowed_hosts: Iterable[str] = (), origins: Iterable[str] = (), *, keys: bool) -> Guard:
        """The guard of a server that listens on `host`; without keys that must be this machine only."""
        local, wanted = is_loopback(host), frozenset(origin.rstrip("/").lower() for origin in origins)
        if not keys and not local:
            raise ConfigError(
                f"--host {host}: others could use this server; without keys it listens on this machine only "
                "(`nearmt keys add` makes one)"
            )
        if not keys and ANY_ORIGIN in wanted:
            raise ConfigError("--cors-origin '*': every web page could use this server; make a key first, or name one")
        for origin in wanted - {ANY_ORIGIN}:
            if not origin.startswith(("http://", "https://")):
                raise ConfigError(f"--cors-origin {origin}: must be like https://tool.example.com")
        names = {host.lower(), *_LOOPBACK_NAMES, *(name.lower() for name in allowed_hosts)}
        if not local:
            names |= {socket.gethostname().lower(), socket.getfqdn().lower()}
        return cls(frozenset(names), not local, wanted)

    def check(self, method: str, path: str, headers: Mapping[str, str]) -> None:
        """Refuse a request for another host, or of a page of another origin."""
        host = headers.get("host", "")
        if not self._is_mine(host):
            raise Forbidden("this server does not answer to the name in 'Host' (--allowed-host adds one)")
        origin = headers.get("origin")
        if origin is not None:
            if not self.allows(origin) and origin.partition("://")[2].lower() != host.lower():
                raise Forbidden("pages of other origins may not use this server (--cors-origin allows one)")
        elif headers.get("sec-fetch-site", "none") in ("cross-site", "same-site"):
            is_link = headers.get("sec-fetch-mode") == "navigate" and method in ("GET", "HEAD")
            if not (is_link and path in _LANDING):
                raise Forbidden("pages of other origins may not use this server (--cors-origin allows one)")

    def allows(self, origin: str) -> bool:
        """Whether pages of another origin may use the server."""
        return origin.lower() in self.origins or ANY_ORIGIN in self.origins

    def _is_mine(self, host: str) -> bool:
        name = _name(host)
        if name in self.hosts:
            return True
        return self.numbers and _is_address(name)


def _name(host: str) -> str:
    """The name in a Host header, without port and brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower().removesuffix(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
