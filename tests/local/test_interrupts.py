"""What a signal handler that raises cannot break: owners of descriptors, work set aside, latches, readers of lines."""

from __future__ import annotations

import io
import os
import sys
import threading
from collections.abc import Callable

import pytest

from sandbox_kit.host import aside as asides
from sandbox_kit.host.aside import Latch, aside
from sandbox_kit.host.system import Descriptor, add_pipes, close_all
from sandbox_kit.output import Lines

from .interrupts import Moments, moments_of
from .processes import descriptors, eventually

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at descriptors in /proc")


def at_each_moment(call: Callable[[], object]) -> int:
    """Break *call* off at each of its moments in turn; return how many those are."""
    moments = moments_of(call)
    for moment in range(moments):
        Moments(moment).break_off(call)
    return moments


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
class TestOwners:
    def open_and_drop(self) -> None:
        Descriptor.open("/dev/null", os.O_RDONLY)

    def open_and_close(self) -> None:
        with Descriptor.open("/", os.O_RDONLY):
            pass

    def pipes(self) -> None:
        files: list[io.FileIO] = []
        add_pipes(files, 2)

    @pytest.mark.parametrize("way", [open_and_drop, open_and_close, pipes])
    def test_lose_no_descriptor_at_any_moment(self, way: Callable[[TestOwners], None]) -> None:
        before = descriptors()
        assert at_each_moment(lambda: way(self)) > 3
        assert descriptors() == before

    def test_a_failure_leaves_nothing_to_close(self) -> None:
        with pytest.raises(FileNotFoundError):
            Descriptor.open("/no/such/file", os.O_RDONLY)

    def test_a_descriptor_closes_once(self) -> None:
        first = Descriptor.open("/dev/null", os.O_RDONLY)
        number = first.fd
        first.close()
        with Descriptor.open("/dev/null", os.O_RDONLY) as second:
            assert second.fd == number
            first.close()
            del first
            os.fstat(second.fd)

    def test_all_of_a_list_are_closed_and_taken_off(self) -> None:
        before = descriptors()
        fds = [os.open("/dev/null", os.O_RDONLY) for _ in range(3)]
        close_all(fds)
        close_all(fds)
        assert (fds, descriptors()) == ([], before)


class TestAside:
    def test_work_of_the_main_thread_is_done_in_another(self) -> None:
        assert aside(threading.get_ident) != threading.get_ident()

    def test_work_of_another_thread_is_done_there(self) -> None:
        found: list[bool] = []
        thread = threading.Thread(target=lambda: found.append(aside(threading.get_ident) == threading.get_ident()))
        thread.start()
        thread.join(30)
        assert found == [True]

    def test_an_error_passes_through(self) -> None:
        with pytest.raises(ZeroDivisionError):
            aside(lambda: 1 // 0)

    def test_without_room_for_a_thread_it_is_done_at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(work: object, arguments: object) -> None:
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr(asides, "start_new_thread", refuse)
        assert aside(threading.get_ident) == threading.get_ident()

    def test_what_it_opens_is_dropped_when_the_wait_is_broken_off(self) -> None:
        before = descriptors()
        assert at_each_moment(lambda: aside(lambda: Descriptor.open("/dev/null", os.O_RDONLY))) > 5
        assert eventually(lambda: descriptors() == before)


class TestLatch:
    def test_a_wait_ends_with_its_time_or_when_it_is_set(self) -> None:
        latch = Latch()
        assert not latch.wait(0.01)
        threading.Timer(0.05, latch.set).start()
        assert latch.wait(30)
        assert latch.is_set()
        assert latch.wait()

    def test_all_that_wait_go_on(self) -> None:
        latch = Latch()
        threads = [threading.Thread(target=latch.wait, args=(30,)) for _ in range(5)]
        for thread in threads:
            thread.start()
        latch.set()
        for thread in threads:
            thread.join(30)
        assert not any(thread.is_alive() for thread in threads)

    def test_a_wait_that_is_broken_off_holds_nobody_up(self) -> None:
        latch = Latch()
        at_each_moment(lambda: latch.wait(0.001))
        latch.set()
        at_each_moment(latch.wait)
        assert latch.wait(30)


class TestLines:
    def test_a_reader_that_is_broken_off_loses_at_most_its_line(self) -> None:
        lines = Lines(1000)
        lines.feed(b"".join(b"%d\n" % number for number in range(50)))
        at_each_moment(lambda: next(lines))
        lines.feed(b"late\n")
        lines.end()
        assert list(lines)[-1] == "late\n"

    def test_two_readers_share_the_lines_and_both_see_the_end(self) -> None:
        lines = Lines(100_000)
        read: list[list[str]] = [[], []]
        threads = [threading.Thread(target=lambda into=into: into.extend(lines)) for into in read]
        for thread in threads:
            thread.start()
        for number in range(300):
            lines.feed(b"%d\n" % number)
        lines.end()
        for thread in threads:
            thread.join(30)
        assert not any(thread.is_alive() for thread in threads)
        assert sorted(map(int, read[0] + read[1])) == list(range(300))
