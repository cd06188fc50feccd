"""grep of LocalBackend, bare and guarded, beside the search program's own output read raw.

``python -m benchmarks.bench_grep``. The tree is a copy of up to 5,000 files of this Python's library.
A figure is the least of several interleaved rounds, in ms.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.bench_filter import chosen_words, least_ms, make_tree, plain_grep, plain_ripgrep, read_raw
from sandbox_kit.backends.local import LocalBackend, search
from sandbox_kit.contract import Backend
from sandbox_kit.guard import guarding
from sandbox_kit.rules.ruleset import PermissionRule, PermissionRuleset

PATTERNS = ("**/.env", "**/*.pem", "/etc/**", "**/secrets/**", "**/.ssh/**")


def through(backend: Backend, word: str) -> Callable[[], int]:
    return lambda: sum(1 for _ in backend.grep(word))


def choose(program: str, scratch: Path) -> None:
    """Make *program* the only one that the backend finds."""
    directory = scratch / program
    directory.mkdir()
    (directory / program).symlink_to(str(shutil.which(program)))
    os.environ["PATH"] = f"{directory}"
    search._program.cache_clear()


def main() -> None:
    rg_path, grep_path = str(shutil.which("rg")), str(shutil.which("grep"))
    path = os.environ["PATH"]
    with tempfile.TemporaryDirectory() as directory:
        tree, scratch = Path(directory, "tree"), Path(directory)
        make_tree(tree)
        bare = LocalBackend(tree)
        guarded = guarding(bare, PermissionRuleset("allow", rules=[PermissionRule(each, "deny") for each in PATTERNS]))
        for program in ("rg", "grep"):
            os.environ["PATH"] = path
            choose(program, scratch)
            print(
                f"by {program}: {'hits':>7} {'rg raw':>8} {'grep raw':>9}"
                f" {'bare':>8} {'guarded':>8} {'x rg':>6} {'x grep':>7}"
            )
            for word, hits in chosen_words(tree).items():
                rg, grep, plain, held = least_ms(
                    lambda word=word: read_raw([rg_path, *plain_ripgrep(word)[1:]], tree),  # type: ignore[misc]
                    lambda word=word: read_raw([grep_path, *plain_grep(word)[1:]], tree),  # type: ignore[misc]
                    through(bare, word),
                    through(guarded, word),
                )
                print(
                    f"{'':{len(program) + 3}} {hits:7} {rg:8.0f} {grep:9.0f} {plain:8.0f} {held:8.0f}"
                    f" {held / rg:6.2f} {held / grep:7.2f}"
                )


if __name__ == "__main__":
    main()
