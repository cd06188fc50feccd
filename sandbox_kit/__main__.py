"""``python -m sandbox_kit``: the ``sandbox-kit`` command."""

from __future__ import annotations

import sys

from sandbox_kit.cli import main

if __name__ == "__main__":
    sys.exit(main())
