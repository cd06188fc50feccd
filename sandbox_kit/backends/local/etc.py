"""The small /etc that confined commands see: copies of what every user may read, and own accounts."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress

__all__ = ["make_etc"]

_FILES = (
    "debian_version",
    "ethertypes",
    "gai.conf",
    "host.conf",
    "inputrc",
    "ld.so.cache",
    "ld.so.conf",
    "locale.alias",
    "localtime",
    "magic",
    "mime.types",
    "os-release",
    "protocols",
    "rpc",
    "services",
    "shells",
    "timezone",
    "ca-certificates.conf",
    "ssl/openssl.cnf",
)
_TREES = (
    "alternatives",
    "ca-certificates",
    "crypto-policies/back-ends",
    "ld.so.conf.d",
    "pki/ca-trust/extracted",
    "pki/tls/certs",
    "ssl/certs",
    "terminfo",
)
_MAX_FILE = 4 * 2**20
_NOBODY = 65534
_RENEW = 4 * 86400.0


def make_etc(directory: str, *, network: bool, source: str = "/etc") -> str:
    """Make the small /etc beneath *directory*, unless it is there and up to date; return its name.

    It is named by what it was made of, and made anew every few days, before a cleaner of
    temporary files could take parts of it away.

    Args:
        directory: the library's own.
        network: whether names can be looked up: brings resolv.conf.
        source: the host's own.

    Raises:
        OSError: there is no room for it.
    """
    files = (*_FILES, "resolv.conf") if network else _FILES
    made = os.path.join(directory, f"etc-{_fingerprint(source, files, _own_files(network))}")
    if os.path.isdir(made):
        return made
    with tempfile.TemporaryDirectory(prefix="new-", dir=directory, ignore_cleanup_errors=True) as scratch:
        new = os.path.join(scratch, "etc")
        _fill(new, source, files, network)
        try:
            os.rename(new, made)
        except OSError:
            if not os.path.isdir(made):  # another process was first
                raise
    _remove_old(directory)
    return made


def _fill(etc: str, source: str, files: Iterable[str], network: bool) -> None:
    os.mkdir(etc)
    os.chmod(etc, 0o755)
    for name in files:
        _copy(os.path.join(source, name), os.path.join(etc, name))
    for name in _TREES:
        _copy_tree(os.path.join(source, name), os.path.join(etc, name))
    for name, text in _own_files(network).items():
        _write(os.path.join(etc, name), text.encode())


def _fingerprint(source: str, files: Iterable[str], own: Mapping[str, str]) -> str:
    """A name for all that the small /etc depends on."""
    parts: list[object] = [_FILES, _TREES, own, source, os.geteuid(), os.getegid(), int(time.time() // _RENEW)]
    for name in (*files, *_TREES):
        try:
            status = os.stat(os.path.join(source, name))
        except OSError:
            continue
        parts.append((name, status.st_ino, status.st_mtime_ns))
    return hashlib.sha256(repr(parts).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _remove_old(directory: str) -> None:
    """Remove what was made two periods ago and more; no command that lives can have been shown it since."""
    for name in os.listdir(directory):
        path = os.path.join(directory, name)
        with suppress(FileNotFoundError):  # one that others were making, and have by now
            if name.startswith(("etc-", "new-")) and os.stat(path).st_mtime < time.time() - 2 * _RENEW:
                shutil.rmtree(path, ignore_errors=True)


def _own_files(network: bool) -> dict[str, str]:
    uid, gid = os.geteuid(), os.getegid()
    user = f"sandbox:*:{uid}:{gid}::/:/bin/sh\n" if uid not in (0, _NOBODY) else ""
    group = f"sandbox:*:{gid}:\n" if gid not in (0, _NOBODY) else ""
    names = "files dns" if network else "files"
    sources = {"passwd": "files", "group": "files", "shadow": "files", "hosts": names, "services": "files"}
    return {
        "passwd": f"root:*:0:0:root:/:/bin/sh\n{user}nobody:*:{_NOBODY}:{_NOBODY}::/:/bin/false\n",
        "group": f"root:*:0:\n{group}nogroup:*:{_NOBODY}:\n",
        "hosts": "127.0.0.1 localhost sandbox\n::1 localhost ip6-localhost ip6-loopback\n",
        "hostname": "sandbox\n",
        "nsswitch.conf": "".join(f"{name}: {places}\n" for name, places in sources.items()),
    }


def _copy(source: str, target: str) -> None:
    """Copy a regular file, through links, if every user may read it.

    Raises:
        OSError: it cannot be written whole.
    """
    data = _readable(source)
    if data is not None:
        _write(target, data)


def _readable(source: str) -> bytes | None:
    with suppress(OSError):
        status = os.stat(source)
        if stat.S_ISREG(status.st_mode) and status.st_mode & stat.S_IROTH and status.st_size <= _MAX_FILE:
            with open(source, "rb") as file:
                return file.read(_MAX_FILE)
    return None


def _copy_tree(source: str, target: str) -> None:
    """Copy a tree of readable files; links stay links."""
    try:
        entries = list(os.scandir(source))
    except OSError:
        return
    os.makedirs(target, exist_ok=True)
    for entry in entries:
        copy = os.path.join(target, entry.name)
        if entry.is_symlink():
            with suppress(OSError):
                os.symlink(os.readlink(entry.path), copy)
        elif entry.is_dir():
            _copy_tree(entry.path, copy)
        else:
            _copy(entry.path, copy)


def _write(target: str, data: bytes) -> None:
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with open(target, "xb") as file:
        file.write(data)
