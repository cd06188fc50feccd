"""New directories and links, removal, other names."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from sandbox_kit.backends.shell.faults import refuse_failure
from sandbox_kit.backends.shell.line import Line
from sandbox_kit.backends.shell.spots import Spot, call
from sandbox_kit.backends.shell.tools import Tools
from sandbox_kit.errors import PathExistsError, SandboxError
from sandbox_kit.paths import join

__all__ = ["functions", "link", "make_directories", "remove", "remove_made", "rename", "set_mode"]

_CHANGE = r"""
# DIRECTORY NAMES: make each in the one before, and tell which were not there
k_make() {
	k_at "$1" || return
	shift
	for k_c; do
		k_o=${PWD%/}
		if [ -d "./$k_c" ]; then :
		elif LC_ALL=C mkdir -- "./$k_c" 2>/dev/null; then printf 'd%s\0' "$k_o/$k_c"
		elif [ ! -d "./$k_c" ]; then k_try mkdir -- "./$k_c" || return
		fi
		cd -P "./$k_c" && [ "$PWD" = "$k_o/$k_c" ] || { k_stop c ''; return; }
	done
}
k_unmake() { for k_i; do rmdir -- "$k_i" || return; done; }

# DIRECTORY MODE: the set-group-ID bit stays
k_chmod() {
	k_at "$1" || return
	k_x=
	[ ! -g . ] || k_x=2
	k_try chmod "$k_x$2" .
}

# DIRECTORY NAME
k_unlink() { k_at "$1" && k_try rm -- "./$2"; }
k_rmdir() { k_at "$1" && k_try rmdir -- "./$2"; }

# DIRECTORY NAME TEXT
k_link() {
	k_at "$1" || return
	! k_there "$2" || { k_stop x ''; return; }
	k_try ln LINK -- "$3" "./$2"
}

