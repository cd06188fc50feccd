"""The options that lay out one sandbox for bubblewrap, in the order in which it must see them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from sandbox_kit.backends.local import base, probe
from sandbox_kit.backends.local.base import Tree
from sandbox_kit.backends.local.masks import Kind, Mount
from sandbox_kit.paths import within

__all__ = ["Layout"]


class Layout:
    """Options, added by its methods in the order that they stand here.

    Args:
        work_dir: the real name of the workspace.
        scratch: a directory of the library's own, outside the workspace.
        own: has a descriptor that bubblewrap needs opened, by a function and its arguments; returns it.

    Attributes:
        options: what bubblewrap gets.
        hiding: kind of mount -> what hides, on the host.
    """

    def __init__(self, work_dir: str, scratch: str, own: Callable[..., int]) -> None:
        self._work_dir = work_dir
        self.options: list[str] = []
        self._own = own
        self.hiding = hiding_things(scratch)
        self._to_seal: list[str] = []

    def isolate(self, *, network: bool, env: Mapping[str, str], status: int) -> None:
        """Namespaces, no power, and the command's own environment.

        Args:
            status: the descriptor to say in what becomes of the command.
        """
        self.options += (*probe.ISOLATION, "--hostname", "sandbox", "--json-status-fd", str(status))
        if not network:
            self.options.append("--unshare-net")
        for name, value in env.items():
            self.options += ("--setenv", name, value)

    def refuse_calls(self, program: int) -> None:
        """Refuse system calls by the filter in the descriptor *program*."""
        self.options += ("--seccomp", str(program))

    def show_system(self, etc: str, *, tmp_size: int | None) -> None:
        """The base system, and what is made: /proc, /dev, /tmp, /etc.

        /proc is read-only since a command of uid 0 could write what its owner may: core_pattern, say.
        """
        size = ("--size", str(tmp_size)) if tmp_size is not None else ()
        self.options += base.system_arguments()
        self.options += ("--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev")
        if tmp_size is not None:
            self.options += (*size, "--perms", "1777", "--tmpfs", "/dev/shm")
            self._to_seal.append("/dev")
        self.options += (*size, "--perms", "1777", "--tmpfs", "/tmp", "--ro-bind", etc, "/etc")

    def show_trees(self, trees: Iterable[Tree]) -> None:
        """Parts of the host, read-only, by descriptor; parents before children."""
        for tree in sorted(trees, key=lambda tree: tree.name):
            source = self._own(os.open, tree.source, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
            self.options += ("--ro-bind-fd", str(source), tree.name)

    def hide(self, names: Iterable[tuple[str, bool]]) -> None:
        """Cover names outside the workspace, each with whether it is a directory; the way to the workspace stays."""
        for name, is_directory in names:
            if within(self._work_dir, name):
                self.options += ("--perms", "0755", "--tmpfs", name)
                self._to_seal.append(name)
            else:
                self.options += ("--ro-bind", self.hiding["hide-dir" if is_directory else "hide-file"], name)

    def seal(self) -> None:
        """Make a place for the workspace, then make read-only all that was writable until here but /tmp."""
        self.options += ("--dir", self._work_dir)
        for name in (*self._to_seal, "/"):
            self.options += ("--remount-ro", name)

    def show_workspace(self, root_fd: int) -> None:
        """The workspace, writable."""
        root = self._own(partial(os.open, dir_fd=root_fd), ".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self.options += ("--bind-fd", str(root), self._work_dir)

    def mount(self, mounts: Iterable[Mount]) -> None:
        """What is mounted in the workspace."""
        for mount in mounts:
            if mount.kind in self.hiding:
                self.options += ("--ro-bind", self.hiding[mount.kind], mount.name)
            elif mount.pin is not None:
                source = self._own(os.dup, mount.pin.fd)
                option = "--ro-bind-fd" if mount.kind == "read-only" else "--bind-fd"
                self.options += (option, str(source), mount.name)

    def await_mounts(self, options: Iterable[str]) -> None:
        """Have somebody else mount in the workspace; *options* are what they have bubblewrap do meanwhile."""
        self.options += options

    def start_in(self, cwd: str) -> None:
        """The directory that the command starts in."""
        self.options += ("--chdir", cwd)


def hiding_things(scratch: str) -> Mapping[Kind, str]:
    """Make, once, the empty file and the empty directory that nobody can read; kind of mount -> name."""
    file, directory = os.path.join(scratch, "hidden-file"), os.path.join(scratch, "hidden-directory")
    if not os.path.lexists(file):
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0))
    if not os.path.lexists(directory):
        os.makedirs(directory, 0, exist_ok=True)
    return {"hide-file": file, "hide-dir": directory}
