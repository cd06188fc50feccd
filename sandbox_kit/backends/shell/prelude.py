r"""What a loop is taught before its first file operation: shell functions that later scripts call by name.

They print records, each a letter and a value ended by a NUL, which no name can hold: ``p`` the
real name of the directory that the shell has entered, ``n`` a name in it, ``m`` what is missing
beneath that, ``s`` what stat tells, ``h`` a hop, ``e`` why the way ends, ``l`` what a link holds,
``t`` where that link leads, ``z`` the end of one answer of several, ``b`` that bytes follow, ``g`` that bytes may come.

The shell enters a directory to pin it: ``./name`` is then in that directory, whatever becomes of
its name. Only builtins find the way, so that a path without links costs no process.
"""

from __future__ import annotations

from sandbox_kit.backends.shell import changes, listing, reading, search, writing
from sandbox_kit.backends.shell.tools import Tools

__all__ = ["prelude"]

_WALK = r"""
k_umask=$(umask) k_path=$PATH
k_stop() { printf 'e%s\0p%s\0m%s\0' "$1" "$PWD" "$2"; return 1; }
k_failed() { printf '\0e!\0'; return 1; }
k_try() { LC_ALL=C "$@" 2>&1 || k_failed; }
k_there() { [ -e "./$1" ] || [ -L "./$1" ]; }
k_spot() { printf 'p%s\0n%s\0m%s\0' "$PWD" "$k_n" "$k_r"; }

# PATH FOLLOW: enter the directory that PATH lies in, with k_n its name there and k_r what is missing beneath
k_go() {
	k_f=$2 k_r= k_n=${1##*/} k_d=${1%/*}
	case $1 in
	*/../*|*/..|*/) ;;
	*)
		cd -P "${k_d:-/}" && [ "$PWD" = "${k_d:-/}" ] && { [ ! "$2" ] || [ ! -L "./$k_n" ]; } && return
		;;
	esac
	k_walk "$1"
}

# PATH: the same, one component after the other
k_walk() {
	cd / || return
	k_q=$1 k_l=0
	while :; do
		k_q=${k_q#"${k_q%%[!/]*}"}
		k_c=${k_q%%/*}
		k_t=${k_q#"$k_c"}
		k_o=${PWD%/}
		case $k_c in
		'') k_up; return ;;
		.) k_q=$k_t; continue ;;
		..) printf 'h%s\0' "$PWD"; cd -P .. || { k_stop a "$k_q"; return; }; k_q=$k_t; continue ;;
		esac
		case $k_t in *[!/]*) k_m=1 ;; *) k_m= ;; esac
		if [ "$k_f$k_m" ] && [ -L "./$k_c" ]; then
			k_l=$((k_l + 1))
			[ "$k_l" -le 40 ] || { k_stop l "$k_q"; return; }
			printf 'h%s\0' "$k_o/$k_c"
			k_x=$(readlink -n -- "./$k_c" && echo .) || { k_stop c "$k_q"; return; }
			k_q=${k_x%.}$k_t
			case $k_q in /*) cd / ;; esac
		elif [ ! "$k_m" ]; then
			k_n=$k_c
			return 0
		elif [ -d "./$k_c" ]; then
			cd -P "./$k_c" || { [ -d "./$k_c" ] || continue; k_stop a "$k_q"; return; }
			[ "$PWD" = "$k_o/$k_c" ] || { k_stop c "$k_t"; return; }
			k_q=$k_t
		elif k_there "$k_c"; then
			# what came since the tests above is looked at again
			[ ! -d "./$k_c" ] && [ ! -L "./$k_c" ] || continue
			k_stop d "$k_q"
			return
		else
			case $k_t in */../*|*/..) k_stop n "$k_q"; return ;; esac
			k_n=$k_c k_r=$k_t
			return 0
		fi
	done
}

# the way ended in the directory that was entered: it is a name in the one above
k_up() {
	k_n=.
	[ "$PWD" != / ] || return 0
	k_n=${PWD##*/}
	cd -P .. || { k_stop a "$k_n"; return; }
	[ "${PWD%/}/$k_n" = "$k_o" ] || k_stop c "$k_n"
}

# PATH FOLLOW: tell where PATH leads
k_look() {
	k_go "$1" "$2" || return
	k_spot
	[ ! "$k_r" ] && k_there "$k_n" || return 0
	k_stat "./$k_n"
}

# PATH FOLLOW: the same, and what can be made or replaced there
k_place() {
	k_look "$1" "$2" || return 0
	[ ! -w . ] || printf 'w\0'
	[ ! -O "./$k_n" ] || [ ! -G "./$k_n" ] || printf 'o\0'
}

# PATH...: tell where each leads, but not what is there; every answer ends with a z
k_each() {
	for k_p; do
		k_go "$k_p" 1 && k_spot
		printf 'z\0'
	done
}

# PATH: tell of an entry itself, and of a link what it holds and where it leads
k_entry() {
	k_look "$1" '' || return 0
	[ ! -L "./$k_n" ] || [ "$k_r" ] || {
		printf l; readlink -n -- "./$k_n"; printf '\0'
		k_lead "${PWD%/}/$k_n"
	}
}
k_lead() { printf 't\0'; k_go "$1" 1 || return 0; k_spot; }

# DIRECTORY: enter it, under its real name
k_at() {
	cd -P "$1" && [ "$PWD" = "$1" ] && return
	if [ ! -e "$1" ]; then k_stop n ''
	elif [ -d "$1" ] && [ ! -x "$1" ]; then k_stop a ''
	else k_stop c ''
	fi
}
"""

_FORMAT = "%d %i %f %h %s "
_STAT = """
k_stat() {{ printf s; LC_ALL=C stat -c '{format}' -- "$1"; printf '\\0'; }}
"""


def prelude(tools: Tools) -> str:
    """Return the functions for an image with these tools."""
    form = _FORMAT + ("%.9Y" if tools.fstat else "%Y")
    return "".join(
        [
            _WALK,
            _STAT.format(format=form),
            reading.functions(tools, form),
            listing.functions(tools, form),
            writing.functions(tools),
            changes.functions(tools),
            search.functions(),
        ]
    )
