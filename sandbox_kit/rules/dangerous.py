"""Commands that harm the machine: patterns for execute rules.

They see the unquoted words of each simple command, its program also by basename, and the line as given.
Recursive removal is matched by the absolute name of a system or home directory, and of all beneath it: name
what lies in the workspace relatively.
"""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["DANGEROUS_COMMANDS"]

_RECURSIVE = ("-[rR]", "-[a-zA-Z][rR]", "-[a-zA-Z][a-zA-Z][rR]", "--r")
_RECURSIVE_AT_END = ("-[rR]", "-[a-zA-Z][rR]", "--r")
_ROOT = ("/ *", "//*", "/.*", "/[*]*")
_TREES = (
    # /bin /boot, /root /run, /sbin /sys, /var and its cache, lib, log, run, spool; last those of macOS
    *("~*", "/b[io]*", "/dev*", "/etc*", "/home*", "/lib*", "/opt*", "/proc*", "/r[ou]*", "/s[by]*", "/usr*"),
    *("/var *", "/var/ *", "/var/[*]*", "/var/[clrs]*", "/[ALSU]*"),
)
_DEVICES = ("[!fnprstuz]", "n[bv]", "rdisk", "s[dr]", "zd")
"""The first letters of disks and memory; of no pseudo-device such as ``/dev/null``."""

_FETCHERS = ("curl", "wget")
_INTERPRETERS = ("sh", "bash", "zsh", "python*", "perl", "ruby", "node")

_FIXED = (
    *("mkfs*", "mke2fs *", "mkswap *", "wipefs *", "blkdiscard *", "fdisk *", "sfdisk *", "sgdisk *", "parted *"),
    *("shred */dev/*", "badblocks *-w*", "diskutil erase*", "diskutil partition*", "cryptsetup *Format*"),
    *("shutdown *", "reboot *", "halt *", "poweroff *", "init 0", "init 6", "telinit *", "kexec *"),
    *("systemctl *poweroff*", "systemctl *reboot*", "systemctl *halt*", "systemctl *kexec*"),
    *("kill -9 -1", "kill -KILL -1", "kill -s KILL -1", "crontab -r *", "userdel *", "iptables -F *"),
    "*:*(*)*{*:*|*:*&*}*;*:*",
)


def _removals() -> Iterator[str]:
    """``rm -r`` of the root, a system directory or a home, whatever the spelling and place of the option."""
    for tree in (*_ROOT, *_TREES):
        yield from (f"rm* {option}* {tree}" for option in _RECURSIVE)
        yield from (f"rm* {tree.removesuffix(' *')} {option}*" for option in _RECURSIVE_AT_END)


def _whole_root() -> Iterator[str]:
    """What else takes the root directory whole."""
    for root in _ROOT:
        yield from (f"{program} *-*R* {root}" for program in ("chmod", "chown", "chgrp"))
        yield f"mv {root}"
        yield f"find {root.removesuffix('*')}*-delete*"
        yield f"find {root.removesuffix('*')}*-exec*rm *"


def _device_writes() -> Iterator[str]:
    for device in _DEVICES:
        yield f"dd *of=/dev/{device}*"
        yield f"*>*/dev/{device}*"
        yield from (f"{program} */dev/{device}*" for program in ("cp", "tee", "truncate"))


def _fetched_code() -> Iterator[str]:
    """What comes from the network, run at once."""
    for fetcher in _FETCHERS:
        for interpreter in _INTERPRETERS:
            yield f"*{fetcher} *|{interpreter} *"
            yield f"*{fetcher} *| {interpreter} *"
            yield f"*{fetcher} *|*sudo *{interpreter} *"
            yield f"*{fetcher} *|*/bin/{interpreter} *"
        for runner in ("*sh -*c ", "eval ", "source ", ". ", "*sh "):
            yield f"{runner}*<({fetcher} *"
        for runner in ("*sh -*c ", "eval "):
            yield f"{runner}*$({fetcher} *"
            yield f"{runner}*`{fetcher} *"


DANGEROUS_COMMANDS: tuple[str, ...] = tuple(
    dict.fromkeys([*_removals(), *_whole_root(), *_device_writes(), *_fetched_code(), *_FIXED])
)
