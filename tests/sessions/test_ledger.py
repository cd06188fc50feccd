"""The ledger's file: made privately, shared by threads and processes, and refused when it is not its own."""

from __future__ import annotations

import os
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path, PurePosixPath

import pytest

from sandbox_kit.errors import (
    SandboxConflictError,
    SandboxTimeoutError,
    SandboxUnavailableError,
    UnsupportedError,
)
from sandbox_kit.sessions.filesystems import Location, check_local, file_system_of, location_of
from sandbox_kit.sessions.ledger import Ledger
from sandbox_kit.sessions.liveness import Owner
from sandbox_kit.sessions.schema import Ceilings, Granted

OWNER = Owner("owner", 1, 2, "boot")
FILE = "ledger.sqlite"

MOUNTS = """\
22 1 0:21 / / rw - ext4 /dev/vda rw
23 22 0:22 / /share rw shared:1 - nfs4 host:/x rw
24 23 0:23 / /share/a\\040b rw - tmpfs tmpfs rw
25 22 0:24 / /home rw - cifs //host/x rw
26 25 0:25 / /home rw - xfs /dev/vdb rw
"""


def claim(ledger: Ledger, session: str, ceilings: Ceilings | None = None) -> object:
    return ledger.claim(session, OWNER, tenant=None, runtime=None, ceilings=ceilings or Ceilings(), now=1.0)


def run_sql(tmp_path: Path, statement: str) -> object:
    with closing(sqlite3.connect(tmp_path / "own" / FILE)) as connection:
        return connection.execute(statement).fetchone()


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = Ledger(tmp_path / "own", backend="local", patience=10)
    made.enrol(OWNER)
    return made


def test_its_directory_is_this_users_alone(ledger: Ledger, tmp_path: Path) -> None:
    assert (tmp_path / "own").stat().st_mode & 0o777 == 0o700
    assert run_sql(tmp_path, "PRAGMA journal_mode") == ("wal",)


def test_a_directory_that_others_may_enter_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with pytest.raises(SandboxConflictError, match="this user alone"):
        Ledger(tmp_path, backend="local")


def test_a_link_in_the_place_of_its_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "own").symlink_to("elsewhere")
    with pytest.raises(SandboxConflictError, match="link"):
        Ledger(tmp_path / "own", backend="local")


def test_another_one_over_the_same_directory_sees_the_same(ledger: Ledger, tmp_path: Path) -> None:
    claim(ledger, "a")
    assert [info.id for info in Ledger(tmp_path / "own", backend="local").sessions()] == ["a"]
    assert ledger.session("b") is None


