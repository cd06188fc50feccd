"""Where a service is, and by which proxy it is reached."""

from __future__ import annotations

import base64
import ipaddress
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from attrs import frozen

from sandbox_kit.errors import InvalidArgumentError

__all__ = ["Place", "Proxy", "check_url", "proxy_of"]

_PORTS = {"http": 80, "https": 443}


@frozen
class Place:
    """The address of a service.

    Attributes:
        scheme: ``"http"`` or ``"https"``.
        host, port: where it listens.
        prefix: what its paths begin with, without a slash at its end.
    """

    scheme: str
    host: str
    port: int
    prefix: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.prefix}"


@frozen
class Proxy:
    """What stands between: its address, and the header that it is to be shown."""

    host: str
    port: int
    headers: dict[str, str]


def check_url(url: str) -> Place:
    """Return the place that *url* names.

    Raises:
        InvalidArgumentError: it is none, or holds more than a place: a user, a query. It is not repeated.
    """
    split, port = _split(url)
    if split is None or split.scheme not in _PORTS or not split.hostname:
        raise InvalidArgumentError("url: is not an address such as 'https://sandboxes.example:8080'")
    if split.username is not None or split.query or split.fragment:
        raise InvalidArgumentError("url: holds a user, a query or a fragment: a token is given as token=")
    return Place(split.scheme, split.hostname, port or _PORTS[split.scheme], split.path.rstrip("/"))


def _split(url: object) -> tuple[SplitResult | None, int | None]:
    if not isinstance(url, str) or not url.isascii() or not url.isprintable() or " " in url:
        return None, None
    try:
        split = urlsplit(url)
        return split, split.port
    except ValueError:
        return None, None


def proxy_of(place: Place) -> Proxy | None:
    """Return the proxy that the environment names for *place*; None for this machine's own loopback.

    Raises:
        InvalidArgumentError: what it names is no address.
    """
    found = getproxies().get(place.scheme)
    if not found or _is_loopback(place.host) or proxy_bypass(place.host):
        return None
    split, port = _split(found if "://" in found else f"http://{found}")
    if split is None or not split.hostname:
        raise InvalidArgumentError(f"the proxy that the environment names for {place.scheme} is no address")
    return Proxy(split.hostname, port or _PORTS["http"], _credentials(split))


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _credentials(split: SplitResult) -> dict[str, str]:
    if split.username is None:
        return {}
    pair = f"{unquote(split.username)}:{unquote(split.password or '')}"
    return {"Proxy-Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
