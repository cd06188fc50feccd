"""``ls`` and ``cat``."""

from __future__ import annotations

import codecs
import stat
import time
from argparse import Namespace
from collections.abc import Iterable
from typing import BinaryIO

from attrs import asdict

from sandbox_kit.cli.exits import ExitCode
from sandbox_kit.cli.screen import Colour, Screen, complain
from sandbox_kit.cli.workspace import open_files
from sandbox_kit.types import FileInfo, Listing, Skipped

__all__ = ["cat", "ls", "print_content", "report_skipped", "show_listing"]

_CHUNK = 2**16


def ls(args: Namespace, screen: Screen) -> int:
    """List a directory, or the file itself."""
    show_listing(open_files(args).ls(args.path), args, screen)
    return ExitCode.DONE


def show_listing(listing: Listing, args: Namespace, screen: Screen) -> None:
    """Print what was listed, as ``--json`` or ``--long`` ask for."""
    if args.json:
        screen.json({"entries": [asdict(info) for info in listing], "skipped": [asdict(s) for s in listing.skipped]})
        return
    for info in listing:
        screen.line(_long(info, screen) if args.long else _short(info, screen))
    report_skipped(listing.skipped)


def report_skipped(skipped: Iterable[Skipped]) -> None:
    """Tell a person what could not be looked at."""
    for each in skipped:
        complain(f"{each.path}: {each.reason}")


def _short(info: FileInfo, screen: Screen) -> str:
    colour: Colour | None = "blue" if info.is_dir else "cyan" if info.is_symlink else None
    return screen.paint(screen.name(info.path), colour, bold=True) + ("/" if info.is_dir else "")


def _long(info: FileInfo, screen: Screen) -> str:
    kind = stat.S_IFDIR if info.is_dir else stat.S_IFLNK if info.is_symlink else stat.S_IFREG
    changed = time.strftime("%Y-%m-%d %H:%M", time.localtime(info.mtime))
    return f"{stat.filemode(kind | info.mode)} {info.size:>12} {changed} {_short(info, screen)}"


def cat(args: Namespace, screen: Screen) -> int:
    """Print files, one after another."""
    files = open_files(args)
    for path in args.paths:
        if args.json:
            screen.json({"path": path, "content": files.read(path)})
        else:
            with files.open_read(path) as stream:
                print_content(stream, screen)
    return ExitCode.DONE


def print_content(stream: BinaryIO, screen: Screen) -> None:
    """Print a file byte for byte, or as harmless text onto a terminal."""
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    while chunk := stream.read(_CHUNK):
        screen.write(screen.text(decode(chunk)).encode() if screen.is_terminal else chunk)
    screen.write(screen.text(decode(b"", True)).encode() if screen.is_terminal else b"")
