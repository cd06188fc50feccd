"""Configuration of the manual."""

import importlib.metadata

project = "sandbox_kit"
author = "The sandbox_kit authors"
copyright = "2026, The sandbox_kit authors"
release = version = importlib.metadata.version("sandbox-kit")

extensions = ["sphinx.ext.autodoc", "sphinx.ext.doctest", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
html_theme = "alabaster"

autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
napoleon_numpy_docstring = False
napoleon_use_ivar = True
