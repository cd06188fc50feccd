"""Changes and pictures by the sandbox's own calls, and what is shown outside a notebook."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sandbox_kit import (
    Backend,
    InvalidArgumentError,
    LocalBackend,
    LocalSandbox,
    OperationPermissions,
    PermissionRule,
    PermissionRuleset,
    StateBackend,
    guarding,
)
from sandbox_kit.notebook.changes import compare, look
from sandbox_kit.notebook.pictures import AT_MOST, LARGEST, pictures
from sandbox_kit.notebook.running import run

from .pages import Page

PNG = b"\x89PNG\r\n\x1a\n"
KINDS = {
    "a.png": PNG,
    "b.JPG": b"\xff\xd8\xff\xe0",
    "c.jpeg": b"\xff\xd8\xff\xe1",
    "d.gif": b"GIF89a",
    "e.webp": b"RIFF\0\0\0\0WEBP",
    "f.svg": b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>",
}


def shown(backend: Backend) -> Page:
    return Page("".join(pictures(backend, backend.glob("**/*"))))


def captions(page: Page) -> list[str | None]:
    return [value for _, name, value in page.attributes if name == "alt"]


def test_every_kind_of_picture_is_shown_and_nothing_in_it_runs() -> None:
    page = shown(StateBackend({**KINDS, "g.txt": "text", "png": "no name"}))
    assert captions(page) == list(KINDS)
    assert page.is_tidy
    assert set(page.found) == {"div", "img", "p"}


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"<html>", "p.png is not shown: it is no image/png"),
        (b"", "p.png is not shown: it is no image/png"),
        (PNG + bytes(LARGEST), f"p.png is not shown: it is larger than {LARGEST:,} bytes"),
    ],
    ids=["other", "empty", "large"],
)
def test_what_is_no_picture_or_too_large_is_told(data: bytes, told: str) -> None:
    page = shown(StateBackend({"p.png": data}))
    assert (page.text, captions(page)) == (told, [])


def test_no_more_pictures_than_a_page_bears_are_shown() -> None:
    page = shown(StateBackend({f"{number:02}.png": PNG for number in range(AT_MOST + 3)}))
    assert len(captions(page)) == AT_MOST
    assert page.text.endswith("3 more pictures are not shown")


def test_a_picture_that_may_not_be_read_is_not_shown() -> None:
    rules = PermissionRuleset(read=OperationPermissions(rules=[PermissionRule("secret.png", "deny")]))
    page = shown(guarding(StateBackend({"secret.png": PNG + b"SECRET", "seen.png": PNG}), rules))
    assert captions(page) == ["seen.png"]
    assert "secret.png is not shown: read secret.png: denied by rule deny secret.png" in page.text


def test_a_picture_whose_name_is_hidden_is_not_mentioned() -> None:
    rules = PermissionRuleset(rules=[PermissionRule("secret.png", "deny")])
    page = shown(guarding(StateBackend({"secret.png": PNG, "seen.png": PNG}), rules))
    assert captions(page) == ["seen.png"]
    assert "secret" not in page.text


def test_a_link_is_not_followed_to_a_picture(tmp_path: Path) -> None:
    (tmp_path / "p.png").write_bytes(PNG)
    (tmp_path / "link.png").symlink_to("p.png")
    assert captions(shown(LocalBackend(tmp_path))) == ["p.png"]


def test_changes_are_told_by_size_time_and_mode(tmp_path: Path) -> None:
    files = LocalBackend(tmp_path)
    for name in ("same", "longer", "later", "mode", "gone"):
        files.write(name, "x")
    before = look(files)
    (tmp_path / "longer").write_text("xx")
    (tmp_path / "later").touch()
    (tmp_path / "mode").chmod(0o600)
    (tmp_path / "gone").unlink()
    files.write("deep/new", "")
    changes = compare(before, look(files))
    told = [[info.path for info in each] for each in (changes.made, changes.changed, changes.removed)]
    assert told == [["deep/new"], ["later", "longer", "mode"], ["gone"]]


def test_outside_a_notebook_output_is_printed_without_control_sequences(capfd: pytest.CaptureFixture[str]) -> None:
    with LocalSandbox() as box:
        result = run(box, "printf '\\033[31mred\\033[0m\\a\\n'; echo err >&2", changes=False)
    assert capfd.readouterr() == ("red\u2407\n", "err\n")
    assert result.stdout == "\x1b[31mred\x1b[0m\a\n"


def test_what_runs_no_commands_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="runs no commands"):
        run(StateBackend(), "ls")  # type: ignore[arg-type]


def test_in_a_terminal_output_is_printed_once(jupyter: None) -> None:
    cells = ["%load_ext sandbox_kit.notebook", "from sandbox_kit import LocalSandbox", "box = LocalSandbox().start()"]
    cells += ["%sandbox box", "get_ipython().run_cell_magic('sandbox', 'box', 'echo out; echo err >&2')"]
    command = [sys.executable, "-m", "IPython", "--no-banner", "--colors=NoColor", "-c", "\n".join(cells)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout.count("out\n"), done.stderr.count("err\n")) == (1, 1)
    assert "CommandResult(exit_code=0" in done.stdout
    assert "<div" not in done.stdout
