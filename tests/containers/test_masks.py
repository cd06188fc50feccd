"""Rules that the kernel holds for the commands of a container, and the files that calls reach all the same."""

from __future__ import annotations

import io
import pickle
import subprocess
import sys
import tarfile
import uuid
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from engine.daemon import Engine

from sandbox_kit.backends.docker import DockerSandbox, container
from sandbox_kit.contract import Sandbox
from sandbox_kit.errors import (
    ApprovalRequiredError,
    InvalidArgumentError,
    PermissionDeniedError,
    PolicyError,
    SandboxConflictError,
    SandboxUnavailableError,
    UnsupportedError,
)
from sandbox_kit.guard import guarding
from sandbox_kit.rules.presets import PRESETS, SECRETS
from sandbox_kit.rules.ruleset import OperationPermissions, PermissionRule, PermissionRuleset

DENIED = PermissionRuleset("allow", rules=[PermissionRule("**/.env", "deny"), PermissionRule("a/secret/**", "deny")])
READ_DENIED = PermissionRuleset("allow", read=OperationPermissions(rules=[PermissionRule("**/.env", "deny")]))
ASKED = PermissionRuleset("allow", read=OperationPermissions(rules=[PermissionRule("**/.env", "ask")]))
STAGE = {".env": "TOKEN", "a/secret/key": "TOKEN", "a/open": "open", "b/.env": "TOKEN"}
SEARCH = "grep -rs TOKEN .; cat a/open"

Make = Callable[..., DockerSandbox]


@pytest.fixture
def make(engine: Engine) -> Iterator[Make]:
    """Makes handles of one sandbox, which is purged in the end; nothing may be left of it."""
    made: list[DockerSandbox] = []
    identity = f"test-{uuid.uuid4().hex[:12]}"

    def make_one(image: str, **options: object) -> DockerSandbox:
        made.append(DockerSandbox(image, **{"sandbox_id": identity, **options}))  # type: ignore[arg-type]
        return made[-1]

    yield make_one
    for sandbox in made:
        sandbox.stop(purge=True)
    assert [each for each in engine.client().containers(all=True) if identity in str(each["Labels"])] == []


def stage(sandbox: Sandbox, files: dict[str, str] | None = None) -> None:
    """Put files there without rules."""
    with sandbox:
        for name, text in (files or STAGE).items():
            sandbox.write(name, text)


def script(sandbox: Sandbox, text: str) -> str:
    """What a script prints that names its files only when it runs."""
    sandbox.write("/tmp/script", text)
    return sandbox.execute(["/bin/sh", "/tmp/script"]).output


def test_commands_see_nothing_of_what_is_denied(make: Make, image: str) -> None:
    stage(make(image))
    with guarding(make(image), DENIED, commands="confined") as guarded:
        assert guarded.capabilities.commands == "confined"
        assert script(guarded, SEARCH) == "open"
        process = guarded.spawn(["/bin/sh", "/tmp/script"])
        assert "".join(process.stdout) == "open"
        assert process.wait(10) == 0


def test_calls_are_refused_by_rules_and_reach_the_files_themselves_without(make: Make, image: str) -> None:
    stage(make(image))
    sandbox = make(image)
    with guarding(sandbox, DENIED) as guarded:
        for name in (".env", "a/secret/key"):
            with pytest.raises(PermissionDeniedError):
                guarded.read(name)
            assert sandbox.read(name) == "TOKEN"
        assert [info.path for info in guarded.glob("**/*")] == ["a", "a/open", "b"]
        assert sorted(match.path for match in sandbox.grep("TOKEN", hidden=True)) == [".env", "a/secret/key", "b/.env"]
        assert list(guarded.grep("TOKEN", hidden=True)) == []


def test_what_is_asked_for_is_hidden_from_commands_and_read_when_approved(make: Make, image: str) -> None:
    stage(make(image))
    with guarding(make(image), ASKED, ask=lambda *_: True) as guarded:
        assert guarded.read(".env") == "TOKEN"
        assert script(guarded, "cat .env b/.env") == ""


