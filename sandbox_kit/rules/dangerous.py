"""Commands that harm the machine: patterns for execute rules.

They see the unquoted words of each simple command, its program also by basename, and the line as given. They
catch mistakes only: a list of patterns knows neither links nor variables nor what a script does, and whoever
wants past it gets past it.

Recursive removal is matched by the absolute name of a system or home directory, and of all beneath it: name
what lies in the workspace relatively. Of ``~``, ``/srv``, ``/mnt`` and ``/media`` only the whole counts.
"""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["DANGEROUS_COMMANDS"]

_ROOT = ("/ *", "//*", "/.*", "/[*?[]*", "/[!/][*?[]*", "/[!/][!/][*?[]*", "/[!/][!/][!/][*?[]*")
"""The root, and its directories by a glob such as ``/us*``."""

_WHOLE = tuple(
    f"{tree}{end}" for tree in ("~", "/home", "/srv", "/mnt", "/media", "/var") for end in (" *", "/ *", "/[*] *")
)
_SYSTEM = (
    # /bin /boot, /root /run, /sbin /sys, /var and its cache, lib, log, run, spool; last those of macOS
    *("/b[io]*", "/dev*", "/etc*", "/lib*", "/opt*", "/proc*", "/r[ou]*", "/s[by]*", "/usr*"),
    *("/var/[clrs]*", "/[ALSU]*"),
)
_CLIMBS = (".. *", "../ *", "*/.. *", "*/../ *", "../../..*", "/*/..*")

_LETTER = "[a-zA-Z]"
_RECURSIVE = (*(f"-{_LETTER * length}[rR]" for length in range(5)), "--r")
_RECURSIVE_AT_END = ("-[rR]", f"-{_LETTER}[rR]", f"-{_LETTER}{_LETTER}[rR]", "--r")
_CHANGES = "ch[gmo][orw][dnp]"
"""``chmod``, ``chown`` and ``chgrp``."""

_DEVICES = ("[!fnprstuz]", "n[bv]", "rdisk", "s[dr]", "zd")
"""The first letters of disks and memory; of no pseudo-device such as ``/dev/null``."""

_FETCHERS = ("curl", "wget")
_SHELLS = ("sh", "[bd]ash", "[akz]sh", "fish")
_INTERPRETERS = ("python", "python3", "perl", "ruby", "node")
_RUNNERS = ("sudo", "doas", "env", "exec", "nohup")
_PIPES = ("|", "|[ &]", "|& ")
_PARTITIONERS = ("fdisk", "sfdisk", "sgdisk", "parted")
_POWER_STATES = ("poweroff", "reboot", "halt", "kexec")

_FIXED = (
    *("mkfs*", "mke2fs *", "mkswap *", "wipefs *", "blkdiscard *"),
    *("shred */dev/*", "badblocks *-w*", "diskutil erase*", "diskutil partition*", "cryptsetup *Format*"),
    *("shutdown *", "reboot *", "halt *", "poweroff *", "init 0", "init 6", "telinit *", "kexec *"),
    *("kill * -1 *", "crontab -r *", "userdel *", "iptables -F *"),
    *("*>*/proc/sysrq-trigger*", "tee */proc/sysrq-trigger*"),
    # Fork bombs: a function that pipes into the background, named by a colon or otherwise.
    *("*:*(*)*{*:*|*:*&*}*;*:*", "*(*)*{*|*& }*;*", "*(*)*{*|*&}*;*"),
)


def _removals() -> Iterator[str]:
    """``rm -r`` of the root, a system directory or a home, whatever the spelling and place of the option."""
    for tree in (*_ROOT, *_WHOLE, *_CLIMBS):
        yield f"rm* -*[rR]* {tree}"
        yield f"rm* {tree.removesuffix(' *')} -*[rR]*"
    for tree in (*_SYSTEM, "/home/*", "~[!/]*"):
        yield from (f"rm* {option}* {tree}" for option in _RECURSIVE)
        yield from (f"rm* {tree} {option}*" for option in _RECURSIVE_AT_END)


