"""The one style sheet: colours are mixed from the text colour of the page, so that they fit a light and a dark one."""

from __future__ import annotations

__all__ = ["STYLE"]

_HUES = ("", "#d1242f", "#1a7f37", "#9a6700", "#0969da", "#8250df", "#1b7c83", "")
"""Of the colours of a terminal, by number; the first and the last follow the text."""


def _colours() -> str:
    coloured = [(number, hue) for number, hue in enumerate(_HUES) if hue]
    text = [f".sandbox-kit .sbk-fg{n}{{color:color-mix(in srgb,{hue} 72%,currentColor)}}" for n, hue in coloured]
    back = [f".sandbox-kit .sbk-bg{n}{{background:color-mix(in srgb,{hue} 26%,transparent)}}" for n, hue in coloured]
    return "".join(text + back)


_LAYOUT = """
.sandbox-kit{font:var(--jp-ui-font-size1,13px)/1.45 var(--jp-ui-font-family,system-ui,sans-serif);
color:var(--jp-ui-font-color1,inherit);max-width:100%;margin:2px 0}
.sandbox-kit .sbk-line{margin:2px 0;padding:0;overflow-wrap:anywhere}
.sandbox-kit .sbk-note,.sandbox-kit .sbk-cut,.sandbox-kit .sbk-dim{opacity:.68}
.sandbox-kit .sbk-code{font-family:var(--jp-code-font-family,ui-monospace,monospace)}
.sandbox-kit .sbk-good,.sandbox-kit .sbk-bad,.sandbox-kit .sbk-wait{font-weight:600}
.sandbox-kit .sbk-good{color:color-mix(in srgb,#1a7f37 72%,currentColor)}
.sandbox-kit .sbk-bad{color:color-mix(in srgb,#d1242f 72%,currentColor)}
.sandbox-kit .sbk-wait{color:color-mix(in srgb,#9a6700 72%,currentColor)}
.sandbox-kit .sbk-frame{width:fit-content;max-width:100%;box-sizing:border-box;max-height:32em;
overflow:auto;margin:4px 0;border:1px solid color-mix(in srgb,currentColor 20%,transparent);border-radius:4px}
.sandbox-kit .sbk-table{border-collapse:collapse;border:0;margin:0;font-size:inherit;color:inherit;width:auto}
.sandbox-kit .sbk-table tr,.sandbox-kit .sbk-table tr:hover{background:none}
.sandbox-kit .sbk-table th,.sandbox-kit .sbk-table td{text-align:left;vertical-align:top;padding:2px 12px;
border:0;max-width:60em;white-space:pre-wrap;overflow-wrap:anywhere;unicode-bidi:isolate}
.sandbox-kit .sbk-table th{font-weight:600;background:color-mix(in srgb,currentColor 8%,transparent)}
.sandbox-kit .sbk-table tbody tr+tr td{border-top:1px solid color-mix(in srgb,currentColor 10%,transparent)}
.sandbox-kit .sbk-table .sbk-number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.sandbox-kit .sbk-output{margin:0;padding:6px 10px 6px 4px;border:0;
background:color-mix(in srgb,currentColor 4%,transparent);color:inherit;
font:var(--jp-code-font-size,13px)/1.4 var(--jp-code-font-family,ui-monospace,monospace);
white-space:pre-wrap;overflow-wrap:anywhere}
.sandbox-kit .sbk-out,.sandbox-kit .sbk-err,.sandbox-kit .sbk-cut{display:block;padding-left:7px}
.sandbox-kit .sbk-err{padding-left:4px;border-left:3px solid color-mix(in srgb,#d1242f 65%,transparent);
background:color-mix(in srgb,#d1242f 9%,transparent)}
.sandbox-kit .sbk-bold{font-weight:700}
.sandbox-kit .sbk-slant{font-style:italic}
.sandbox-kit .sbk-under{text-decoration:underline}
.sandbox-kit .sbk-swap{background:color-mix(in srgb,currentColor 22%,transparent)}
.sandbox-kit .sbk-picture{display:inline-block;margin:6px 12px 6px 0;vertical-align:top;max-width:100%}
.sandbox-kit .sbk-picture img{display:block;max-width:100%;max-height:40em;height:auto;background:#fff;
border-radius:4px;border:1px solid color-mix(in srgb,currentColor 20%,transparent)}
"""

STYLE = _LAYOUT.replace("\n", "") + _colours()
