"""Names of others and pages of other origins are refused."""

from __future__ import annotations

import pytest

from nearmt.errors import ConfigError
from nearmt.serve.errors import Forbidden
from nearmt.serve.security import Guard, is_loopback

LOCAL = Guard.of("127.0.0.1", keys=False)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:8080", "LOCALHOST", "[::1]:8080", "localhost."])
def test_names_of_this_machine_pass(host: str) -> None:
    LOCAL.check("POST", "/api/v1/translate", {"host": host})


@pytest.mark.parametrize(
    "host", ["", "evil.example", "evil.example:8080", "127.0.0.1.evil.example", "192.168.0.1", "localhost.evil.example"]
)
def test_other_names_are_refused(host: str) -> None:
    with pytest.raises(Forbidden):
        LOCAL.check("GET", "/", {"host": host})


def test_numbers_pass_where_others_may_connect() -> None:
    guard = Guard.of("0.0.0.0", ["MT.example.com"], keys=True)
    for host in ("192.168.0.1:8080", "mt.example.com", "[2001:db8::1]", "127.0.0.1"):
        guard.check("GET", "/", {"host": host})
    with pytest.raises(Forbidden):
        guard.check("GET", "/", {"host": "evil.example"})


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "", "http://127.0.0.1:9999", "http://127.0.0.1:8080.evil.example"]
)
def test_pages_of_others_are_refused(origin: str) -> None:
    with pytest.raises(Forbidden):
        LOCAL.check("POST", "/suggest", {"host": "127.0.0.1:8080", "origin": origin})


def test_the_own_page_passes() -> None:
    headers = {"host": "127.0.0.1:8080", "origin": "http://127.0.0.1:8080", "sec-fetch-site": "same-origin"}
    LOCAL.check("POST", "/api/v1/translate", headers)
    # Behind a proxy that ends TLS.
    proxied = {"host": "mt.example.com", "origin": "https://mt.example.com"}
    Guard.of("127.0.0.1", ["mt.example.com"], keys=True).check("POST", "/", proxied)


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_images_and_links_of_other_pages_are_refused(site: str) -> None:
    image = {"host": "localhost", "sec-fetch-site": site, "sec-fetch-mode": "no-cors"}
    link = {**image, "sec-fetch-mode": "navigate"}
    for headers, path in ((image, "/"), (link, "/MTRestService/StoreTranslation")):
        with pytest.raises(Forbidden):
            LOCAL.check("GET", path, headers)
    with pytest.raises(Forbidden):
        LOCAL.check("POST", "/", link)
    LOCAL.check("GET", "/", link)


def test_an_allowed_origin_passes() -> None:
    guard = Guard.of("127.0.0.1", origins=["https://Tool.example.com/"], keys=False)
    guard.check("POST", "/translate", {"host": "localhost", "origin": "https://tool.example.com"})
    with pytest.raises(Forbidden):
        guard.check("POST", "/translate", {"host": "localhost", "origin": "http://tool.example.com"})


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.1", "mt.example.com"])
def test_without_keys_others_cannot_connect(host: str) -> None:
    with pytest.raises(ConfigError, match="this machine only"):
        Guard.of(host, keys=False)


@pytest.mark.parametrize("origin", ["*", "tool.example.com", "file:///tmp"])
def test_bad_origins_are_refused_at_the_start(origin: str) -> None:
    with pytest.raises(ConfigError):
        Guard.of("127.0.0.1", origins=[origin], keys=False)


def test_loopback() -> None:
    assert is_loopback("127.9.9.9") and is_loopback("::1") and is_loopback("LocalHost")
    assert not is_loopback("0.0.0.0") and not is_loopback("example.com")