@pytest.mark.parametrize("content", [b"no database at all " * 100, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_damaged_file_is_an_error_and_stays_as_it_is(tmp_path: Path, content: bytes) -> None:
    ledger = Ledger(tmp_path / "own", backend="local")
    (tmp_path / "own" / FILE).write_bytes(content)
    with pytest.raises(SandboxUnavailableError, match=r"ledger\.sqlite"):
        ledger.sessions()
    assert (tmp_path / "own" / FILE).read_bytes() == content


@pytest.mark.parametrize("statement", ["PRAGMA user_version = 99", "PRAGMA application_id = 5"])
def test_the_file_of_another_version_is_refused(tmp_path: Path, statement: str) -> None:
    first = Ledger(tmp_path / "own", backend="local")
    first.enrol(OWNER)
    first.close()
    run_sql(tmp_path, statement)
    with pytest.raises(SandboxConflictError, match="schema"):
        Ledger(tmp_path / "own", backend="local").sessions()


def test_the_file_of_something_else_is_refused(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "own", backend="local")
    run_sql(tmp_path, "CREATE TABLE theirs (x)")
    with pytest.raises(SandboxConflictError, match="schema 0"):
        ledger.sessions()


@pytest.mark.parametrize("name", [FILE, f"{FILE}-wal"])
@pytest.mark.parametrize("replaced", [False, True])
def test_a_file_that_goes_away_while_it_is_in_use_is_an_error_until_it_is_closed(
    ledger: Ledger, tmp_path: Path, name: str, replaced: bool
) -> None:
    claim(ledger, "a")
    path = tmp_path / "own" / name
    path.rename(tmp_path / "kept")
    if replaced:
        path.write_bytes((tmp_path / "kept").read_bytes())
    for _ in range(2):
        for ask in (ledger.sessions, lambda: claim(ledger, "b")):
            with pytest.raises(SandboxUnavailableError, match=f"{name} was removed or replaced"):
                ask()
    path.unlink(missing_ok=True)
    (tmp_path / "kept").rename(path)
    assert [info.id for info in ledger.sessions()] == ["a"]


def test_a_file_that_is_another_after_a_fork_is_an_error(ledger: Ledger, tmp_path: Path) -> None:
    claim(ledger, "a")
    (tmp_path / "own" / FILE).rename(tmp_path / "kept")
    child = os.fork()
    if child == 0:
        try:
            ledger.sessions()
        except SandboxUnavailableError as error:
            os._exit(0 if "replaced" in str(error) else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_fork_does_not_wait_for_ever_for_who_uses_it(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "own", backend="local", patience=0.1)
    ledger.enrol(OWNER)
    begun, go_on = threading.Event(), threading.Event()

    def use() -> None:
        with ledger._database.transaction():
            begun.set()
            go_on.wait(20)

    thread = threading.Thread(target=use)
    thread.start()
    assert begun.wait(20)
    child = os.fork()
    if child == 0:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    go_on.set()
    thread.join(20)
    assert ledger.sessions() == []


def test_what_an_interrupt_broke_off_is_undone_by_the_next_use(ledger: Ledger) -> None:
    abandoned = ledger._database.transaction()
    abandoned.__enter__().execute("INSERT INTO sessions VALUES ('lost', NULL, NULL, 'local', 1, 1)")
    assert isinstance(claim(ledger, "a"), Granted)
    del abandoned
    with ThreadPoolExecutor(1) as pool:
        assert [info.id for info in pool.submit(ledger.sessions).result(20)] == ["a"]


def test_waiting_for_another_writer_has_an_end(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "own", backend="local", patience=0.1)
    ledger.enrol(OWNER)
    blocker = sqlite3.connect(tmp_path / "own" / FILE, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    with pytest.raises(SandboxTimeoutError) as caught:
        claim(ledger, "a")
    assert caught.value.timeout == 0.1
    blocker.execute("ROLLBACK")
    blocker.close()
    assert isinstance(claim(ledger, "a"), Granted)


def test_a_refused_change_changes_nothing(ledger: Ledger) -> None:
    ledger.claim("a", OWNER, tenant="x", runtime=None, ceilings=Ceilings(), now=1.0)
    with pytest.raises(SandboxConflictError, match="tenant"):
        ledger.claim("a", OWNER, tenant="y", runtime=None, ceilings=Ceilings(), now=9.0)
    (info,) = ledger.sessions()
    assert (info.tenant, info.last_used) == ("x", 1.0)


def test_an_owner_that_holds_something_is_not_dismissed(ledger: Ledger) -> None:
    claim(ledger, "a")
    assert not ledger.dismiss(OWNER)
    ledger.release("a", OWNER, last_used=5.0)
    assert ledger.dismiss(OWNER)
    assert ledger.owners() == []
    assert [info.last_used for info in ledger.sessions()] == [5.0]


def test_only_hibernated_sessions_are_unused(ledger: Ledger) -> None:
    for id, used in (("live", 0.0), ("old", 1.0), ("older", 0.5), ("young", 7.0)):
        claim(ledger, id)
        if id != "live":
            ledger.release(id, OWNER)
        ledger.touch({id: used})
    assert ledger.unused(6.0) == ["old", "older"]


def test_room_is_wanted_of_the_least_recently_used_session_to_spare(ledger: Ledger) -> None:
    theirs, shared = Owner("theirs", 3, 4, "boot"), Owner("shared", 5, 6, "boot")
    for owner in (theirs, shared):
        ledger.enrol(owner)
    for number, id in enumerate(["own", "young", "old", "both", "kept"]):
        owner = OWNER if id == "own" else theirs
        ledger.claim(id, owner, tenant=None, runtime=None, ceilings=Ceilings(), now=1.0)
        ledger.set_state(id, owner)
        ledger.touch({id: 9.0 if id == "young" else 2.0 + number})
    ledger.claim("both", shared, tenant=None, runtime=None, ceilings=Ceilings(), now=1.0, alive={"theirs"})
    assert not ledger.want_room(OWNER)
    assert ledger.offer(OWNER, ["own"]) == []
    assert ledger.offer(theirs, ["young", "old", "both", "not held"]) == []
    assert ledger.want_room(OWNER)
    assert ledger.want_room(OWNER)
    assert ledger.offer(theirs, ["young", "old", "both"]) == ["old"]
    assert ledger.offer(theirs, ["young", "both"]) == []
    assert ledger.want_room(OWNER)
    assert ledger.offer(theirs, ["young", "old"]) == ["young"]
    assert ledger.want_room(theirs)
    assert ledger.offer(OWNER, ["own"]) == ["own"]


def test_threads_never_exceed_a_ceiling(ledger: Ledger) -> None:
    start = threading.Barrier(8)

    def work(number: int) -> list[object]:
        start.wait()
        return [claim(ledger, f"{number}-{each}", Ceilings(resident=5)) for each in range(10)]

    with ThreadPoolExecutor(8) as pool:
        answers = [answer for got in pool.map(work, range(8)) for answer in got]
    assert sum(isinstance(answer, Granted) for answer in answers) == 5 == len(ledger.sessions())


def test_parent_and_child_both_go_on_after_a_fork(ledger: Ledger) -> None:
    claim(ledger, "before")
    children = []
    for number in range(3):
        child = os.fork()
        if child == 0:
            try:
                for each in range(20):
                    claim(ledger, f"{number}-{each}")
                os._exit(0)
            finally:
                os._exit(1)
        children.append(child)
    for each in range(20):
        claim(ledger, f"parent-{each}")
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
    assert len(ledger.sessions()) == 81


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_fork_while_other_threads_write_leaves_both_sides_usable(ledger: Ledger) -> None:
    stop = threading.Event()
    errors: list[BaseException] = []

    def write() -> None:
        try:
            while not stop.is_set():
                claim(ledger, "busy")
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=write) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for number in range(10):
            child = os.fork()
            if child == 0:
                try:
                    os._exit(0 if isinstance(claim(ledger, f"child-{number}"), Granted) else 1)
                finally:
                    os._exit(2)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join(20)
    assert errors == []
    assert {info.id for info in ledger.sessions()} == {"busy", *(f"child-{number}" for number in range(10))}


@pytest.mark.parametrize(
    ("directory", "kind"),
    [("/data", "ext4"), ("/share/x", "nfs4"), ("/shared", "ext4"), ("/share/a b/c", "tmpfs"), ("/home/me", "xfs")],
)
def test_the_file_system_is_that_of_the_innermost_and_latest_mount(tmp_path: Path, directory: str, kind: str) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS)
    assert file_system_of(Path(directory), mounts=str(mounts)) == kind


@pytest.mark.parametrize(
    ("path", "device", "name"),
    [
        ("/data/x", "0:21", "/data/x"),
        ("/share/x/y", "0:22", "/x/y"),
        ("/share/a b/c", "0:23", "/c"),
        ("/home/me", "0:25", "/srv/homes/me"),
        ("/home", "0:25", "/srv/homes"),
    ],
)
def test_a_location_is_the_same_by_every_mount(tmp_path: Path, path: str, device: str, name: str) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS.replace("0:25 / /home", "0:25 /srv/homes /home"))
    assert location_of(Path(path), mounts=str(mounts)) == Location(device, PurePosixPath(name))
    assert location_of(Path(path), mounts=str(tmp_path / "missing")) is None


def test_a_location_is_beneath_another_on_the_same_file_system_alone() -> None:
    top = Location("0:1", PurePosixPath("/srv/a"))
    assert Location("0:1", PurePosixPath("/srv/a/s1/f")).beneath(top) == ("s1", "f")
    assert Location("0:1", PurePosixPath("/srv/ab")).beneath(top) is None
    assert Location("0:2", PurePosixPath("/srv/a/s1")).beneath(top) is None


def test_a_file_system_that_does_not_hold_locks_is_refused_by_name(tmp_path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS)
    with pytest.raises(UnsupportedError, match="nfs4, a network file system"):
        check_local(Path("/share/x"), mounts=str(mounts))
    check_local(Path("/data"), mounts=str(mounts))
    check_local(Path("/data"), mounts=str(tmp_path / "missing"))
