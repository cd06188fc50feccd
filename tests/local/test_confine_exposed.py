"""Rules beneath the host paths that are exposed to commands."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from sandbox_kit.backends.local import LocalSandbox, exposed
from sandbox_kit.backends.local.base import Tree
from sandbox_kit.backends.local.exposed import hidden_beneath
from sandbox_kit.errors import PolicyError, UnsupportedError
from sandbox_kit.guard import guarding
from sandbox_kit.joint_masks import JointMasks
from sandbox_kit.rules.presets import SECRETS
from sandbox_kit.rules.ruleset import PermissionRule, PermissionRuleset

from .confinement import SECRET, Denials, Workspace, started
from .sandboxes import denying

confined = pytest.mark.needs("bwrap")

KEYS = Denials(deny=(".*/id_rsa", r".*/[^/]*\.pem", ".*/private"))


@pytest.fixture
def home(workspace: Workspace, tmp_path: Path) -> Path:
    """A directory beside the workspace, with secrets and harmless files in it."""
    for name in (".ssh/id_rsa", "a.pem", "sub/.env", "sub/deep/b.pem", "private/key.txt"):
        workspace.put(f"../home/{name}")
    for name in (".ssh/known_hosts", "sub/ok.txt"):
        workspace.put(f"../home/{name}", "fine\n")
    return tmp_path / "home"


def found(
    masks: Denials, *trees: tuple[str, Path], work_dir: str = "/nowhere", all_exposed: bool = True
) -> Sequence[str]:
    """What is to be hidden of *trees*, each a name and a source, as the relative names of the first source."""
    shown = [Tree(name, str(source), exposed=all_exposed) for name, source in trees]
    names = hidden_beneath(shown, JointMasks((masks,)), work_dir)
    return sorted(os.path.relpath(name, trees[0][1]) for name in names)


class TestWalk:
    def test_finds_what_rules_hide_at_any_depth(self, home: Path) -> None:
        assert found(KEYS, (str(home), home)) == [".ssh/id_rsa", "a.pem", "private", "sub/deep/b.pem"]

    def test_is_left_out_without_rules_and_for_what_nobody_exposed(self, home: Path) -> None:
        assert hidden_beneath([Tree(str(home), str(home), exposed=True)], JointMasks(()), "/nowhere") == []
        assert found(KEYS, (str(home), home), all_exposed=False) == []

    def test_agrees_with_a_look_at_every_name(self, home: Path) -> None:
        hidden = found(KEYS, (str(home), home))
        for path in home.rglob("*"):
            covered = any(path == home / name or home / name in path.parents for name in hidden)
            assert covered == KEYS.hidden(str(path)), path

    def test_opens_what_an_allow_opens_in_a_hidden_directory(self, home: Path) -> None:
        masks = Denials(deny=(".*/home/sub",), allow=(r".*/ok\.txt", ".*/home/sub"))
        assert found(masks, (str(home), home)) == ["sub/.env", "sub/deep/b.pem"]

    def test_judges_by_every_name_that_commands_see(self, home: Path) -> None:
        masks = Denials(deny=("/alias/sub", r"/other/a\.pem"))
        assert found(masks, (str(home), home), ("/alias", home), ("/other", home)) == ["a.pem", "sub"]

    def test_gives_the_whole_path_where_that_is_hidden(self, home: Path) -> None:
        assert found(Denials(deny=(".*/home",)), (str(home), home)) == ["."]
        assert found(Denials(deny=("/alias",)), (str(home), home), ("/alias", home)) == ["."]

    def test_judges_a_single_file(self, home: Path) -> None:
        assert found(KEYS, (str(home / "a.pem"), home / "a.pem")) == ["."]
        assert found(KEYS, (str(home / "sub/ok.txt"), home / "sub/ok.txt")) == []

    def test_follows_no_link(self, home: Path) -> None:
        (home / "loop").symlink_to(".")
        (home / "sub/linked.pem").symlink_to("ok.txt")
        assert found(KEYS, (str(home), home)) == [".ssh/id_rsa", "a.pem", "private", "sub/deep/b.pem"]

    def test_leaves_the_workspace_to_its_own_walk(self, home: Path) -> None:
        assert found(KEYS, (str(home), home), work_dir=str(home / "sub")) == [".ssh/id_rsa", "a.pem", "private"]

    def test_hides_a_directory_as_one_where_many_files_of_it_are_hidden(self, home: Path) -> None:
        for number in range(80):
            (home / f".ssh/{number}.pem").touch()
            (home / "many").mkdir(exist_ok=True)
            (home / f"many/{number}.pem").touch()
        hidden = found(KEYS, (str(home), home))
        assert "many" in hidden
        assert ".ssh/1.pem" in hidden
        assert not any(name.startswith("many/") for name in hidden)

    def test_of_too_many_hidden_names_is_refused_by_name(self, home: Path) -> None:
        for number in range(250):
            (home / f"sub/{number}.pem").touch()
        with pytest.raises(UnsupportedError, match=f"hide 25. names beneath the exposed {home},"):
            found(KEYS, (str(home), home))

    def test_of_too_many_entries_is_refused_by_name(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        count = sum(1 for path in home.rglob("*") if path.parent != home / "private")
        monkeypatch.setattr(exposed, "MAX_ENTRIES", count)
        found(KEYS, (str(home), home))
        monkeypatch.setattr(exposed, "MAX_ENTRIES", count - 1)
        with pytest.raises(UnsupportedError, match=f"{home} is exposed and holds more than {count - 1} entries"):
            found(KEYS, (str(home), home))

    def test_of_what_has_become_a_link_is_refused(self, home: Path, tmp_path: Path) -> None:
        (tmp_path / "link").symlink_to(home)
        with pytest.raises(PolicyError, match="link"):
            found(KEYS, (str(tmp_path / "link"), tmp_path / "link"))


@confined
class TestCommands:
    @pytest.mark.parametrize(
        "line",
        [
            "cat home/.s*/id_r* home/*.pem home/sub/.env home/sub/deep/b* home/private/*",
            "grep -rs . home alias",
            "cat alias/.ssh/id_rsa alias/a.pem",
            "umount -l home/a.pem; mv home/private p; cat home/a.pem p/*",
            "cd home; cat ./sub/../a.pem /proc/self/cwd/.ssh/id_rsa",
        ],
    )
    def test_cannot_read_secrets_beneath_what_is_exposed(
        self, line: str, workspace: Workspace, home: Path, tmp_path: Path
    ) -> None:
        (tmp_path / "alias").symlink_to("home")
        workspace.put("try.sh", f"cd {tmp_path}; {line}")
        rules = denying("**/id_rsa", "**/*.pem", "**/.env", "**/private")
        plain = LocalSandbox(workspace.root, expose=[home, tmp_path / "alias"])
        with guarding(plain, rules, commands="confined") as sandbox:
            assert SECRET not in sandbox.execute("sh try.sh").output
            seen = sandbox.execute(f"cat {home}/sub/ok.txt {tmp_path}/alias/.ssh/known_hosts", check=True)
            assert seen.stdout == "fine\nfine\n"
        with plain:
            assert SECRET in plain.execute("sh try.sh").stdout

    def test_cannot_read_what_the_secrets_preset_names(self, workspace: Workspace, home: Path) -> None:
        workspace.put("try.sh", f"cat {home}/.s*/id_r* {home}/a.* {home}/sub/.e* {home}/sub/*/b.*")
        with guarding(LocalSandbox(workspace.root, expose=[home]), SECRETS, commands="confined") as sandbox:
            assert SECRET not in sandbox.execute("sh try.sh").output
            assert sandbox.execute(f"cat {home}/sub/ok.txt", check=True).stdout == "fine\n"

    def test_that_run_at_once_share_what_is_hidden(self, workspace: Workspace, home: Path) -> None:
        with ExitStack() as stack:
            started(stack, workspace.prepare(KEYS, expose=[home]), "echo up; sleep 60")
            assert SECRET not in workspace.run(f"cat {home}/a.pem {home}/.ssh/id_rsa", KEYS, expose=[home])

    def test_do_not_see_an_exposed_path_that_rules_hide(self, workspace: Workspace, home: Path) -> None:
        with guarding(LocalSandbox(workspace.root, expose=[home]), denying("**/home")) as sandbox:
            assert sandbox.execute(f"find {home}; echo end").stdout == "end\n"

    def test_see_nothing_of_it_through_what_holds_it(self, workspace: Workspace, home: Path, tmp_path: Path) -> None:
        rules = denying("**/private")
        with guarding(LocalSandbox(workspace.root, expose=[home, home / "private"]), rules) as sandbox:
            assert SECRET not in sandbox.execute(f"cat {home}/private/key.txt").output

    def test_keep_the_workspace_beneath_what_is_hidden(self, workspace: Workspace, tmp_path: Path) -> None:
        workspace.put("ok.txt", "fine\n")
        workspace.put("../beside.txt")
        rules = PermissionRuleset(
            rules=(PermissionRule("./**", "allow"), PermissionRule(f"{tmp_path}/**", "deny")),
        )
        with guarding(LocalSandbox(workspace.root, expose=[tmp_path]), rules) as sandbox:
            result = sandbox.execute("cat ok.txt; ls -A ..; cat ../beside.txt")
        assert result.stdout == "fine\nwork\n"

    def test_hold_to_a_rule_beside_one_that_covers_it(self, workspace: Workspace, home: Path) -> None:
        rules = denying(f"{home}/.ssh/id_rsa", "**/.ssh")
        with guarding(LocalSandbox(workspace.root, expose=[home]), rules) as sandbox:
            result = sandbox.execute(f"cat {home}/.ssh/*; cat {home}/sub/ok.txt")
        assert result.stdout == "fine\n"

    def test_run_this_python_although_its_secrets_are_not_looked_for(self, workspace: Workspace) -> None:
        with guarding(LocalSandbox(workspace.root), denying("**/*.py")) as sandbox:
            assert sandbox.execute([sys.executable, "-c", "import os; print(6 * 7)"], check=True).stdout == "42\n"
