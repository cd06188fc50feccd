"""What a check of one path costs, beside the checker of pydantic-ai-backend and a loop over wcmatch.

Run as ``python -m benchmarks.bench_rules``. Ours and the peers take turns, and a figure is the best
of several rounds. All paths of a round are different and every round has a checker of its own, so
no answer is remembered.
"""

from __future__ import annotations

import importlib
import math
import random
import time
from collections.abc import Callable, Sequence

from sandbox_kit.rules import globs
from sandbox_kit.rules.checker import PermissionChecker
from sandbox_kit.rules.ruleset import OperationPermissions, PermissionRule, PermissionRuleset
from sandbox_kit.types import Action

Check = Callable[[str], object]
Rules = list[tuple[str, Action]]

ROUNDS = 9
ACTIONS: tuple[Action, ...] = ("deny", "ask", "allow")

# Ten shapes of rules, and for each a path that it matches.
SHAPES = (
    ("**/name{0:02}", "/w/a/name{0:02}"),
    ("**/*.ext{0:02}", "/w/b/c/file.ext{0:02}"),
    ("/srv/app{0:02}/**", "/srv/app{0:02}/lib/x.py"),
    ("/etc/conf{0:02}.d/*.conf", "/etc/conf{0:02}.d/main.conf"),
    ("src/mod{0:02}/**/test_*.py", "/w/src/mod{0:02}/a/b/test_x.py"),
    ("**/secret{0:02}*", "/w/a/secret{0:02}.txt"),
    ("**/*token{0:02}*", "/w/my-token{0:02}-file"),
    ("/opt/pkg{0:02}/[a-f]?.key", "/opt/pkg{0:02}/az.key"),
    ("**/{{left{0:02},right{0:02}}}.pem", "/w/c/d/right{0:02}.pem"),
    ("/home/*/.cache{0:02}", "/home/me/.cache{0:02}"),
)
MANY: Rules = [(SHAPES[i % 10][0].format(i // 10), ACTIONS[i % 3]) for i in range(1000)]
FEW: Rules = [
    ("**/.env", "deny"),
    ("**/*.pem", "deny"),
    ("**/.ssh/**", "deny"),
    ("**/id_rsa*", "deny"),
    ("/etc/**", "deny"),
    ("/usr/**", "ask"),
    ("**/.git/**", "ask"),
    ("**/secrets.*", "deny"),
    ("/w/private/**", "deny"),
    ("/w/**", "allow"),
]
WORST = (
    ("stars", "*[ab]?" * 600 + "[cd]", "/" + "a" * 4095),
    ("a run inside", "*" + "[ab]" * 1000 + "[cd]*", "/" + "a" * 4095),
    ("a run at the end", "*" + "[ab]" * 1000 + "[cd]", "/" + "a" * 4095),
    ("two stars", "**/a/" * 800 + "b", "/a" * 2047),
    ("two stars and stars", "**/*a?/" * 580 + "b", "/abc" * 1023),
    ("segments", "**/" + "a/" * 2000 + "b", "/a" * 2047),
)


def main() -> None:
    """Print one table."""
    misses = tree(10_000)
    hits = [SHAPES[i % 10][1].format(i // 10) for i in range(1000)]
    both = [path for pair in zip(misses, hits, strict=False) for path in pair]
    scattered = [f"/w/{i % 97}/d{i}/e{i * 7}/f{i}/m{i}.txt" for i in range(10_000)]
    print(f"{'':38}{'ours':>8}{'upstream':>10}{'ratio':>9}{'wcmatch':>10}{'ratio':>9}")
    row("1000 rules, hits and misses, us", MANY, both, peer_paths=20)
    row("1000 rules, misses, us", MANY, misses, peer_paths=20)
    row("1000 rules, every directory new, us", MANY, scattered, peer_paths=20)
    row("10 rules, us", FEW, misses, peer_paths=2000)
    row("10 rules, every directory new, us", FEW, scattered, peer_paths=2000)
    built, first = building(MANY)
    print(f"{'1000 rules: parsed and proven, ms':38}{1e3 * built:8.1f}")
    print(f"{'1000 rules: compiled by first check, ms':38}{1e3 * first:7.1f}")
    for name, pattern, path in WORST:
        print(f"{f'worst pattern, 4 KiB: {name}, ms':38}{1e3 * worst(pattern, path):8.1f}")


def tree(count: int) -> list[str]:
    """Return distinct paths like those of a source tree; none of the 1000 rules matches one."""
    rng = random.Random(1)
    names = ("lib", "core", "api", "docs", "tests", "v1")
    directories = ["/w/" + "/".join(rng.choices(names, k=i % 5 + 1)) + f"/p{i}" for i in range(500)]
    return [f"{rng.choice(directories)}/module_{i}.{rng.choice(('py', 'txt', 'c', 'json'))}" for i in range(count)]


def row(name: str, rules: Rules, paths: Sequence[str], peer_paths: int) -> None:
    """Print ours and the peers', in microseconds a path; *peer_paths* of them are enough for a peer."""
    few = paths[:: len(paths) // peer_paths]
    made = ruleset(rules)
    rounds = [(lambda: checker(made), paths), (upstream(rules), few), (wcmatch(rules), few)]
    ours, *peers = per_path(rounds)
    cells = [f"{name:38}{1e6 * ours:8.2f}"]
    for cost in peers:
        missing = math.isinf(cost)
        cells.append(f"{'missing':>10}{'':9}" if missing else f"{1e6 * cost:10.1f}{cost / ours:8.1f}x")
    print("".join(cells))


def per_path(rounds: Sequence[tuple[Callable[[], Check] | None, Sequence[str]]]) -> list[float]:
    """Return the least cost of one path to each, in seconds; they take turns, each time with a new checker."""
    costs = [math.inf] * len(rounds)
    for _ in range(ROUNDS):
        for at, (make, paths) in enumerate(rounds):
            if make is not None:
                costs[at] = min(costs[at], once(make(), paths))
    return costs


def once(check: Check, paths: Sequence[str]) -> float:
    """Return what *check* costs for one of *paths*, in seconds."""
    check("/first/use/compiles")
    started = time.perf_counter()
    for path in paths:
        check(path)
    return (time.perf_counter() - started) / len(paths)


def ruleset(rules: Rules) -> PermissionRuleset:
    """Return *rules* as those of one operation."""
    made = [PermissionRule(pattern, action) for pattern, action in rules]
    return PermissionRuleset(read=OperationPermissions(rules=made))


def checker(made: PermissionRuleset) -> Check:
    """Return our check of one path."""
    allows = PermissionChecker(made, "/w").allows
    return lambda path: allows("read", path)


def upstream(rules: Rules) -> Callable[[], Check] | None:
    """Return a maker of the check of pydantic-ai-backend, or None where it is not installed."""
    try:
        permissions = importlib.import_module("pydantic_ai_backends.permissions")
    except ImportError:
        return None
    made = [permissions.PermissionRule(pattern=pattern, action=action) for pattern, action in rules]
    own = permissions.OperationPermissions(default="allow", rules=made)
    check = permissions.PermissionChecker(permissions.PermissionRuleset(read=own)).check_sync
    return lambda: lambda path: check("read", path)


def wcmatch(rules: Rules) -> Callable[[], Check] | None:
    """Return a maker of a loop over compiled wcmatch patterns, or None where it is not installed."""
    try:
        glob = importlib.import_module("wcmatch.glob")
    except ImportError:
        return None
    flags = glob.GLOBSTAR | glob.DOTGLOB | glob.BRACE
    compiled = [glob.compile(pattern, flags=flags) for pattern, _ in rules]
    return lambda: lambda path: next((i for i, pattern in enumerate(compiled) if pattern.match(path)), None)


def building(rules: Rules) -> tuple[float, float]:
    """Return what it costs to build a ruleset, and what its first check costs on top, in seconds."""
    built, first = [], []
    for _ in range(ROUNDS):
        globs._PARSED = globs._Parsed()
        started = time.perf_counter()
        made = ruleset(rules)
        ready = time.perf_counter()
        PermissionChecker(made, "/w").allows("read", "/w/a/b.txt")
        first.append(time.perf_counter() - ready)
        built.append(ready - started)
    return min(built), min(first)


def worst(pattern: str, path: str) -> float:
    """Return what one check of *path* costs, compiling included, in seconds."""
    check = checker(ruleset([(pattern, "deny")]))
    started = time.perf_counter()
    check(path)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
