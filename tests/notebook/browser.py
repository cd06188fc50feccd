"""A page in headless Chromium: what its parts look like once it is drawn."""

from __future__ import annotations

import json
import re
import subprocess
from html import unescape
from pathlib import Path
from typing import Any, Literal

HANGS_AFTER = 90  # seconds

Scheme = Literal["light", "dark"]

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND",
]
PREFERS = {"dark": "--blink-settings=preferredColorScheme=0", "light": "--blink-settings=preferredColorScheme=1"}

# The background of a text is that of all it stands in, one drawn over the other.
MEASURE = """<script>
addEventListener("load", () => {
  const context = new OffscreenCanvas(1, 1).getContext("2d", {willReadFrequently: true});
  const draw = (colour, alpha) => {
    context.globalAlpha = alpha; context.fillStyle = colour; context.fillRect(0, 0, 1, 1);
    return [...context.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const around = element => element ? [...around(element.parentElement), element] : [];
  const measure = element => {
    const styles = around(element).map(each => getComputedStyle(each));
    let back = draw("white", 1);
    for (const style of styles) back = draw(style.backgroundColor, 1);
    const alpha = styles.reduce((product, style) => product * style.opacity, 1);
    return {text: element.textContent, back, fore: draw(styles.at(-1).color, alpha)};
  };
  const own = [...document.querySelectorAll(".sandbox-kit *:not(style)")];
  const written = own.filter(each => [...each.childNodes].some(node => node.nodeType === 3 && node.data.trim()));
  document.documentElement.dataset.measured = JSON.stringify({
    texts: written.map(measure),
    pictures: [...document.querySelectorAll(".sandbox-kit img")].map(each => [each.alt, each.naturalWidth]),
    rows: document.querySelectorAll(".sandbox-kit tbody tr").length,
    title: document.title,
  });
});
</script>"""


def drawn(page: str, scheme: Scheme, directory: Path) -> dict[str, Any]:
    """Draw *page* for a person who prefers *scheme*, and return what was measured.

    Args:
        page: a whole document.
        directory: an empty one, for the browser.

    Returns:
        ``texts``: each text with its colour and that behind it, as red, green and blue;
        ``pictures``: the name of each and its width in pixels, 0 where it is broken; ``rows``; ``title``.
    """
    source = directory / "page.html"
    source.write_text(page + MEASURE, encoding="utf-8")
    command = ["chromium", *FLAGS, PREFERS[scheme], f"--user-data-dir={directory / 'profile'}", "--dump-dom"]
    done = subprocess.run(
        [*command, source.as_uri()], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=HANGS_AFTER, check=True
    )
    measured = re.search('data-measured="([^"]*)"', done.stdout.decode())
    assert measured is not None
    found: dict[str, Any] = json.loads(unescape(measured[1]))
    return found


def contrast(fore: list[float], back: list[float]) -> float:
    """Return the contrast of two colours, from 1 to 21.

    Source: WCAG 2.2, contrast ratio.
    """
    darker, lighter = sorted(map(luminance, (fore, back)))
    return (lighter + 0.05) / (darker + 0.05)


def luminance(colour: list[float]) -> float:
    red, green, blue = (
        value / 255 / 12.92 if value <= 10.31475 else ((value / 255 + 0.055) / 1.055) ** 2.4 for value in colour
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
