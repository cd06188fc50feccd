"""The notebooks of examples/ run in a fresh kernel and show what they say, in a browser too."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbconvert
import nbformat
import pytest
from nbclient import NotebookClient

from sandbox_kit import CommandResult, Verdict
from sandbox_kit.html.fragments import output, picture, table
from sandbox_kit.html.terminal import terminal

from .browser import Scheme, contrast, drawn, luminance
from .pages import Page

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = ["analysis", "explore"]
READABLE = 4.5  # WCAG 2.2, 1.4.3

Notebook = nbformat.NotebookNode
read: Any = nbformat.read
Exporter: Any = nbconvert.HTMLExporter


@pytest.fixture(scope="module")
def executed(jupyter: None, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Notebook]:
    """Returns an example, run in a fresh kernel, by its name."""
    known: dict[str, Notebook] = {}

    def execute(name: str) -> Notebook:
        if name not in known:
            known[name] = read(EXAMPLES / f"{name}.ipynb", as_version=4)
            where = {"metadata": {"path": str(tmp_path_factory.mktemp(name))}}
            NotebookClient(known[name], timeout=120, kernel_name="python3", resources=where).execute()
        return known[name]

    return execute


def shown(notebook: Notebook, source: str) -> str:
    """All that the one cell with *source* in it shows, as text."""
    (cell,) = [cell for cell in notebook.cells if cell.cell_type == "code" and source in cell.source]
    data = [each.get("data", {"text/plain": each.get("text", "")}) for each in cell.outputs]
    return "\n".join(Page(each["text/html"]).text if "text/html" in each else each["text/plain"] for each in data)


@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_committed_without_outputs_and_paths(name: str) -> None:
    source = (EXAMPLES / f"{name}.ipynb").read_text(encoding="utf-8")
    notebook = read(EXAMPLES / f"{name}.ipynb", as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert len(code) >= 5
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code)
    assert not re.search(r"/(tmp|root|home/\w)", source)


@pytest.mark.needs("bwrap")
def test_exploring_shows_the_project_and_no_credential(executed: Callable[[str], Notebook]) -> None:
    notebook = executed("explore")
    assert "shop/prices.py" in shown(notebook, "box.glob")
    assert "# TODO: an empty basket" in shown(notebook, "box.grep")
    assert "by rule deny **/.env" in shown(notebook, "verdict")
    assert shown(notebook, "box.read") == "read .env: denied by rule deny **/.env\n"
    assert "FAILED (failures=1)" in shown(notebook, "unittest -v")
    assert "1 replacement" in shown(notebook, "box.edit")
    assert re.search(r"exit 0.*OK\n.*madeempty\.txt2$", shown(notebook, "--check"), re.DOTALL)
    assert "t0p" not in "".join(shown(notebook, cell.source) for cell in notebook.cells if cell.cell_type == "code")


@pytest.mark.needs("bwrap")
def test_the_analysis_shows_its_chart_and_takes_it_out(executed: Callable[[str], Notebook]) -> None:
    notebook = executed("analysis")
    ran = shown(notebook, "result = run")
    assert "found" not in ran
    assert ran.count("No such file or directory") == 3
    assert "done: 12 months" in ran
    assert "madeout/sales.png" in ran
    assert shown(notebook, "box.read(") == "'12 months, 1746 in all, 184 at most\\n'"
    assert re.search(r"'sales.png': \d+, 'summary.txt': 36", shown(notebook, "zipfile.ZipFile"))


@pytest.mark.needs("bwrap", "chromium")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_an_example_is_readable_in_a_browser(
    executed: Callable[[str], Notebook], scheme: Scheme, tmp_path: Path
) -> None:
    page, _ = Exporter(theme=scheme).from_notebook_node(executed("analysis"))
    seen = drawn(page, scheme, tmp_path)
    assert seen["pictures"] == [["out/sales.png", 318]]
    assert seen["rows"] == 3
    assert "done" in {each["text"] for each in seen["texts"]}
    check_readable(seen["texts"], scheme)


def every_kind_of_output() -> str:
    """Outputs with every colour of this library, and a picture that would run a script if it could."""
    colours = "".join(f"\x1b[{code}mtext {code}\x1b[0m\n" for code in (*range(1, 8), *range(30, 38), *range(90, 98)))
    script = b"<script>top.document.title = 'ran'</script>"
    svg = b"<svg xmlns='http://www.w3.org/2000/svg' width='30' height='20'>" + script + b"</svg>"
    pieces = [("stdout", colours), ("cut", "… 1 …\n"), ("stderr", colours)]
    verdicts = [Verdict(action, "read", None, "/a")._repr_html_() for action in ("allow", "ask", "deny")]
    return "".join(
        [
            output(
                terminal(pieces), table(["a", "b"], [["x", 1], ["y", 2]], 3), picture("image/svg+xml", svg, "drawing")
            ),
            CommandResult(3, "out", "err")._repr_html_(),
            *verdicts,
        ]
    )


@pytest.mark.needs("chromium")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_kind_of_output_is_readable_on_a_plain_page(scheme: Scheme, tmp_path: Path) -> None:
    head = "<title>plain</title><style>:root{color-scheme:light dark}body{background:Canvas;color:CanvasText}</style>"
    seen = drawn(f"<!doctype html>{head}{every_kind_of_output()}", scheme, tmp_path)
    assert seen["pictures"] == [["drawing", 30]]
    assert seen["title"] == "plain"
    assert {"text 31", "text 97", "exit 3", "deny"} <= {each["text"].strip() for each in seen["texts"]}
    check_readable(seen["texts"], scheme)


def check_readable(texts: list[dict[str, list[float]]], scheme: Scheme) -> None:
    """Every text stands out from what is behind it, which is light or dark as the person prefers."""
    faint = [each for each in texts if contrast(each["fore"], each["back"]) < READABLE]
    assert faint == []
    assert {luminance(each["back"]) > 0.25 for each in texts} == {scheme == "light"}
