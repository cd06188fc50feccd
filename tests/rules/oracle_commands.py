"""Slow and obvious: an execute pattern matched by trying everything, claims held to a small tree."""

from __future__ import annotations

import posixpath
import re

from sandbox_kit.rules.commands import CommandLine, PathClaim

WORKSPACE = "/w"
TREE = (
    "/w/.env",
    "/w/sub",
    "/w/sub/.env",
    "/w/private",
    "/w/private/key.txt",
    "/w/private/deep",
    "/w/private/deep/x.txt",
    "/w/certs",
    "/w/certs/a.pem",
    "/w/ok.txt",
)


def naive_matches(pattern: str, text: str) -> bool:
    """Whether an execute pattern without classes matches, by plain backtracking."""
    if pattern.endswith(" *") and len(pattern) > 2 and _backtrack(pattern[:-2], text):
        return True
    return _backtrack(pattern, text)


def _backtrack(pattern: str, text: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "*":
        return any(_backtrack(pattern[1:], text[at:]) for at in range(len(text) + 1))
    if pattern[0] == "\\":
        return text[:1] == pattern[1] and _backtrack(pattern[2:], text[1:])
    return text != "" and pattern[0] in ("?", text[0]) and _backtrack(pattern[1:], text[1:])


def denies(rule: str, path: str) -> bool:
    """What the rules of the cases say of an absolute path."""
    if rule == "deny **/.env":
        return "/.env/" in path + "/"
    directory = {"deny {W}/private/**": "/w/private/", "deny /etc/**": "/etc/"}[rule]
    return f"{path}/".startswith(directory)


def names(claim: PathClaim) -> list[str]:
    """The absolute paths that a claim stands for: in the tree if it is a glob, else whatever it says."""
    found = []
    for base in claim.bases:
        path = _absolute(claim.path, _absolute(base, WORKSPACE))
        found += [name for name in TREE if re.fullmatch(_glob_regex(path), name)] if claim.pattern else [path]
    return found


def refused(command: CommandLine, rule: str) -> list[PathClaim]:
    """The claims of a line that a rule denies."""
    return [claim for claim in command.claims if any(denies(rule, name) for name in names(claim))]


def _absolute(path: str, base: str) -> str:
    return posixpath.normpath(posixpath.join(base, path.replace("~", WORKSPACE, 1) if path[:1] == "~" else path))


def _glob_regex(pattern: str) -> str:
    tokens = re.findall(r"\\.|\*|\?|\[[!^]?\]?[^]]*\]|.", pattern, re.DOTALL)
    return "".join(map(_token_regex, tokens))


def _token_regex(token: str) -> str:
    if token in ("*", "?"):
        return {"*": "[^/]*", "?": "[^/]"}[token]
    if len(token) > 2:
        return "[" + re.sub("^[!^]", "^", token[1:-1]) + "]"
    return re.escape(token[-1])