def test_a_write_to_what_commands_must_not_see_stays_hidden(make: Make, image: str) -> None:
    stage(make(image))
    sandbox = make(image)
    with guarding(sandbox, READ_DENIED) as guarded:
        guarded.write(".env", "NEWER TOKEN")
        assert sandbox.read(".env") == "NEWER TOKEN"
        assert script(guarded, "cat .env") == ""


def test_masked_names_stay_where_they_are_and_come_back_masked(make: Make, image: str) -> None:
    stage(make(image))
    sandbox = make(image)
    guarded = guarding(sandbox, DENIED)
    with guarded:
        said = script(guarded, "mv a a2; mv .env x; rm -rf .env a/secret; rmdir a/secret; ls -A").splitlines()
        assert {".env", "a", "b"} <= set(said)
        assert not {"a2", "x"} & set(said)
    with guarded:
        assert script(guarded, SEARCH) == "open"
        assert sandbox.read("a/secret/key") == "TOKEN"


def test_what_a_command_makes_later_is_hidden_from_the_next_start_on(make: Make, busybox_image: str) -> None:
    sandbox = make(busybox_image)
    guarded = guarding(sandbox, DENIED)
    with guarded:
        assert script(guarded, "mkdir late; echo TOKEN >late/.env; cat late/.env") == "TOKEN\n"
    with guarded:
        assert script(guarded, "cat late/.env") == ""
        assert sandbox.read("late/.env") == "TOKEN\n"


@pytest.fixture(scope="module")
def baked_image(engine: Engine, busybox_image: str) -> str:
    """An image with a secret where the workspace will be: a new volume begins with a copy."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as written:
        for name, text in {"workspace/.env": b"TOKEN", "workspace/open": b"open"}.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            written.addfile(member, io.BytesIO(text))
    client = engine.client()
    made = client.create_container(busybox_image, ["true"])["Id"]
    try:
        client.put_archive(made, "/", archive.getvalue())
        return str(client.commit(made, repository="sandbox-kit-test/baked")["Id"])
    finally:
        client.remove_container(made, force=True)


def test_a_volume_never_seen_before_is_masked_at_the_first_start(make: Make, baked_image: str) -> None:
    sandbox = make(baked_image)
    with guarding(sandbox, DENIED) as guarded:
        assert script(guarded, "cat .env open") == "open"
        assert sandbox.read(".env") == "TOKEN"


@pytest.fixture
def volume(engine: Engine, make: Make) -> Iterator[str]:
    """A volume that is nobody's own."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    yield name
    for each in engine.client().containers(all=True, filters={"volume": name}):
        engine.client().remove_container(each["Id"], force=True)
    engine.client().remove_volume(name, force=True)


LINK = {"a file": (".env", "ln -sf b .env"), "a directory that keeps its name": ("a", "mv a c; ln -s c a")}


