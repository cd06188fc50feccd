"""Kernels of this interpreter, which read and write nothing of the person who runs the tests."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import sandbox_kit

from .kernels import Kernel, started


@pytest.fixture(scope="session")
def jupyter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Kernels that are started have a home of their own and this library."""
    home = tmp_path_factory.mktemp("jupyter")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_PLATFORM_DIRS", "1")
        patch.setenv("PYTHONPATH", str(Path(sandbox_kit.__file__).parents[1]))
        for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
            patch.setenv(name, str(home / name.lower()))
        yield


@pytest.fixture(scope="module")
def bare_kernel(jupyter: None) -> Iterator[Kernel]:
    """A kernel that has run nothing."""
    with started() as kernel:
        yield kernel


SETUP = """
import os, shutil
from sandbox_kit import *
from sandbox_kit.notebook import run, status
%load_ext sandbox_kit.notebook
box = LocalSandbox(ROOT).start()
files = StateBackend()
asleep = guarding(LocalSandbox(), SECRETS)
"""


@pytest.fixture(scope="module")
def kernel(bare_kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Kernel:
    """A kernel with the extension, and ``box``, a sandbox over a directory."""
    root = tmp_path_factory.mktemp("workspace")
    done = bare_kernel.run(SETUP.replace("ROOT", repr(str(root))))
    assert done.status == "ok", done.text
    return bare_kernel


@pytest.fixture
def workspace(kernel: Kernel) -> Path:
    """The directory of ``box``, empty."""
    kernel.run("for info in box.ls(): box.remove(info.path, recursive=True)")
    return Path(ast.literal_eval(kernel.run("box.work_dir").text))
