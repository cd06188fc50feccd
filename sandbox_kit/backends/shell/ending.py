r"""A command within its time limit, and the end of whatever it started, by one shell that is not alone.

The shell that runs the command sees other programs beside it: those of the provider, and of other calls. What it
ends is what came since it began and is beneath it, or has lost its parent and carries its mark. Where the first
process of the sandbox is the parent of orphans alone, as the provider starts programs from outside, it also ends
those that carry no mark.
"""

from __future__ import annotations

from shlex import quote

__all__ = ["abort", "label", "timed"]

_KEPT = 20
"""Seconds after which a command that was given up will not begin any more."""

_FUNCTIONS = r"""
# PID: tell its state, its parent and when it began
k_see() {
	k_l=
	while IFS= read -r k_x || [ "$k_x" ]; do k_l=$k_l$k_x; done 2>/dev/null <"/proc/$1/stat"
	k_l=${k_l##*) }
	[ "$k_l" ] || return
	set -- $k_l
	k_state=$1 k_up=$2 k_born=${20}
}
k_all() {
	k_found=
	for k_d in /proc/[0-9]*; do
		k_i=${k_d#/proc/}
		k_see "$k_i" && [ "$k_state" != Z ] || continue
		eval "k_up_$k_i=$k_up"
		k_found="$k_found $k_i:$k_born"
	done
}
# PID: whether the call has to end it
k_is_ours() {
	k_a=$1
	while [ "$k_a" != 1 ]; do
		case $k_a in
		"$k_not"|0) return 1 ;;
		"$k_me") [ "$1" != "$k_me" ]; return ;;
		esac
		eval "k_a=\${k_up_$k_a:-1}"
	done
	k_has "$1" "$k_mark" || { [ "$k_top" = 0 ] && ! k_has "$1" "SANDBOX_KIT_RUN="; }
}
k_has() { cat "/proc/$1/environ" "/proc/$1/cmdline" 2>/dev/null | tr '\0' '\n' | grep -q -e "$2"; }
k_end() {
	k_round=0 k_hit=1
	while [ "$k_hit" ] && [ "$k_round" -lt 100 ]; do
		k_hit= k_round=$((k_round + 1))
		k_all
		for k_e in $k_found; do
			case "$k_old " in *" $k_e "*) continue ;; esac
			k_is_ours "${k_e%:*}" && kill -9 "${k_e%:*}" && k_hit=1
		done
	done
}
"""
_TIMED = r"""{functions}
[ ! -e {tombstone} ] || {{ rm -f {tombstone}; exit 1; }}
read -r k_me k_x </proc/self/stat
k_all
k_old=$k_found k_not=- k_top=$k_me
while [ "$k_top" -gt 1 ]; do eval "k_top=\${{k_up_$k_top:-1}}"; done
k_mark='SANDBOX_KIT_RUN={token}'
export SANDBOX_KIT_RUN={token}
trap 's=1' USR1
exec 5<&0 </dev/null
(
	read -r k_not k_x </proc/self/stat
	sleep {seconds} || exit
	kill -USR1 "$k_me"
	k_end
) 5<&- 8>&- 9>&- &
{script}
k_end
"""
_ABORT = r"""
: >{tombstone}
k_any= k_mark='{first}''{second}' k_round=0 k_hit=1
while [ "$k_hit" ] && [ "$k_round" -lt 100 ]; do
	k_hit= k_round=$((k_round + 1))
	for k_d in /proc/[0-9]*; do
		cat "$k_d/environ" "$k_d/cmdline" 2>/dev/null | tr '\0' '\n' | grep -q -e "$k_mark" || continue
		kill -9 "${{k_d#/proc/}}" && k_hit=1 k_any=1
	done
done
if [ "$k_any" ]; then rm -f {tombstone}; else ( sleep {kept}; rm -f {tombstone} ) </dev/null >/dev/null 2>&1 & fi
"""


def label(token: str) -> str:
    """Return what the command line of a script has to hold, whose own shells have *token* in no environment."""
    return f"SANDBOX_KIT_RUN={token}"


def timed(script: str, token: str, seconds: float, tombstone: str) -> str:
    """Return shell code that runs a command and ends all that it started, at the time limit at the latest.

    Args:
        script: runs the command, which reads descriptor 5, and leaves its exit code in ``c``.
        token: marks what belongs to it; ``s`` is 1 in the end where the limit came first.
        seconds: the limit.
        tombstone: the path of a file; where it is there, the command was given up before it began.
    """
    return _TIMED.format(
        functions=_FUNCTIONS, token=token, seconds=f"{seconds:.3f}", script=script, tombstone=quote(tombstone)
    )


def abort(token: str, tombstone: str) -> str:
    """Return a command line that ends what carries the mark *token*, which is not written out in it.

    Args:
        tombstone: as for :func:`timed`; what has not begun yet does not begin.
    """
    middle = len(token) // 2
    return _ABORT.format(first=token[:middle], second=token[middle:], tombstone=quote(tombstone), kept=_KEPT)
