# SPDX-License-Identifier: Apache-2.0
"""Shapes of SVG: boxes, arrows and words. Lengths are pixels, from the upper left corner."""

import html
from collections.abc import Sequence

#: What a colour stands for: (fill, border).
COLOURS = {
    'plain': ('#ffffff', '#64748b'),
    'ours': ('#dbeafe', '#1d4ed8'),
    'asleep': ('#fef3c7', '#b45309'),
    'awake': ('#dcfce7', '#15803d'),
    'over': ('#e2e8f0', '#475569'),
    'ground': ('#f8fafc', '#cbd5e1'),
}
INK = '#0f172a'
SIZE = 14
LINE = 18

_HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" \
height="{height}" font-family="DejaVu Sans, Verdana, sans-serif" font-size="{size}" fill="{ink}">
<title>{title}</title>
<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" \
orient="auto-start-reverse"><path d="M0 0L10 5L0 10z" fill="{ink}"/></marker></defs>
<rect width="{width}" height="{height}" fill="#ffffff"/>
"""


class Picture:
    """One picture; what is drawn later covers what was drawn before.

    :param title: what a screen reader says
    """

    def __init__(self, title: str, width: int, height: int) -> None:
        self._parts = [
            _HEAD.format(width=width, height=height, size=SIZE, ink=INK, title=html.escape(title))
        ]

    def box(
        self,
        x: int,
        y: int,
        width: int,
        height: int,
        words: str = '',
        colour: str = 'plain',
        top: bool = False,
    ) -> None:
        """Draw a box with lines of words in its middle, or at its top.

        The first of several lines is its name, in bold, unless it ends with a comma.
        """
        fill, border = COLOURS[colour]
        self._parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="{fill}" '
            f'stroke="{border}" stroke-width="1.5"/>\n'
        )
        lines = words.split('\n') if words else []
        named = top or (len(lines) > 1 and not lines[0].endswith(','))
        middle = y + 22 if top else y + height / 2 + 5 - (len(lines) - 1) * LINE / 2
        self.words(x + width / 2, middle, words, bold=0 if named else None)

    def words(
        self,
        x: float,
        y: float,
        words: str,
        anchor: str = 'middle',
        bold: int | None = None,
        small: bool = False,
    ) -> None:
        """Write lines of words; ``y`` is the base of the first, ``bold`` the line that is so."""
        size = f' font-size="{SIZE - 2}"' if small else ''
        for number, line in enumerate(words.split('\n') if words else []):
            weight = ' font-weight="bold"' if number == bold else ''
            self._parts.append(
                f'<text x="{x:g}" y="{y + number * (LINE - 2 * small):g}" '
                f'text-anchor="{anchor}"{weight}{size}>{html.escape(line)}</text>\n'
            )

    def arrow(self, *points: tuple[int, int], both: bool = False, dashed: bool = False) -> None:
        """Draw an arrow along these points."""
        more = ' marker-start="url(#head)"' if both else ''
        more += ' stroke-dasharray="5 4"' if dashed else ''
        self._parts.append(
            f'<polyline points="{_points(points)}" fill="none" stroke="{INK}" '
            f'stroke-width="1.5" marker-end="url(#head)"{more}/>\n'
        )

    def line(self, *points: tuple[int, int]) -> None:
        """Draw a thin line along these points."""
        self._parts.append(
            f'<polyline points="{_points(points)}" fill="none" stroke="#94a3b8" '
            'stroke-dasharray="2 4"/>\n'
        )

    def svg(self) -> str:
        return ''.join([*self._parts, '</svg>\n'])


def _points(points: Sequence[tuple[int, int]]) -> str:
    return ' '.join(f'{x},{y}' for x, y in points)
