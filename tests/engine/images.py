"""Images for the tests, made of what the machine has and imported into an engine: no registry is asked.

``busybox`` is the static binary with a link for each applet, ``debian`` a minimal system with
dash, GNU tools and Python, ``scratchless`` one binary whose names neither are a shell nor run
another program.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .daemon import Engine, Unavailable

REPOSITORY = "sandbox-kit-test"
LABEL = "test-image"

SUITE = "bookworm"
PACKAGES = "python3,python3-pip,coreutils,grep,procps"
BOOTSTRAP_SECONDS = 600
PACK_SECONDS = 120
EMPTIED = ("dev", "proc", "sys", "run", "tmp", "var/cache", "var/lib/apt/lists", "var/log")

PLAIN_APPLETS = ("cat", "echo", "false", "id", "printenv", "sleep", "true")
DIRECTORIES = {"bin": 0o755, "etc": 0o755, "root": 0o700, "tmp": 0o1777, "usr": 0o755, "var": 0o755}
ACCOUNTS = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000:user:/tmp:/bin/sh\n",
    "etc/group": "root:x:0:\nuser:x:1000:\n",
}


@dataclass(frozen=True)
class Recipe:
    """How an image is made: *key* changes when its content does, *pack* writes its archive to a path."""

    key: str
    pack: Callable[[Path], None]


def ensure_image(engine: Engine, name: str) -> str:
    """Import the image *name* unless the engine has it as it is made now; return its reference.

    Raises:
        Unavailable: the machine cannot make it.
    """
    recipe = RECIPES[name]()
    repository = f"{REPOSITORY}/{name}"
    client = engine.client()
    with _one_at_a_time(name):
        if _made_by(client.images(repository)) != recipe.key:
            archive = _archive(name, recipe)
            client.import_image_from_file(str(archive), repository, "latest", [f"LABEL {LABEL}={recipe.key}"])
    return f"{repository}:latest"


def _made_by(found: list[dict[str, dict[str, str] | None]]) -> str | None:
    return (found[0]["Labels"] or {}).get(LABEL) if found else None


@contextmanager
def _one_at_a_time(name: str) -> Iterator[None]:
    with open(_cache() / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _cache() -> Path:
    """Return the directory in which archives are kept between runs; make it."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    directory = Path(base, "sandbox-kit-tests")
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def _archive(name: str, recipe: Recipe) -> Path:
    """Return the archive of *recipe*, which no reader sees before it is whole."""
    path = _cache() / f"{name}-{recipe.key}.tar"
    if not path.exists():
        with _emptied(_cache() / f"{name}.making") as scratch:
            made = scratch / path.name
            recipe.pack(made)
            os.replace(made, path)
    return path


@contextmanager
def _emptied(directory: Path) -> Iterator[Path]:
    """Yield *directory*, new and empty whatever a killed run left of it; remove it."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    try:
        yield directory
    finally:
        shutil.rmtree(directory)


def _key(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise Unavailable(f"needs {name} to make an image: it is not on PATH")
    return found


def _busybox() -> Recipe:
    binary = _program("busybox")
    listed = subprocess.run([binary, "--list"], capture_output=True, text=True, timeout=30, check=True).stdout.split()
    applets = sorted(set(listed) - {"busybox"})
    return _one_binary(binary, ["busybox", *applets], DIRECTORIES, ACCOUNTS)


def _scratchless() -> Recipe:
    return _one_binary(_program("busybox"), PLAIN_APPLETS, {"bin": 0o755}, {})


def _one_binary(binary: str, names: Iterable[str], directories: dict[str, int], files: dict[str, str]) -> Recipe:
    """Return the recipe of a root with *binary* as the first of *names* in /bin, and links to it for the others."""
    content = Path(binary).read_bytes()
    first, *others = names

    def pack(path: Path) -> None:
        with tarfile.open(path, "w") as archive:
            for name, mode in directories.items():
                _add(archive, name, mode, kind=tarfile.DIRTYPE)
            _add(archive, f"bin/{first}", 0o755, content)
            for name in others:
                _add(archive, f"bin/{name}", 0o777, kind=tarfile.SYMTYPE, target=first)
            for name, text in files.items():
                _add(archive, name, 0o644, text.encode())

    return Recipe(_key(hashlib.sha256(content).hexdigest(), first, others, directories, files), pack)


def _add(
    archive: tarfile.TarFile,
    name: str,
    mode: int,
    content: bytes = b"",
    kind: bytes = tarfile.REGTYPE,
    target: str = "",
) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode, entry.size, entry.linkname = kind, mode, len(content), target
    archive.addfile(entry, io.BytesIO(content))


def _debian() -> Recipe:
    return Recipe(_key(SUITE, PACKAGES, EMPTIED, os.uname().machine), _pack_debian)


def _pack_debian(path: Path) -> None:
    _program("debootstrap")
    root = path.parent / "root"
    bootstrap = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", SUITE, str(root)]
    _run(["unshare", "--mount", *bootstrap], BOOTSTRAP_SECONDS)  # what it mounts ends with it
    left_out = [f"--exclude=./{directory}/*" for directory in EMPTIED]
    _run(["tar", "--sort=name", "--numeric-owner", *left_out, "-C", str(root), "-cf", str(path), "."], PACK_SECONDS)


def _run(command: list[str], seconds: float) -> None:
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=seconds, check=False)
    if done.returncode != 0:
        last = (done.stdout + done.stderr).strip().rpartition("\n")[2]
        raise Unavailable(f"needs {command[0]} to make an image: {last}")


RECIPES: dict[str, Callable[[], Recipe]] = {"busybox": _busybox, "debian": _debian, "scratchless": _scratchless}
