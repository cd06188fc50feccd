"""The shape of the package: imports go down only, and what must be pure is pure."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import sandbox_kit

ROOT = Path(sandbox_kit.__file__).parent
PACKAGE = ROOT.name

LAYERS = (
    {"errors"},
    {"html"},
    {"cancelling", "media", "paths", "types"},
    {"answers", "rules", "search"},
    {"primitives"},
    {"calls", "judged_command"},
    {"questions"},
    {"joint_masks", "judge"},
    {"inspection"},
    {"arguments", "host", "leftovers", "links", "output", "runtime", "streams", "zipping"},
    {"exports"},
    {"walk", "transfer"},
    {"contract"},
    {"archives", "live_rules", "served"},
    {"backends", "guard", "registry"},
    {"spec", "testing"},
    {"console", "sessions"},
    {"pooled", "sweep", "warm"},
    {"pool"},
    {"cli", "notebook", "jobs", "aio"},
    {"__init__", "__main__"},
)
UPWARDS = {("spec", "jobs")}
"""``SandboxSpec.map`` hands itself to the jobs, which are made of specs: it imports them when it is called."""

RANK = {unit: rank for rank, units in enumerate(LAYERS) for unit in units}

LIBRARY_OWNERS = {
    "IPython": ("notebook", "shell"),
    "docker": ("backends", "docker"),
    "kubernetes": ("backends", "kubernetes"),
    "daytona": ("backends", "daytona"),
    "daytona_sdk": ("backends", "daytona"),
    "pydantic_ai": ("console", "pydantic_ai"),
}

IMPURE = {
    "asyncio",
    "ctypes",
    "fcntl",
    "glob",
    "mmap",
    "multiprocessing",
    "os",
    "pathlib",
    "pty",
    "select",
    "selectors",
    "shutil",
    "signal",
    "socket",
    "subprocess",
    "tempfile",
    "urllib",
}
IMPURE_ALLOWED = {"rules/ruleset.py": {"pathlib"}}

Parts = tuple[str, ...]


def label(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def parts_of(path: Path) -> Parts:
    """The module's name beneath the package, split: ``("rules", "globs")``; ``("__init__",)`` for the package."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts


def modules(*beneath: str) -> pytest.MarkDecorator:
    """Parametrize over every module, or over those beneath the named parts of the package."""
    paths = [path for path in sorted(ROOT.rglob("*.py")) if not beneath or parts_of(path)[0] in beneath]
    assert paths, f"nothing is left of {beneath}"
    return pytest.mark.parametrize("path", paths, ids=label)


def walk(node: ast.AST, *, typing_too: bool) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if typing_too or not (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)):
            yield child
            yield from walk(child, typing_too=typing_too)


def imported(source: str, package: Parts, *, typing_too: bool = False) -> set[Parts]:
    """Every name that *source* imports, also inside functions, split; relative ones made absolute.

    Args:
        source: a module's text.
        package: the package that it stands in.
        typing_too: whether to count what is imported for a type checker only.
    """
    found: set[Parts] = set()
    for node in walk(ast.parse(source), typing_too=typing_too):
        if isinstance(node, ast.Import):
            found.update(tuple(alias.name.split(".")) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            origin = (*base, *(node.module or "").split(".")) if node.module else base
            found.update((*origin, alias.name) for alias in node.names)
    return found


def imports(path: Path, *, typing_too: bool = False) -> set[Parts]:
    package = (PACKAGE, *path.relative_to(ROOT).parent.parts)
    return imported(path.read_text(encoding="utf-8"), package, typing_too=typing_too)


def own_imports(path: Path) -> set[Parts]:
    """Those of the imported names that are this package's, without the package."""
    return {name[1:] for name in imports(path) if name[0] == PACKAGE and len(name) > 1}


def test_every_form_of_import_is_read() -> None:
    source = "import a.b\nfrom . import c\nfrom ..d import e\ndef f():\n    import g\nif TYPE_CHECKING:\n    import h\n"
    expected = {("a", "b"), ("p", "q", "c"), ("p", "d", "e"), ("g",)}
    assert imported(source, ("p", "q")) == expected
    assert imported(source, ("p", "q"), typing_too=True) == expected | {("h",)}


@modules()
def test_imports_go_down_only(path: Path) -> None:
    unit = parts_of(path)[0]
    assert unit in RANK, f"{unit!r} has no layer yet: give it one in LAYERS"
    others = {name for name in own_imports(path) if name[0] != unit and (unit, name[0]) not in UPWARDS}
    assert not {name for name in others if RANK.get(name[0], len(LAYERS)) >= RANK[unit]}


@modules("backends")
def test_backends_share_only_the_shell(path: Path) -> None:
    own = parts_of(path)[1:2]
    neighbours = {name[1:2] for name in own_imports(path) if name[0] == "backends"}
    assert neighbours <= {own, ("shell",)}


@modules()
def test_a_backends_library_is_named_in_its_own_files_only(path: Path) -> None:
    libraries = {name[0] for name in imports(path, typing_too=True)} & LIBRARY_OWNERS.keys()
    assert all(parts_of(path)[:2] == LIBRARY_OWNERS[library] for library in libraries)


@modules("html", "rules", "search")
def test_what_is_pure_touches_no_file_process_or_socket(path: Path) -> None:
    impure = {name[0] for name in imports(path)} & IMPURE
    assert impure <= IMPURE_ALLOWED.get(label(path), set())


def test_the_guard_looks_nothing_up_by_name() -> None:
    guard = list(ast.walk(ast.parse((ROOT / "guard.py").read_text(encoding="utf-8"))))
    functions = [node for node in guard if isinstance(node, ast.FunctionDef)]
    assert not {node.id for node in guard if isinstance(node, ast.Name)} & {"getattr", "hasattr", "setattr", "vars"}
    assert not {node.name for node in functions} & {"__getattr__", "__getattribute__"}
    assert not [node.name for node in functions if node.args.kwarg]