@pytest.mark.parametrize(("name", "exchange"), LINK.values(), ids=LINK.keys())
def test_a_name_that_becomes_a_link_while_it_is_masked_fails_the_start(
    make: Make, busybox_image: str, volume: str, name: str, exchange: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = make(busybox_image, workspace=volume)
    stage(sandbox)
    bring_up = container.bring_up

    def exchanged(engine: object, name: str, *others: object) -> object:
        if name != sandbox.name:
            return bring_up(engine, name, *others)  # type: ignore[arg-type]
        with DockerSandbox(busybox_image, sandbox_id=f"{sandbox.id}-x", workspace=volume) as other:
            other.execute(exchange, check=True)
        return bring_up(engine, name, *others)  # type: ignore[arg-type]

    monkeypatch.setattr(container, "bring_up", exchanged)
    guarded = guarding(sandbox, DENIED)
    with pytest.raises(PolicyError, match=f"/workspace/{name}|the rules mask"):
        guarded.start()
    assert not sandbox.is_alive()


def test_a_container_that_is_kept_is_made_anew_with_what_it_holds(make: Make, image: str) -> None:
    guarded = guarding(make(image, persist=True), DENIED)
    with guarded:
        guarded.execute("echo installed >/opt-file; mkdir -p late; echo TOKEN >late/key", check=True)
        guarded.write("late/.e", "")
        script(guarded, "mv late/key late/.env")
    with guarded:
        assert script(guarded, "cat /opt-file late/.env") == "installed\n"
    with guarded:
        assert script(guarded, "cat /opt-file late/.env") == "installed\n"


def test_what_a_kept_container_holds_outlives_a_start_that_fails(
    make: Make, busybox_image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = make(busybox_image, persist=True)
    guarded = guarding(sandbox, DENIED)
    with guarded:
        guarded.execute("echo installed >/opt-file", check=True)
        script(guarded, "echo TOKEN >.env")
    with monkeypatch.context() as patch:
        patch.setattr(container, "create", _refused(container.create, sandbox.name))
        with pytest.raises(SandboxUnavailableError):
            guarded.start()
    with guarded:
        assert script(guarded, "cat /opt-file .env") == "installed\n"


def _refused(create: Callable[..., str], name: str) -> Callable[..., str]:
    """As *create*, of which one name fails."""

    def refuse(engine: object, wanted: str, *others: object) -> str:
        if wanted == name:
            raise SandboxUnavailableError("no room")
        return create(engine, wanted, *others)

    return refuse


def test_what_was_masked_in_a_kept_container_is_masked_under_another_name(make: Make, busybox_image: str) -> None:
    sandbox = make(busybox_image, persist=True)
    guarded = guarding(sandbox, DENIED)
    with guarded:
        for name, text in STAGE.items():
            sandbox.write(name, text)
    with guarded:
        assert script(guarded, SEARCH) == "open"
        sandbox.move("a", "z")
        sandbox.move("b/.env", "b/env")
    with guarded:
        assert script(guarded, "grep -rs TOKEN . ; cat z/open") == "open"


def test_what_write_denies_cannot_be_changed_by_commands(make: Make, image: str) -> None:
    rules = PermissionRuleset(
        "allow",
        write=OperationPermissions(rules=[PermissionRule("out/**", "allow"), PermissionRule("./**", "deny")]),
    )
    stage(make(image), {"out/old": "old", "kept/file": "kept", "top": "top"})
    with guarding(make(image), rules, commands="confined") as guarded:
        script_text = "echo new >out/new; echo x >kept/file; echo x >top; rm kept/file; echo x >added; mv out o2; "
        guarded.write("out/script", f"{script_text} cat out/new kept/file top; ls")
        said = guarded.execute("sh out/script").stdout
    assert said == "new\nkepttopkept\nout\ntop\n"


def test_a_sandbox_started_without_rules_cannot_be_confined_by_them(make: Make, busybox_image: str) -> None:
    with make(busybox_image) as sandbox:
        assert sandbox.capabilities.commands == "inspected"
        with pytest.raises(UnsupportedError):
            guarding(sandbox, DENIED, commands="confined")
        with pytest.raises(ApprovalRequiredError):
            guarding(sandbox, DENIED).execute("true")


def test_a_guard_refuses_commands_of_a_sandbox_that_was_started_behind_it(make: Make, busybox_image: str) -> None:
    sandbox = make(busybox_image)
    guarded = guarding(sandbox, DENIED, commands="confined")
    with sandbox:
        with pytest.raises(UnsupportedError, match="its guard"):
            guarded.execute("true")
        with pytest.raises(UnsupportedError, match="its guard"):
            guarded.start()


def test_rules_that_hide_nothing_hold_for_a_sandbox_that_runs_already(make: Make, busybox_image: str) -> None:
    rules = PermissionRuleset("allow", execute=OperationPermissions(rules=[PermissionRule("rm *", "deny")]))
    with make(busybox_image) as sandbox:
        guarded = guarding(sandbox, rules, commands="confined")
        assert guarded.execute("echo hi").stdout == "hi\n"
        with pytest.raises(PermissionDeniedError):
            guarded.execute("rm x")


def test_nested_guards_are_both_held(make: Make, busybox_image: str) -> None:
    stage(make(busybox_image))
    outer = PermissionRuleset("allow", rules=[PermissionRule("a/open", "deny")])
    with guarding(guarding(make(busybox_image), DENIED), outer, commands="confined") as guarded:
        assert script(guarded, SEARCH) == ""


def test_another_process_joins_the_same_container_under_the_same_rules(make: Make, busybox_image: str) -> None:
    stage(make(busybox_image))
    sandbox = make(busybox_image)
    code = (
        "import pickle, sys\n"
        "guarded = pickle.loads(sys.stdin.buffer.read())\n"
        "guarded.start()\n"
        "print(guarded.execute(['/bin/sh', '/tmp/script']).output, guarded._inner.read('.env'))\n"
    )
    with guarding(sandbox, DENIED) as guarded:
        script(guarded, SEARCH)
        run = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(guarded), capture_output=True, timeout=60)
        assert (run.stdout, run.stderr) == (b"open TOKEN\n", b"")
        assert script(guarded, SEARCH) == "open"
        assert sandbox.read(".env") == "TOKEN"


def test_a_container_that_runs_under_other_rules_is_not_joined(make: Make, busybox_image: str) -> None:
    alike = PermissionRuleset("allow", rules=[PermissionRule("b", "deny"), PermissionRule("a/secret/**", "deny")])
    with guarding(make(busybox_image), DENIED):
        for other in (make(busybox_image), *(guarding(make(busybox_image), rules) for rules in (ASKED, alike))):
            with pytest.raises(SandboxConflictError, match="other rules"):
                other.start()


def test_a_kept_container_is_made_anew_for_other_rules_with_what_it_holds(make: Make, image: str) -> None:
    with guarding(make(image, persist=True), DENIED) as guarded:
        script(guarded, "echo installed >/opt-file; echo TOKEN >.env; echo TOKEN >b.pem")
    other = PermissionRuleset("allow", rules=[PermissionRule("**/*.pem", "deny")])
    with guarding(make(image, persist=True), other, commands="confined") as guarded:
        assert script(guarded, "cat /opt-file .env b.pem") == "installed\nTOKEN\n"
    with make(image, persist=True) as sandbox:
        assert script(sandbox, "cat /opt-file b.pem") == "installed\nTOKEN\n"


@pytest.fixture(scope="module")
def image_with_a_volume(engine: Engine, busybox_image: str) -> Iterator[str]:
    client = engine.client()
    made = client.create_container(busybox_image, ["true"])["Id"]
    found = client.commit(made, repository="sandbox-kit-test/with-a-volume", changes=["VOLUME /data"])["Id"]
    client.remove_container(made, force=True)
    yield found
    client.remove_image("sandbox-kit-test/with-a-volume", force=True)


def test_a_kept_container_is_not_made_anew_without_the_volumes_of_its_image(
    make: Make, image_with_a_volume: str
) -> None:
    with make(image_with_a_volume, persist=True) as sandbox:
        sandbox.execute("echo kept >/data/file").check()
    with pytest.raises(UnsupportedError, match="/data"):
        guarding(make(image_with_a_volume, persist=True), DENIED).start()
    with make(image_with_a_volume, persist=True) as sandbox:
        assert sandbox.execute("cat /data/file").stdout == "kept\n"


@pytest.mark.parametrize("user", [0, 1000])
def test_a_workspace_that_commands_have_closed_is_not_started_under_rules(make: Make, image: str, user: int) -> None:
    guarded = guarding(make(image, user=user), DENIED, commands="confined")
    with guarded:
        script(guarded, "echo TOKEN >.env; chmod 300 .")
    with pytest.raises(UnsupportedError, match="/workspace cannot be listed"):
        guarded.start()
    with make(image, user=user) as sandbox:
        sandbox.execute("chmod 700 .").check()
    with guarded:
        assert script(guarded, "cat .env") == ""


def test_all_but_the_workspace_can_be_denied(make: Make, image: str) -> None:
    rules = PermissionRuleset("deny", rules=[PermissionRule("./**", "allow")], execute=OperationPermissions("allow"))
    guarded = guarding(make(image), rules, commands="confined")
    with guarded:
        assert guarded.capabilities.commands == "confined"
        guarded.write("file", "text")
        assert guarded.execute("cat file").stdout == "text"


def test_a_purge_by_another_handle_leaves_nothing(engine: Engine, make: Make, busybox_image: str) -> None:
    stage(make(busybox_image))
    sandbox = make(busybox_image)
    guarded = guarding(sandbox, DENIED)
    guarded.start()
    make(busybox_image).stop(purge=True)
    volumes = engine.client().volumes()["Volumes"] or []
    assert [each for each in volumes if sandbox.id in each["Name"]] == []
    guarded.stop()


def test_a_rule_that_hides_the_shell_is_refused_by_name(make: Make, image: str) -> None:
    rules = PermissionRuleset("allow", rules=[PermissionRule("/bin/{sh,busybox,dash}", "deny")])
    with pytest.raises(UnsupportedError, match=r"/bin/(dash|busybox|sh)"):
        guarding(make(image), rules).start()


def test_a_rule_that_hides_the_work_directory_is_refused(make: Make, busybox_image: str) -> None:
    with pytest.raises(UnsupportedError, match="/workspace"):
        guarding(make(busybox_image), PermissionRuleset("deny")).start()


@pytest.mark.parametrize("preset", [name for name in PRESETS if name != "readonly"])
def test_every_preset_that_lets_commands_run_hides_secrets_from_them(make: Make, image: str, preset: str) -> None:
    stage(make(image), {**STAGE, "run": "cat .env b/.env a/open; echo x >/etc/new || echo refused; cat /etc/shadow"})
    with guarding(make(image), PRESETS[preset], ask=lambda *_: True) as guarded:
        assert guarded.execute(["/bin/sh", "run"]).stdout == "openrefused\n"


def test_names_outside_the_workspace_are_hidden_where_rules_spell_them_out(make: Make, image: str) -> None:
    rules = PermissionRuleset("allow", read=OperationPermissions(rules=[PermissionRule("/etc/passwd", "ask")]))
    sandbox = make(image, user=0)
    with guarding(sandbox, rules, ask=lambda *_: True) as guarded:
        assert script(guarded, "cat /etc/passwd /proc/self/root/etc/passwd") == ""
        assert guarded.read("/etc/passwd").startswith("root:")


def test_links_from_one_side_to_the_other_lead_where_they_say(make: Make, image: str) -> None:
    stage(make(image))
    sandbox = make(image)
    with guarding(sandbox, DENIED) as guarded:
        script(
            guarded, "ln -s /workspace/a /tmp/in; ln -s /tmp/in/secret/key a/round; ln -s /tmp/t a/out; echo t >/tmp/t"
        )
        assert sandbox.read("a/out") == "t\n"
        for name in ("/tmp/in/secret/key", "a/round"):
            assert sandbox.read(name) == "TOKEN"
            with pytest.raises(PermissionDeniedError):
                guarded.read(name)
        guarded.write("a/out", "changed")
        assert script(guarded, "cat /tmp/t") == "changed"


def test_a_name_that_is_no_text_cannot_be_masked(make: Make, busybox_image: str) -> None:
    sandbox = make(busybox_image)
    with sandbox:
        sandbox.execute(r"mkdir $(printf 'd\377'); touch $(printf 'd\377')/.env", check=True)
    with pytest.raises(UnsupportedError, match="UTF-8"):
        guarding(sandbox, DENIED).start()


def test_a_bind_mount_is_masked_as_a_volume_is(make: Make, busybox_image: str, tmp_path: object) -> None:
    sandbox = make(busybox_image, workspace=str(tmp_path))
    stage(sandbox)
    with guarding(sandbox, SECRETS) as guarded:
        assert script(guarded, "cat .env b/.env a/open; mv a a2").startswith("open")


def test_a_kept_container_is_not_masked_by_directories_that_others_may_exchange(
    make: Make, busybox_image: str, volume: str
) -> None:
    sandbox = make(busybox_image, persist=True, workspace=volume)
    stage(sandbox)
    with pytest.raises(UnsupportedError, match="persist"):
        guarding(sandbox, DENIED).start()


def test_an_approved_write_leaves_a_file_read_only_for_commands(make: Make, image: str) -> None:
    rules = PermissionRuleset("allow", write=OperationPermissions(rules=[PermissionRule("config", "ask")]))
    stage(make(image), {"config": "old"})
    with guarding(make(image), rules, ask=lambda *_: True) as guarded:
        guarded.write("config", "approved")
        assert "approved" in script(guarded, "echo changed >config; cat config")
        assert guarded.read("config") == "approved"


def test_what_only_another_user_may_reach_is_hidden_from_that_user(make: Make, image: str) -> None:
    rules = PermissionRuleset("allow", rules=[PermissionRule("/root/.ssh/**", "deny")])
    sandbox = make(image, user=1000, persist=True)
    with guarding(sandbox, rules) as guarded:
        guarded.write("make", "mkdir -p /root/.ssh; echo TOKEN >/root/.ssh/key; chmod 700 /root; ls -A /root/.ssh")
        guarded.write("look", "cat /root/.ssh/key; ls -A /root/.ssh")
        assert guarded.execute(["/bin/sh", "make"], user=0).stdout == "key\n"
    with guarded:
        assert guarded.execute(["/bin/sh", "look"], user=0).stdout == ""


def test_walks_from_above_the_workspace_find_the_files_themselves(make: Make, image: str) -> None:
    sandbox = make(image, work_dir="/home/x/y")
    stage(sandbox)
    with guarding(sandbox, DENIED) as guarded:
        assert sorted(match.path for match in sandbox.grep("TOKEN", "/home", hidden=True)) == [
            ".env",
            "a/secret/key",
            "b/.env",
        ]
        assert [info.path for info in guarded.glob("**/*", "/home/x") if not info.is_dir] == ["a/open"]
        assert {info.path: info.size for info in sandbox.glob("x/y/*", "/home")} == {".env": 5, "a": 0, "b": 0}
        exported = io.BytesIO(sandbox.export("/home/x").read())
        with tarfile.open(fileobj=exported) as archive:
            sizes = {member.name: member.size for member in archive if member.isfile()}
        assert sizes == {"y/.env": 5, "y/a/secret/key": 5, "y/a/open": 4, "y/b/.env": 5}


def test_what_is_hidden_outside_the_workspace_is_not_changed_by_calls(make: Make, busybox_image: str) -> None:
    rules = PermissionRuleset("allow", read=OperationPermissions(rules=[PermissionRule("/etc/passwd", "ask")]))
    sandbox = make(busybox_image)
    with guarding(sandbox, rules):
        for change in (partial(sandbox.write, "/etc/passwd", ""), partial(sandbox.remove, "/etc/passwd")):
            with pytest.raises(UnsupportedError, match="/etc/passwd"):
                change()


@pytest.mark.parametrize("work_dir", ["/etc", "/usr", "/usr/bin", "/lib/x", "/bin"])
def test_commands_do_not_work_where_programs_lie(busybox_image: str, work_dir: str) -> None:
    with pytest.raises(InvalidArgumentError, match="work_dir"):
        DockerSandbox(busybox_image, work_dir=work_dir)


def test_the_volume_of_another_sandbox_is_no_workspace(busybox_image: str) -> None:
    with pytest.raises(InvalidArgumentError, match="sandbox_id"):
        DockerSandbox(busybox_image, workspace="sandbox-kit-other")
