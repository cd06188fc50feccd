"""What holds over the whole package: what its import loads, its public names, its metadata."""

from __future__ import annotations

import importlib.metadata
import inspect
import json
import pkgutil
import re
import subprocess
import sys
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sandbox_kit
from sandbox_kit import contract, primitives
from sandbox_kit.archives import Archive
from sandbox_kit.sweep import sweep

NOT_AT_IMPORT = {
    "IPython", "asyncio", "cattrs", "daytona", "daytona_sdk", "docker", "kubernetes", "pydantic_ai", "pytest"
}  # fmt: skip

HANGS_AFTER = 300  # seconds, on a machine with much else to do

PRINT_ATTEMPTS = """
import json, sys

class Recorder:
    def find_spec(self, name, path=None, target=None):
        tried.append(name)

tried = []
sys.meta_path.insert(0, Recorder())
import sandbox_kit
print(json.dumps(tried))
"""

# Python imports the packages around a module before the module: a fork of a process that has just them saves time.
PRINT_IMPORTED = """
import importlib, json, os, sys

def import_each_below(package):
    for name in sys.argv[1:]:
        if name.rpartition(".")[0] == package:
            import_in_fork(name)

def import_in_fork(name):
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    importlib.import_module(name)
    os.write(imported, f"{name} ".encode())
    import_each_below(name)
    os._exit(0)

import sandbox_kit
reader, imported = os.pipe()
import_each_below("sandbox_kit")
os.close(imported)
print(json.dumps(sorted(open(reader, closefd=False).read().split())))
"""


def module_names() -> list[str]:
    found = pkgutil.walk_packages(sandbox_kit.__path__, "sandbox_kit.")
    return sorted(info.name for info in found if not info.name.endswith(".__main__"))


def run_python(code: str, *arguments: str) -> Any:
    """Run *code* in an interpreter of its own; return the JSON that it printed."""
    command = [sys.executable, "-W", "error", "-c", code, *arguments]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, timeout=HANGS_AFTER, check=True).stdout)


def test_importing_the_package_tries_no_extra_and_no_cattrs() -> None:
    tried = {name.split(".")[0] for name in run_python(PRINT_ATTEMPTS)}
    assert "attrs" in tried
    assert not tried & NOT_AT_IMPORT


def test_any_module_can_be_the_first_to_be_imported() -> None:
    names = module_names()
    assert run_python(PRINT_IMPORTED, *names) == names


def test_every_public_name_is_there() -> None:
    assert [name for name in sandbox_kit.__all__ if not hasattr(sandbox_kit, name)] == []


def test_all_that_a_backend_is_written_with_is_public() -> None:
    assert set(primitives.__all__) | set(contract.__all__) <= set(sandbox_kit.__all__)


def test_a_sweep_of_an_engine_and_what_it_returns_are_public() -> None:
    returned = typing.get_type_hints(sandbox_kit.sweep_engine)["return"]
    assert returned is sandbox_kit.Swept
    assert typing.get_type_hints(returned)["removed"] == tuple[sandbox_kit.Leftover, ...]
    assert {"Leftover", "Swept", "sweep_engine"} <= set(sandbox_kit.__all__)


def test_what_public_methods_return_and_take_is_public() -> None:
    methods = [vars(cls)[name] for cls in (contract.Backend, contract.Sandbox) for name in vars(cls) if name[0] != "_"]
    hints = [typing.get_type_hints(method) for method in methods if inspect.isfunction(method)]
    classes = {hint for each in hints for hint in each.values() if inspect.isclass(hint)}
    own = {cls.__name__ for cls in classes if cls.__module__.startswith("sandbox_kit.")}
    assert {"Export", "Matches", "Process"} <= own <= set(sandbox_kit.__all__)


def test_the_manual_has_every_verdict_of_every_preset() -> None:
    manual = (Path(__file__).parents[1] / "docs" / "rules.rst").read_text(encoding="utf-8")
    rows = re.findall(r"^``([A-Z]+)`` +((?:\w+, )*\w+)  +(\w+) +(\w+) +(\w+|--) +(\w+)$", manual, re.MULTILINE)
    told = {
        (name.lower(), operation, *said) for name, operations, *said in rows for operation in operations.split(", ")
    }
    assert told == {
        (row.preset, row.operation, row.default, row.workspace, row.secret or "--", row.system)
        for row in sandbox_kit.preset_table()
    }


def _signature(function: Callable[..., Any]) -> str:
    """What a caller can pass, as the manual writes it: without annotations and ``self``."""
    given = [
        each.replace(annotation=inspect.Parameter.empty) for each in inspect.signature(function).parameters.values()
    ]
    own = [each for each in given if each.name != "self"]
    return f"{function.__name__}{inspect.Signature(own)}"


def test_the_manual_has_the_signature_of_every_method() -> None:
    manual = (Path(__file__).parents[1] / "docs" / "reference.rst").read_text(encoding="utf-8")
    classes = (contract.Backend, contract.Sandbox, sandbox_kit.SessionManager, Archive)
    methods = [value for cls in classes for name, value in vars(cls).items() if name[0] != "_" and callable(value)]
    makers = [sandbox_kit.guarding, sandbox_kit.StateBackend, sandbox_kit.LocalBackend, sandbox_kit.LocalSandbox]
    others = [sandbox_kit.SessionManager, sandbox_kit.WorkspaceArchive, sandbox_kit.apply_policy_update, sweep]
    others += [sandbox_kit.SandboxPool, sandbox_kit.SandboxPool.acquire, sandbox_kit.sweep_engine]
    others += [sandbox_kit.SandboxSpec.map]
    told = " ".join(manual.split())
    assert [known for known in map(_signature, [*methods, *makers, *others]) if known not in told] == []


def test_the_command_and_the_types_are_installed() -> None:
    distribution = importlib.metadata.distribution("sandbox-kit")
    scripts = {point.name: point.value for point in distribution.entry_points if point.group == "console_scripts"}
    assert scripts == {"sandbox-kit": "sandbox_kit.cli:main"}
    assert distribution.metadata["Requires-Python"] == ">=3.11"


def test_what_the_machine_lacks_is_a_skip_for_a_person(
    needs: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="needs no-such-program, which is not on PATH"):
        needs("sh", "no-such-program")


@pytest.mark.parametrize("value", ["1", "true"])
def test_what_the_machine_lacks_is_a_failure_under_ci(
    value: str, needs: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", value)
    with pytest.raises(pytest.fail.Exception, match="no-such-program"):
        needs("no-such-program")
