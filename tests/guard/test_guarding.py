"""What guarding() makes of a backend, and how guards stand together."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from sandbox_kit.backends.local import LocalBackend, LocalSandbox
from sandbox_kit.backends.state import StateBackend
from sandbox_kit.errors import InvalidArgumentError, PermissionDeniedError
from sandbox_kit.guard import GuardedBackend, GuardedSandbox, guarding
from sandbox_kit.rules.ruleset import OperationPermissions, PermissionRule, PermissionRuleset


def denying(*patterns: str) -> PermissionRuleset:
    return PermissionRuleset("allow", rules=[PermissionRule(pattern, "deny") for pattern in patterns])


@pytest.fixture
def memory() -> StateBackend:
    return StateBackend({".env": "KEY=1", "ok.txt": "fine", "data/a.csv": "1,2", "data/b.csv": "3,4"})


def test_without_a_ruleset_the_backend_comes_back(memory: StateBackend) -> None:
    assert guarding(memory, None) is memory


def test_the_ruleset_already_enforced_adds_nothing(memory: StateBackend) -> None:
    guarded = guarding(memory, denying("**/.env"))
    assert guarding(guarded, denying("**/.env")) is guarded


def test_the_same_ruleset_with_another_ask_replaces_the_guard(memory: StateBackend) -> None:
    guarded = guarding(memory, PermissionRuleset("ask"))
    asking = guarding(guarded, PermissionRuleset("ask"), ask=lambda *_: True)
    assert asking.read("ok.txt") == "fine"


def test_another_ruleset_makes_both_hold(memory: StateBackend) -> None:
    both = guarding(guarding(memory, denying("**/.env")), denying("data/**"))
    for path in (".env", "data/a.csv"):
        with pytest.raises(PermissionDeniedError):
            both.read(path)
    assert [entry.path for entry in both.ls()] == ["ok.txt"]


def test_a_denial_of_the_inner_guard_comes_before_a_question_of_the_outer(memory: StateBackend) -> None:
    asked: list[str] = []

    def ask(operation: str, target: str, reason: str) -> bool:
        asked.append(target)
        return True

    outer = guarding(guarding(memory, denying("**/.env")), PermissionRuleset("ask"), ask=ask)
    with pytest.raises(PermissionDeniedError):
        outer.read(".env")
    assert asked == []


def test_a_sandbox_stays_one_and_a_backend_does_not_become_one(tmp_path: Path, memory: StateBackend) -> None:
    assert isinstance(guarding(LocalSandbox(tmp_path), denying("x")), GuardedSandbox)
    guarded = guarding(memory, denying("x"))
    assert isinstance(guarded, GuardedBackend)
    assert "execute" not in dir(guarded)


def test_what_is_set_on_the_guard_holds_for_what_is_inside(tmp_path: Path) -> None:
    sandbox = LocalSandbox(tmp_path)
    guarded = guarding(sandbox, denying("x"))
    guarded.max_read_bytes, guarded.file_timeout, guarded.default_timeout = 10, 2.0, 5.0
    assert (sandbox.max_read_bytes, sandbox.file_timeout, sandbox.default_timeout) == (10, 2.0, 5.0)
    assert (guarded.max_read_bytes, guarded.file_timeout, guarded.default_timeout) == (10, 2.0, 5.0)


def test_a_guard_shows_what_it_guards(tmp_path: Path) -> None:
    assert repr(guarding(LocalBackend(tmp_path), denying("x"))) == f"GuardedBackend(LocalBackend('{tmp_path}'))"


def test_a_guard_travels_with_its_rules(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("KEY=1")
    again = pickle.loads(pickle.dumps(guarding(LocalBackend(tmp_path), denying("**/.env"))))
    with pytest.raises(PermissionDeniedError):
        again.read(".env")


@pytest.mark.parametrize("option", [{"commands": "some"}, {"ask_fallback": "allow"}])
def test_an_option_that_does_not_exist_is_refused(tmp_path: Path, option: dict[str, str]) -> None:
    with pytest.raises(InvalidArgumentError):
        guarding(LocalSandbox(tmp_path), denying("x"), **option)  # type: ignore[call-overload]


def test_a_denied_file_answers_alike_whether_it_is_there_or_not(memory: StateBackend) -> None:
    guarded = guarding(memory, denying("data/**"))
    answers = []
    for name in ("a.csv", "z.csv"):
        with pytest.raises(PermissionDeniedError) as refused:
            guarded.read(f"data/{name}")
        answers.append((type(refused.value), str(refused.value).replace(name, "NAME")))
    assert answers[0] == answers[1]


class TestRuleOfEachCall:
    """Which operations a call consults: the strictest of them holds."""

    def guarded(self, memory: StateBackend, **operations: str) -> GuardedBackend:
        chosen = {
            name: OperationPermissions(rules=(PermissionRule(pattern, "deny"),)) for name, pattern in operations.items()
        }
        return GuardedBackend(memory, PermissionRuleset("allow", **chosen))  # type: ignore[arg-type]

    def test_an_edit_needs_edit_read_and_write(self, memory: StateBackend) -> None:
        for operation in ("edit", "read", "write"):
            with pytest.raises(PermissionDeniedError):
                self.guarded(memory, **{operation: "ok.txt"}).edit("ok.txt", "fine", "good")
        assert memory.read("ok.txt") == "fine"

    def test_a_read_denial_alone_still_lists_the_name(self, memory: StateBackend) -> None:
        guarded = self.guarded(memory, read="**/.env")
        assert ".env" in [entry.name for entry in guarded.ls()]
        assert ".env" in [entry.name for entry in guarded.glob("**")]
        assert list(guarded.grep("KEY", hidden=True)) == []

    def test_a_recursive_remove_asks_for_every_entry_first(self, memory: StateBackend) -> None:
        guarded = self.guarded(memory, write="**/b.csv")
        with pytest.raises(PermissionDeniedError):
            guarded.remove("data", recursive=True)
        assert [entry.name for entry in memory.ls("data")] == ["a.csv", "b.csv"]

    def test_a_move_needs_read_and_write_beneath_and_write_on_the_new_names(self, memory: StateBackend) -> None:
        for operations in ({"read": "**/b.csv"}, {"write": "**/b.csv"}, {"write": "new/**"}, {"write": "new/a.csv"}):
            with pytest.raises(PermissionDeniedError):
                self.guarded(memory, **operations).move("data", "new")
        assert not memory.exists("new")

    def test_a_write_needs_every_parent_that_it_makes(self, memory: StateBackend) -> None:
        with pytest.raises(PermissionDeniedError):
            self.guarded(memory, write="a/b").write("a/b/c/d.txt", "x")
        with pytest.raises(PermissionDeniedError):
            self.guarded(memory, write="a/b").mkdir("a/b/c")
        assert not memory.exists("a")

    def test_an_upload_asks_for_every_member_first(self, memory: StateBackend, tmp_path: Path) -> None:
        for name in ("one.txt", "two.pem"):
            (tmp_path / name).write_text(name)
        with pytest.raises(PermissionDeniedError):
            self.guarded(memory, write="**/*.pem").upload(tmp_path, "tree")
        assert not memory.exists("tree")

    def test_a_download_refuses_or_counts_what_is_denied(self, memory: StateBackend, tmp_path: Path) -> None:
        guarded = self.guarded(memory, read="**/b.csv")
        with pytest.raises(PermissionDeniedError):
            guarded.download("data", tmp_path / "copy")
        assert not (tmp_path / "copy").exists()
        assert guarded.download("data", tmp_path / "copy", denied="skip") == 1
        assert [path.name for path in (tmp_path / "copy").iterdir()] == ["a.csv"]

    def test_an_export_refuses_or_counts_what_is_denied(self, memory: StateBackend) -> None:
        guarded = self.guarded(memory, read="**/b.csv")
        with pytest.raises(PermissionDeniedError):
            guarded.export("data")
        with guarded.export("data", denied="skip") as archive:
            assert archive.denied == 1
            assert b"3,4" not in archive.read()

    def test_a_grep_needs_grep_and_read(self, memory: StateBackend) -> None:
        for operation in ("grep", "read"):
            assert list(self.guarded(memory, **{operation: "ok.txt"}).grep("fine")) == []

    def test_the_limit_counts_what_may_be_seen_only(self, memory: StateBackend) -> None:
        for number in range(50):
            memory.write(f"a{number:02}.pem", "hit")
        memory.write("z.txt", "hit")
        matches = self.guarded(memory, grep="*.pem").grep("hit", limit=1)
        assert [match.path for match in matches] == ["z.txt"]
        assert not matches.truncated


@pytest.mark.parametrize("ruleset", ["secrets", {"default": "deny"}, [], 5])
def test_anything_but_a_ruleset_is_refused(memory: StateBackend, ruleset: object) -> None:
    with pytest.raises(InvalidArgumentError, match="PermissionRuleset"):
        guarding(memory, ruleset)  # type: ignore[call-overload]


@pytest.mark.parametrize("backend", [None, "state", StateBackend])
def test_anything_but_a_backend_is_refused(backend: object) -> None:
    with pytest.raises(InvalidArgumentError, match="Backend"):
        guarding(backend, denying("x"))  # type: ignore[call-overload]


def test_an_ask_that_cannot_be_called_is_refused(memory: StateBackend) -> None:
    with pytest.raises(InvalidArgumentError, match="ask"):
        guarding(memory, denying("x"), ask=True)  # type: ignore[call-overload]


def test_options_are_looked_at_for_files_alone_too(memory: StateBackend) -> None:
    with pytest.raises(InvalidArgumentError):
        guarding(memory, denying("x"), commands="some")  # type: ignore[call-overload]


def test_a_guarded_sandbox_travels_unstarted(tmp_path: Path) -> None:
    guarded = guarding(LocalSandbox(tmp_path), denying("**/.env"))
    with pickle.loads(pickle.dumps(guarded)) as again:
        again.write("ok", "fine")
        with pytest.raises(PermissionDeniedError):
            again.read(".env")


def test_a_start_through_another_guard_of_a_stopped_sandbox_starts_it(tmp_path: Path) -> None:
    sandbox = LocalSandbox(tmp_path)
    one, two = guarding(sandbox, denying("a")), guarding(sandbox, denying("b"))
    one.start()
    two.start()
    one.stop()
    assert two.start().execute("echo hi").stdout == "hi\n"
    two.stop()


def test_a_glob_beneath_a_denied_directory_leaves_it_out(memory: StateBackend) -> None:
    guarded = guarding(memory, denying("data/**"))
    assert guarded.glob("data/*") == guarded.glob("{data,nothing}/*") == []
