"""Commands in the cells of a real kernel: live, shown once, interruptible, with clear errors."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.local.processes import living

from .kernels import Kernel, Output
from .pages import Page

pytestmark = pytest.mark.needs("bwrap")

PNG = "printf '\\211PNG\\r\\n\\032\\n' > {}"


def test_output_appears_while_the_command_runs(kernel: Kernel, workspace: Path) -> None:
    cell = "run(box, 'echo early; until [ -e go ]; do sleep 0.05; done; echo late >&2', timeout=50)"
    done = kernel.run(cell, lambda output: "early" in output.text, then=str(workspace / "go"))
    assert done.status == "ok"
    assert done.versions[0] > 1
    assert [data["text/plain"] for data in done.shown] == ["early\nlate\n"]


def test_output_that_nothing_follows_appears_too(kernel: Kernel, workspace: Path) -> None:
    cell = "run(box, 'echo one; sleep 0.01; echo two; until [ -e go ]; do sleep 0.05; done', timeout=50)"
    done = kernel.run(cell, lambda output: "two" in output.text, then=str(workspace / "go"))
    assert done.status == "ok"


def test_a_result_is_shown_once_in_its_cell_and_again_in_later_ones(kernel: Kernel) -> None:
    first = kernel.run("result = run(box, 'echo out; echo err >&2; exit 3')\nresult")
    assert [data["kind"] for data in first.shown] == ["update_display_data"]
    page = Page(first.html[0])
    assert page.is_tidy
    assert "exit 3" in page.text
    later = kernel.run("result")
    assert [data["kind"] for data in later.shown] == ["execute_result"]
    assert "exit 3" in Page(later.html[0]).text
    assert kernel.run("result.stdout, result.stderr, result.exit_code").text == "('out\\n', 'err\\n', 3)"


def test_another_result_in_the_same_cell_is_shown(kernel: Kernel) -> None:
    done = kernel.run("run(box, 'echo live')\nbox.execute('echo whole')")
    assert [data["kind"] for data in done.shown] == ["update_display_data", "execute_result"]


def test_it_works_within_a_running_event_loop(kernel: Kernel) -> None:
    cell = "import asyncio\nawait asyncio.sleep(0)\nasyncio.get_running_loop().is_running(), run(box, 'echo hi').stdout"
    done = kernel.run(cell)
    assert done.status == "ok"
    assert done.shown[-1]["text/plain"] == "(True, 'hi\\n')"
    assert kernel.run("%%sandbox box\necho again").text == "again\n"


def test_files_that_changed_and_pictures_are_shown(kernel: Kernel, workspace: Path) -> None:
    kernel.run("box.write('old.txt', 'x'); box.write('gone.txt', 'y'); box.write('same.txt', 'z')")
    done = kernel.run(f"%%sandbox box\necho more >> old.txt; rm gone.txt; mkdir d; {PNG.format('d/plot.png')}")
    page = Page(done.html[0])
    assert "maded/plot.png8" in page.text
    assert "changedold.txt6" in page.text
    assert "removedgone.txt1" in page.text
    assert "same.txt" not in page.text
    assert [value for tag, name, value in page.attributes if (tag, name) == ("img", "alt")] == ["d/plot.png"]


def test_nothing_is_looked_for_when_it_is_not_wanted(kernel: Kernel, workspace: Path) -> None:
    done = kernel.run(f"run(box, {PNG.format('p.png')!r}, changes=False)")
    assert "p.png" not in done.html[0]


def test_what_rules_hide_is_not_shown(kernel: Kernel, workspace: Path) -> None:
    rules = "PermissionRuleset(rules=[PermissionRule('private/**', 'deny')])"
    kernel.run("box.write('private/plan.txt', '')")
    command = f"{PNG.format('seen.png')}; find . -name plan.txt -delete"
    shown = kernel.run(f"run(guarding(box, {rules}, commands='inspected', ask=lambda *_: True), {command!r})").html[0]
    assert "seen.png" in shown
    assert "private" not in shown


def test_a_rule_against_looking_is_told(kernel: Kernel, workspace: Path) -> None:
    rules = "PermissionRuleset(glob=OperationPermissions(rules=[PermissionRule('**', 'deny')]))"
    assert "what changed is not known" in kernel.run(f"run(guarding(box, {rules}), 'echo done')").html[0]


@pytest.mark.parametrize("cell", ["run(box, {!r})", "%%sandbox box\n{}"], ids=["run", "magic"])
def test_an_interrupt_kills_the_whole_tree_and_leaves_the_sandbox(kernel: Kernel, cell: str, tmp_path: Path) -> None:
    marker = str(tmp_path)
    script = f"sh -c ': {marker}; sleep 600; true' & setsid sh -c ': {marker}; sleep 600; true' & echo started; wait"
    seen: list[list[str]] = []

    def until(output: Output) -> bool:
        started = "started" in output.text
        if started:
            seen.append(living(marker))
        return started

    done = kernel.run(cell.format(script), until, then="interrupt")
    assert seen[0]
    assert done.status == "error"
    assert "interrupted" in Page(done.html[0]).text
    assert "KeyboardInterrupt" in done.text
    assert living(marker) == []
    assert kernel.run("box.execute('echo usable').stdout").text == "'usable\\n'"


def test_an_interrupt_of_the_magic_is_one_line(kernel: Kernel) -> None:
    done = kernel.run("%%sandbox box\necho started; sleep 600", lambda out: "started" in out.text, then="interrupt")
    (error,) = [data["text/plain"] for data in done.shown if "error" in data]
    assert error == "KeyboardInterrupt: the command was ended; the sandbox can be used on"


def test_a_time_limit_shows_what_was_printed(kernel: Kernel) -> None:
    limits = (0.5, 5, 50)  # one after the other, on a machine too busy to print anything in time
    cells = (kernel.run(f"run(box, 'echo so far; sleep 600', timeout={limit})") for limit in limits)
    done = next(each for each in cells if "so far" in Page(each.html[0]).text)
    assert done.status == "error"
    assert "CommandTimeoutError" in Page(done.html[0]).text


@pytest.mark.parametrize(
    ("cell", "told"),
    [
        ("%%sandbox nothing\nls", "UsageError: nothing is not defined: name asleep or box"),
        ("%%sandbox os\nls", "UsageError: os is a module: name asleep or box"),
        ("%%sandbox files\nls", "UsageError: files is a StateBackend, which runs no commands"),
        ("%%sandbox asleep\nls", "UsageError: SandboxClosedError: "),
        ("%%sandbox box --bad\nls", "UsageError: unrecognized arguments: --bad"),
        ("%%sandbox box --time 3\nls", "UsageError: unrecognized arguments: --time"),
        ("%%sandbox box --timeout soon\nls", "UsageError: argument --timeout: invalid float value: 'soon'"),
        ("%%sandbox box --timeout 0\nls", "UsageError: InvalidArgumentError: timeout"),
        ("%%sandbox box --env HOME\nls", "UsageError: argument --env: 'HOME' is not NAME=VALUE"),
        ("%%sandbox 'box\nls", "UsageError: No closing quotation"),
        ("%%sandbox box --check\nexit 4", "UsageError: CommandFailedError: command exited with 4"),
        ("%%sandbox box --timeout 0.2\nsleep 60", "UsageError: CommandTimeoutError: "),
        (
            "%%sandbox box --check\nprintf '\\033]0;pwn\\007' >&2; exit 1",
            "UsageError: CommandFailedError: command exited with 1: \\x1b]0;pwn\\x07",
        ),
        ("%sandbox box other", "UsageError: unrecognized arguments: other"),
        ("%sandbox nothing", "UsageError: nothing is not defined"),
    ],
    ids=range(15),
)
def test_a_mistake_is_told_without_a_traceback(kernel: Kernel, cell: str, told: str) -> None:
    done = kernel.run(cell)
    assert done.status == "error"
    (error,) = [data["text/plain"] for data in done.shown if "stream" in data]
    assert error.startswith(told)
    assert "Traceback" not in done.text


def test_the_magic_takes_directory_environment_and_result(kernel: Kernel, workspace: Path) -> None:
    kernel.run("box.mkdir('below')")
    assert (
        kernel.run("%%sandbox box --cwd below --env A=1 --env B='2 3'\nbasename $PWD; echo $A $B").text
        == "below\n1 2 3\n"
    )
    assert kernel.run("_.stdout").text == "'below\\n1 2 3\\n'"


def test_no_variable_is_put_into_the_line_of_the_magic(kernel: Kernel) -> None:
    kernel.run("title = 'x --check'")
    assert kernel.run("%%sandbox box --env T={title} --env U='$title'\necho $T $U").text == "{title} $title\n"


def test_the_sandbox_named_last_is_the_current_one(kernel: Kernel) -> None:
    kernel.run("other = LocalSandbox().start()")
    kernel.run("%sandbox other")
    assert kernel.run("%%sandbox\npwd").text.strip() == ast.literal_eval(kernel.run("other.work_dir").text)
    kernel.run("other.stop(purge=True)\nother = LocalSandbox().start()")
    assert kernel.run("%%sandbox\npwd").text.strip() == ast.literal_eval(kernel.run("other.work_dir").text)
    kernel.run("other.stop(purge=True)\ndel other")
    assert kernel.run("%%sandbox\npwd").text.startswith("UsageError: other is not defined: name asleep or box")
    kernel.run("%sandbox box")


def test_the_status_tells_backend_state_and_rules(kernel: Kernel) -> None:
    page = Page(kernel.run("%sandbox box").html[0])
    assert page.is_tidy
    assert "LocalSandbox" in page.text
    assert "alive" in page.text
    assert "not running" in Page(kernel.run("LocalSandbox()").html[0]).text
    assert "files only" in Page(kernel.run("StateBackend()").html[0]).text
    guarded = Page(kernel.run("guarding(box, READONLY)").html[0]).text
    assert "GuardedSandbox" in guarded
    assert "else " in guarded


def test_records_show_as_html_in_the_kernel(kernel: Kernel, workspace: Path) -> None:
    kernel.run("box.write('a.txt', 'needle <b>')")
    for cell in ("box.ls()", "box.grep('needle')", "box.edit('a.txt', 'needle', 'pin')", "box.stat('a.txt')"):
        (html,) = kernel.run(cell).html
        assert Page(html).is_tidy
        assert "a.txt" in Page(html).text


def test_unloading_takes_the_magic_away_and_run_still_works(kernel: Kernel) -> None:
    assert kernel.run("%unload_ext sandbox_kit.notebook").status == "ok"
    assert "not found" in kernel.run("%sandbox").text
    assert kernel.run("box").html == []
    (shown,) = kernel.run("run(box, 'echo hi')").html
    assert "hi" in Page(shown).text
    assert kernel.run("%load_ext sandbox_kit.notebook").status == "ok"
