"""Which symbolic links of a tree lead out of it, told from their texts alone, in time linear in these."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import define, field

from sandbox_kit.paths import parts

__all__ = ["escaping"]

_MAX_LINKS = 40


@define(eq=False)
class _Node:
    """A place in the tree that is a link, or on the way to one.

    Attributes:
        above: the directory that it is in; None for the top.
        below: what it holds, by name.
        target: what a link holds, split; None for a directory.
        escapes: whether the link is known to lead outside, or nowhere.
        leads: where the link is known to lead: a place, and how many levels beneath it no link is.
        cost: how many links are followed on the way there, this one included.
        entered: whether the link is being followed.
    """

    above: _Node | None
    below: dict[str, _Node] = field(factory=dict)
    target: list[str] | None = None
    escapes: bool = False
    leads: tuple[_Node, int] | None = None
    cost: int = 1
    entered: bool = False

    @property
    def known(self) -> bool:
        return self.target is None or self.escapes or self.leads is not None


def escaping(links: Mapping[str, str]) -> list[str]:
    """Return the links that lead outside, or in a circle, or across more links than a system follows.

    Args:
        links: what each link holds, by its name relative to the tree.

    Returns:
        Names, in the order of *links*. What a link leads to need not be there.
    """
    top = _Node(None)
    for name, target in links.items():
        node = top
        for part in parts(name):
            node = node.below.setdefault(part, _Node(node))
        node.target = parts(target)
        node.escapes = target.startswith("/")
    return [name for name in links if not _stays(top, parts(name))]


def _stays(top: _Node, names: list[str]) -> bool:
    """Whether a path from *top* on stays inside, and can be followed to its end."""
    path = _Node(top, target=names)
    waiting = [path]
    while waiting:
        link = waiting[-1]
        unknown = _follow(link, link.above or top)
        if unknown is None:
            link.entered = False
            waiting.pop()
        elif unknown.entered:
            unknown.escapes = True
        else:
            unknown.entered = True
            waiting.append(unknown)
    return not path.escapes and path.cost <= _MAX_LINKS + 1


def _follow(link: _Node, start: _Node) -> _Node | None:
    """Find where *link* leads from the directory *start*; return another link that has to be followed before."""
    at, beneath, cost = start, 0, 1
    for part in link.target or ():
        if part == "..":
            if beneath:
                beneath -= 1
            elif at.above is None:
                link.escapes = True
                return None
            else:
                at = at.above
            continue
        node = None if beneath else at.below.get(part)
        if node is None:
            beneath += 1
        elif node.target is None:
            at = node
        elif not node.known:
            return node
        else:
            cost += node.cost
            if node.leads is None or cost > _MAX_LINKS + 1:
                link.escapes = True
                return None
            at, beneath = node.leads
    link.leads, link.cost = (at, beneath), cost
    return None
