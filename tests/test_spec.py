"""A spec is plain values: it travels, comes back the same, and opens what it says."""

from __future__ import annotations

import copy
import json
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_kit.backends.local import LocalBackend, LocalSandbox
from sandbox_kit.backends.state import StateBackend
from sandbox_kit.contract import Sandbox
from sandbox_kit.errors import InvalidArgumentError, MissingDependencyError, PermissionDeniedError, PolicyError
from sandbox_kit.registry import backend_class, backend_names, check_backend_name, register_backend
from sandbox_kit.rules.ruleset import PermissionRule, PermissionRuleset
from sandbox_kit.runtime import Runtime
from sandbox_kit.spec import SandboxSpec
from sandbox_kit.types import Limits

RULES = PermissionRuleset("allow", rules=[PermissionRule("**/.env", "deny")])
SPECS = [
    SandboxSpec("state"),
    SandboxSpec("local", {"limits": Limits(tmpfs_size="64m"), "expose": ("/opt",), "default_timeout": 1.5}),
    SandboxSpec("files", {"root": Path("/srv")}, RULES, "inspected"),
    SandboxSpec("docker", {"image": Runtime("base", pip=["a", "b.whl"], env={"A": "1"}, uid=5), "persist": True}),
]
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.backend)
def test_a_spec_travels_unchanged(spec: SandboxSpec) -> None:
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert copy.deepcopy(spec) == spec
    assert SandboxSpec.from_dict(json.loads(json.dumps(spec.to_dict()))) == spec
    assert hash(copy.deepcopy(spec)) == hash(spec)


@given(st.dictionaries(st.text(), values, max_size=3))
def test_any_json_is_an_option_and_stays_the_same(options: dict[str, Any]) -> None:
    spec = SandboxSpec("state", options)
    assert spec.options == options
    assert SandboxSpec.from_dict(json.loads(json.dumps(spec.to_dict()))) == spec


def test_a_spec_is_a_copy_of_what_it_was_given() -> None:
    options: dict[str, Any] = {"files": {"f": "x"}}
    spec = SandboxSpec("state", options)
    options["files"]["f"] = "y"
    spec.to_dict()["options"]["files"]["f"] = "z"
    assert spec.options == {"files": {"f": "x"}}


def test_paths_and_limits_become_plain_values() -> None:
    spec = SandboxSpec("local", {"root": Path("/srv"), "limits": Limits(tmpfs_size=5), "expose": (Path("/opt"),)})
    assert spec.options == {"root": "/srv", "limits": {"tmpfs_size": 5}, "expose": ["/opt"]}


def test_a_runtime_is_plain_values_that_open_as_one() -> None:
    runtime = Runtime("base", pip=[Path("dist/ours.whl")], setup=["true"], env={"A": "1"}, work_dir="/w", uid=0)
    spec = SandboxSpec("docker", {"image": runtime})
    plain = {"base": "base", "pip": ["dist/ours.whl"], "setup": ["true"], "env": {"A": "1"}, "work_dir": "/w", "uid": 0}
    assert spec.options == {"image": plain}
    assert SandboxSpec("docker", {"image": Runtime("base")}).options == {"image": {"base": "base"}}
    box = SandboxSpec.from_dict(json.loads(json.dumps(spec.to_dict()))).open()
    assert repr(box).startswith(f"DockerSandbox({runtime!r}")


@pytest.mark.parametrize(
    ("image", "told"),
    [({"base": "x", "no": 1}, "no"), ({}, "base"), ({"base": 5}, "base"), ({"base": "x", "uid": -1}, "uid")],
)
def test_a_mapping_that_is_no_runtime_is_refused(image: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidArgumentError, match=told):
        SandboxSpec("docker", {"image": image}).open()


def test_it_opens_what_it_says(tmp_path: Path) -> None:
    state = SandboxSpec("state", {"files": {"f": "x"}}).open()
    assert isinstance(state, StateBackend)
    assert state.read("f") == "x"
    files = SandboxSpec("files", {"root": tmp_path}, RULES).open()
    files.write("f", "x")
    with pytest.raises(PermissionDeniedError):
        files.write(".env", "x")
    assert (tmp_path / "f").read_text() == "x"


