"""What a command in a container changed is seen, and its pictures are shown, through the rules of the sandbox."""

from __future__ import annotations

import pytest

from sandbox_kit import PermissionRule, PermissionRuleset, guarding
from sandbox_kit.backends.docker import DockerSandbox
from sandbox_kit.notebook import run
from sandbox_kit.notebook.changes import compare, look
from sandbox_kit.notebook.pictures import pictures

from .channels import MakeBox

PNG = "printf '\\211PNG\\r\\n\\032\\n' > {}"


@pytest.fixture(scope="module")
def plain_box(debian_image: str, make_box: MakeBox) -> DockerSandbox:
    return make_box(debian_image)


def test_files_and_pictures_of_a_container_are_seen(
    plain_box: DockerSandbox, capfd: pytest.CaptureFixture[str]
) -> None:
    plain_box.write("old.txt", "old")
    guarded = guarding(plain_box, PermissionRuleset(rules=[PermissionRule("private/**", "deny")]), commands="inspected")
    before = look(guarded)
    result = run(
        plain_box, f"mkdir private out; {PNG.format('out/a.png')}; cp out/a.png private; rm old.txt; echo done"
    )
    changes = compare(before, look(guarded))
    assert (result.stdout, capfd.readouterr().out) == ("done\n", "done\n")
    assert [info.path for info in changes.made] == ["out/a.png"]
    assert [info.path for info in changes.removed] == ["old.txt"]
    (shown,) = pictures(guarded, changes.made)
    assert 'alt="out/a.png"' in shown