def _removals_from_within() -> Iterator[str]:
    """``rm -r *`` after a change to the root or a home, and ``rm -r`` of a root that a pipe hands over."""
    for change in ("cd[;&]", "cd [;&]", "cd ~[;& ]", "cd ~/[;& ]", "cd /[;& ]", "cd /home[;& ]"):
        yield from (f"*{change}*rm *-*[rR]* {target}" for target in ("[*]*", "./[*]*", ". *"))
    yield from (f"* /{end}*xargs *rm *-*[rR]*" for end in (" *|", "|"))


def _whole_trees() -> Iterator[str]:
    """What else takes a system directory whole."""
    for tree in (*_ROOT, *_WHOLE, *_SYSTEM):
        yield from (f"{_CHANGES}* {option}* {tree}" for option in ("-R", f"-{_LETTER}R", "--rec"))
        yield f"{_CHANGES}* {tree.removesuffix(' *')} -R*"
    for tree in ("~ ", "~/ ", "/home ", "/home/ ", "/srv ", "/mnt ", "/media ", *_ROOT, *_SYSTEM):
        yield from _finds(tree.removesuffix("*") + "*")
    yield from (f"mv {root}" for root in _ROOT)


def _finds(start: str) -> Iterator[str]:
    yield f"find {start}-delete*"
    yield f"find {start}-exec*rm *"


def _device_writes() -> Iterator[str]:
    for device in _DEVICES:
        yield from (f"dd *of=/{odd}dev/{device}*" for odd in ("", "[./]*"))
        yield f"*>*/dev/{device}*"
        yield from (f"{program} */dev/{device}*" for program in ("cp", "tee", "truncate"))
    for program in _PARTITIONERS:
        yield f"{program} /dev/*"
        yield f"{program} -[!dhlpV]*/dev/*"


def _power() -> Iterator[str]:
    for state in _POWER_STATES:
        yield from (f"systemctl {options}{state} *" for options in ("", "-* "))
        yield from (f"systemctl *{verb} *{state}.target*" for verb in ("start", "isolate"))


def _piped_code() -> Iterator[str]:
    """What comes from the network, piped into what runs it at once."""
    for fetcher in _FETCHERS:
        for shell in _SHELLS:
            yield from (f"*{fetcher} *{pipe}{shell} *" for pipe in _PIPES)
            yield f"*{fetcher} *|*/bin/{shell} *"
            yield from (f"*{fetcher} *|*{runner} *{shell} *" for runner in _RUNNERS)
        for interpreter in _INTERPRETERS:
            for pipe in ("|", "|[ &]", "|*sudo *"):
                yield from (f"*{fetcher} *{pipe}{interpreter}{end}" for end in ("", "[;&|]*", " [;&|]*", " - *"))
        yield from (f"*{fetcher} *|*{source} /dev/stdin*" for source in (".", "source"))


def _substituted_code() -> Iterator[str]:
    """What comes from the network, put into the words or the input of what runs it at once."""
    for fetcher in _FETCHERS:
        yield from (f"{runner}*<({fetcher} *" for runner in ("*sh -*c ", "eval ", "source ", ". ", "*sh "))
        for substitution in (f"$({fetcher} *", f"`{fetcher} *"):
            yield from (f"{runner}*{substitution}" for runner in ("*sh -*c ", "eval "))
            yield from (f"{runner}{substitution}" for runner in ("python* -c ", "perl *-e ", "ruby *-e ", "node *-e "))
            yield f"*sh *<<<*{substitution}"


DANGEROUS_COMMANDS: tuple[str, ...] = tuple(
    dict.fromkeys(
        [
            *(*_removals(), *_removals_from_within(), *_whole_trees(), *_device_writes(), *_power()),
            *(*_piped_code(), *_substituted_code(), *_FIXED),
        ]
    )
)