@pytest.mark.skipif(sys.platform == "win32", reason="local commands need a POSIX system")
def test_a_sandbox_is_not_started_yet() -> None:
    box = SandboxSpec("local", {"limits": {"tmpfs_size": None}}).open()
    assert isinstance(box, LocalSandbox)
    assert not box.is_alive()
    guarded = SandboxSpec("local", {}, RULES, "inspected").open()
    assert isinstance(guarded, Sandbox)
    with guarded:
        assert guarded.execute("echo x").stdout == "x\n"


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("no-such",), "files, local, remote, state"),
        ((3,), "files, local, remote, state"),
        (("state", [1]), "options"),
        (("state", {"files": {3: "x"}}), r"options\.files"),
        (("state", {"files": {"f": b"x"}}), r"options\.files\.f"),
        (("state", {"x": [float("nan")]}), r"options\.x\[0\]"),
        (("state", {}, "secrets"), "ruleset"),
        (("state", {}, None, "loose"), "commands"),
    ],
)
def test_what_a_spec_cannot_hold_is_refused_by_its_place(arguments: tuple[Any, ...], word: str) -> None:
    with pytest.raises(InvalidArgumentError, match=word):
        SandboxSpec(*arguments)


@pytest.mark.parametrize(
    ("spec", "word"),
    [
        (SandboxSpec("state", {"no": 1, "such": 2}), "no option no, such; it has files, work_dir"),
        (SandboxSpec("files"), "needs the option root"),
        (SandboxSpec("local", {"limits": {"cores": 2}}), "no cores"),
        (SandboxSpec("local", {"limits": {"cpus": -2}}), "cpus"),
    ],
)
def test_options_that_the_backend_has_not_are_refused_when_it_is_opened(spec: SandboxSpec, word: str) -> None:
    with pytest.raises(InvalidArgumentError, match=word):
        spec.open()


@pytest.mark.parametrize("document", [[], {}, {"backend": "state", "extra": 1}, {"backend": "state", "options": None}])
def test_a_document_that_is_no_spec_is_refused(document: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        SandboxSpec.from_dict(document)


def test_a_bad_ruleset_in_a_document_is_a_policy_error() -> None:
    with pytest.raises(PolicyError):
        SandboxSpec.from_dict({"backend": "state", "ruleset": {"default": "maybe"}})


def test_backends_are_found_by_name() -> None:
    assert [backend_class(name) for name in ("files", "local", "state")] == [LocalBackend, LocalSandbox, StateBackend]
    assert {"files", "local", "state"} <= set(backend_names())


@pytest.fixture
def registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module with a backend, one whose library is missing, and a name of the registry to give away."""
    (tmp_path / "their_backend.py").write_text("from sandbox_kit import StateBackend as Theirs\nOther = 3\n")
    (tmp_path / "their_needy.py").write_text("import no_such_library_anywhere\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("sandbox_kit.registry._entries", dict(vars(sys.modules["sandbox_kit.registry"])["_entries"]))
    return "theirs"


def test_anyone_may_register_a_backend(registered: str) -> None:
    register_backend(registered, "their_backend:Theirs")
    register_backend(registered, "their_backend:Theirs")
    assert SandboxSpec(registered, {"files": {"f": "x"}}).open().read("f") == "x"
    with pytest.raises(InvalidArgumentError, match="belongs to their_backend:Theirs"):
        register_backend(registered, "their_backend:Other")


class Anything(StateBackend):
    """A backend that takes any options."""

    def __init__(self, *extra: object, **options: object) -> None:
        super().__init__()
        self.options = options


def test_a_backend_may_take_any_options(registered: str) -> None:
    register_backend(registered, f"{__name__}:Anything")
    made = SandboxSpec(registered, {"colour": "red"}).open()
    assert isinstance(made, Anything)
    assert made.options == {"colour": "red"}


@pytest.mark.parametrize("attribute", ["Other", "missing"])
def test_what_is_registered_must_be_a_backend(registered: str, attribute: str) -> None:
    register_backend(registered, f"their_backend:{attribute}")
    with pytest.raises(InvalidArgumentError, match="no Backend class"):
        backend_class(registered)


def test_a_missing_library_names_the_extra(registered: str) -> None:
    register_backend(registered, "their_needy:Theirs", extra="needy")
    check_backend_name(registered)
    with pytest.raises(MissingDependencyError, match=r"no_such_library_anywhere.*sandbox-kit\[needy\]") as caught:
        backend_class(registered)
    assert caught.value.extra == "needy"


@pytest.mark.parametrize("name", ["", "Upper", "a b", "1st", "x" * 65, 3])
@pytest.mark.parametrize("target", ["module:Class", "module"])
def test_malformed_registrations_are_refused(name: Any, target: str) -> None:
    with pytest.raises(InvalidArgumentError):
        register_backend(name, target)
    with pytest.raises(InvalidArgumentError, match="module:Class"):
        register_backend("fine", "module")