# DIRECTORY NAME TARGET-DIRECTORY NAME: the other directory is held open while both are used
k_rename() {
	k_at "$3" || return
	if [ "$1" = "$3" ]; then k_renamed "$2" "./$4"; return; fi
	k_s=$(stat -c %d .)
	if [ -r . ]; then { k_at "$1" && k_near && k_renamed "$2" "/proc/self/fd/6/$4"; } 6<.
	else k_at "$1" && k_near && k_renamed "$2" "$3/$4"
	fi
}
# to another file system mv would copy, and follow what became a link meanwhile
k_near() { [ "$(stat -c %d .)" = "$k_s" ] || k_stop o ''; }
k_renamed() {
	k_there "$1" || { k_stop n ''; return; }
	[ ! -e "$2" ] && [ ! -L "$2" ] || { k_stop x ''; return; }
	k_exclusively "$1" "$2"
}
k_moved() {
	LC_ALL=C mv MOVE -- "./$1" "$2" 2>&1
	k_there "$1" || return 0
	if [ -e "$2" ] || [ -L "$2" ]; then printf '\0'; k_stop x ''; else k_failed; fi
}
"""
_BY_DESCRIPTOR = r"""
# DIRECTORY NAME IDENTITY: remove a tree; directories that are closed to their owner are opened if need be
k_clear() {
	k_at "$1" || return
	[ "$(stat -c %d:%i -- "./$2")" = "$3" ] || { k_stop c ''; return; }
	rm -rf -- "./$2" && return
	find "./$2" -type d ! -perm -700 -exec chmod u+rwx '{}' ';'
	k_try rm -rf -- "./$2"
}
"""
_BY_ENTERING = r"""
# the same, where rm would follow a link that took a directory's place
k_clear() {
	k_at "$1" || return
	[ "$(stat -c %d:%i -- "./$2")" = "$3" ] || { k_stop c ''; return; }
	k_empty "$2"
}
# NAME: remove that directory of the current one; each beneath it is entered before anything in it goes
k_empty() {
	[ -x "./$1" ] && [ -w "./$1" ] && [ -r "./$1" ] || chmod u+rwx "./$1"
	k_o=${PWD%/}
	cd -P "./$1" && [ "$PWD" = "$k_o/$1" ] || { k_stop c ''; return; }
	LC_ALL=C find . ! -name . -prune ! -type d -exec rm -f -- '{}' + 2>&1 || { k_failed; return; }
	for k_c in * .[!.]* ..?*; do
		[ ! -d "./$k_c" ] || [ -L "./$k_c" ] || k_empty "$k_c" || return
	done
	k_o=${PWD%/*}
	cd -P .. && [ "$PWD" = "${k_o:-/}" ] || { k_stop c ''; return; }
	k_try rmdir -- "./$1"
}
"""
_BY_RENAME = """
k_exclusively() { k_moved "$1" "$2"; }
"""
_BY_LINK = r"""
k_exclusively() {
	if [ ! -f "./$1" ] || [ -L "./$1" ] || ! ln -- "./$1" "$2"; then k_moved "$1" "$2"
	elif [ "./$1" -ef "$2" ]; then k_try rm -f -- "./$1"
	else rm -f -- "$2/$1"; k_stop c ''
	fi
}
"""


def functions(tools: Tools) -> str:
    """Return the shell functions of this module."""
    script = _CHANGE + (_BY_DESCRIPTOR if tools.sure else _BY_ENTERING) + (_BY_RENAME if tools.into else _BY_LINK)
    return script.replace("LINK", "-sT" if tools.into else "-sn").replace("MOVE", "-nT" if tools.replace else "-n")


def make_directories(
    line: Line, path: str, parent: str, names: Sequence[str], mode: int | None = None
) -> tuple[str, ...]:
    """Make *names* beneath the directory *parent*, one in the other; *mode* is for the last of them.

    Returns:
        The real names of those that were not there before, outermost first.

    Raises:
        PathError: of the kind that the tools tell; what was made is gone again.
        SandboxConflictError: something else took the name of one.
    """
    if not names:
        return ()
    script = call("k_make", parent, *names)
    if mode is not None:
        script += f" && k_chmod {call('', join(parent, '/'.join(names)), f'{mode:03o}')}"
    records = line.act(f"{{ {script}; }}").records()
    made = tuple(record[1:] for record in records if record[:1] == "d")
    try:
        refuse_failure(path, records)
    except SandboxError:
        remove_made(line, made)
        raise
    return made


def remove_made(line: Line, made: Sequence[str]) -> None:
    """Remove directories that were made, the innermost first, up to one that is not empty; never an error."""
    if made:
        with suppress(SandboxError):
            line.act(call("k_unmake", *reversed(made)))


def set_mode(line: Line, path: str, directory: str, mode: int) -> None:
    """Give a directory its permissions; the bits that its group and the system deal with stay."""
    refuse_failure(path, line.act(call("k_chmod", directory, f"{mode:03o}")).records())


def link(line: Line, path: str, spot: Spot, target: str) -> None:
    """Make a symbolic link at a place where nothing is.

    Raises:
        PathExistsError: something is there by now.
    """
    refuse_failure(path, line.act(call("k_link", spot.parent, spot.name, target)).records())


def remove(line: Line, path: str, spot: Spot, *, recursive: bool) -> None:
    """Remove what is at a place; with *recursive* all that is beneath it.

    Raises:
        PathIsDirectoryError: the directory holds something.
        SandboxConflictError: another tree has the name by now.
    """
    assert spot.stat is not None
    place = (spot.parent, spot.name)
    if not spot.stat.is_dir:
        script = call("k_unlink", *place)
    elif recursive:
        script = call("k_clear", *place, f"{spot.stat.device}:{spot.stat.inode}")
    else:
        script = call("k_rmdir", *place)
    refuse_failure(path, line.act(script).records())


def rename(line: Line, path: str, spot: Spot, target: str, new: Spot) -> None:
    """Give what is at *spot* the name *new*, where nothing is.

    Raises:
        PathExistsError: something is there by now.
        PathError: the two are on different file systems.
    """
    records = line.act(call("k_rename", spot.parent, spot.name, new.parent, new.name)).records()
    try:
        refuse_failure(path, records)
    except PathExistsError as error:
        raise PathExistsError(target) from error
