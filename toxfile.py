"""Inline plugin of tox: finds what pyenv has installed, not only the version that it has selected."""

import os
from pathlib import Path

PYENV = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")

os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", os.defpath), *map(str, PYENV.glob("versions/3.*/bin"))])
