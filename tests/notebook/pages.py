"""What stands in a piece of HTML: its tags, their attributes, its text."""

from __future__ import annotations

from html.parser import HTMLParser

OUTERMOST = {"sandbox-kit", "tex2jax_ignore", "mathjax_ignore"}
TAGS = {"div", "style", "p", "span", "table", "thead", "tbody", "tr", "th", "td", "pre", "img"}


class Page(HTMLParser):
    """A parsed piece of HTML.

    Attributes:
        tags: those that were opened and not closed yet; after the whole of a tidy piece, none.
        found: every tag, in order.
        attributes: every attribute, as tag, name and value.
        text: all that a reader sees.
    """

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.found: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.text = ""
        self.other: list[str] = []
        self.feed(markup)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag != "img":
            self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.tags.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.tags:
            self.text += data

    def handle_comment(self, data: str) -> None:
        self.other.append(data)

    def handle_decl(self, decl: str) -> None:
        self.other.append(decl)

    def handle_pi(self, data: str) -> None:
        self.other.append(data)

    def unknown_decl(self, data: str) -> None:
        self.other.append(data)

    @property
    def is_tidy(self) -> bool:
        """Whether it has nothing but the tags and attributes that this library writes, each closed."""
        own = all(name == "class" or tag == "img" for tag, name, _ in self.attributes)
        names = {word for _, name, value in self.attributes if name == "class" for word in (value or "").split()}
        return (
            own
            and not self.tags
            and not self.other
            and set(self.found) <= TAGS
            and all(name in OUTERMOST or name.startswith("sbk-") for name in names)
        )
