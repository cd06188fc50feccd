"""What a test has left in an engine: containers and volumes, told by their labels."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from .daemon import Engine

PRODUCT_LABEL = "sandbox-kit"
TEST_LABEL = "sandbox-kit-test"

Belonging = tuple[str, str]


def belongings(engine: Engine, label: str = PRODUCT_LABEL, value: str | None = None) -> frozenset[Belonging]:
    """Return the containers and volumes that have *label*, or a label beneath it as in ``label.owner``.

    Args:
        value: the label's value; None for any.

    Returns:
        Pairs of "container" or "volume", and its name.
    """

    def told(labels: Mapping[str, str] | None) -> bool:
        return any(_is_of(key, label) and value in (None, each) for key, each in (labels or {}).items())

    client = engine.client()
    containers = [
        ("container", found["Names"][0][1:]) for found in client.containers(all=True) if told(found["Labels"])
    ]
    volumes = [("volume", found["Name"]) for found in client.volumes()["Volumes"] or () if told(found["Labels"])]
    return frozenset(containers + volumes)


def leftovers(engine: Engine, before: frozenset[Belonging], label: str = PRODUCT_LABEL) -> list[Belonging]:
    """Return, sorted, the belongings of now that were not there *before*, those of other workers included."""
    return sorted(belongings(engine, label) - before)


@contextmanager
def tidy(engine: Engine) -> Iterator[dict[str, str]]:
    """Yield labels for what the block makes; remove what still has them at its end.

    Raises:
        AssertionError: there was something to remove.
    """
    labels = {TEST_LABEL: uuid.uuid4().hex}
    yield labels
    left = belongings(engine, TEST_LABEL, labels[TEST_LABEL])
    remove(engine, left)
    assert sorted(left) == [], "left behind"


def remove(engine: Engine, left: Iterable[Belonging]) -> None:
    """Remove *left*, containers before the volumes that they use."""
    client = engine.client()
    for kind, name in sorted(left):
        if kind == "container":
            client.remove_container(name, force=True)
        else:
            client.remove_volume(name, force=True)


def _is_of(key: str, label: str) -> bool:
    return key == label or key.startswith(f"{label}.")
