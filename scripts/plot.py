"""Line and bar charts as SVG text, for the scripts that draw the documents' pictures."""

import math
from xml.sax.saxutils import escape

INK, MUTED, GRID = "#1b1f24", "#59636e", "#e4e7eb"
COLOURS = ["#2563a8", "#e69f00", "#7fb3e0", "#009e73", "#cc79a7", "#8b5a2b", "#6b7280", "#b8a400"]
FONTS = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', Helvetica, Arial, sans-serif"
WIDTH, MARGIN = 920, 24


def text(x, y, words, size=13, fill=INK, anchor="start", bold=False):
    weight = ' font-weight="600"' if bold else ""
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{fill}" text-anchor="{anchor}"{weight}>'
            f"{escape(words)}</text>")


def line(x1, y1, x2, y2, stroke, width=1.0, dashes=""):
    pattern = f' stroke-dasharray="{dashes}"' if dashes else ""
    return (f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{stroke}" '
            f'stroke-width="{width}"{pattern}/>')


def box(x, y, width, height, fill):
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{fill}"/>'


def width_of(words, size):
    return len(words) * size * 0.6


def nice_step(span, most):
    """1, 2 or 5 times a power of ten that cuts `span` into at most `most` parts."""
    power = 10.0 ** math.floor(math.log10(span / most))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= span / most * (1 - 1e-9))


def ticks(high, step):
    return [index * step for index in range(math.floor(high / step + 1e-9) + 1)]


def tick_text(value, step):
    return f"{value:.{max(0, -math.floor(math.log10(step) + 1e-9))}f}"


def heading(title, subtitle):
    return [text(MARGIN, MARGIN + 16, title, 20, bold=True)] + [
        text(MARGIN, MARGIN + 40 + 19 * index, words, 14, MUTED) for index, words in enumerate(subtitle)]


def legend(names, y):
    """The parts, and the y of the last line."""
    parts, x = [], MARGIN
    for name, colour in zip(names, COLOURS):
        needed = 39 + width_of(name, 14)
        if x > MARGIN and x + needed > WIDTH:
            x, y = MARGIN, y + 22
        parts += [box(x, y - 11, 13, 13, colour), text(x + 19, y, name, 14)]
        x += needed
    return parts, y


def finish(title, height, parts, footer):
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:.0f}" '
            f'viewBox="0 0 {WIDTH} {height:.0f}" role="img" font-family="{FONTS}">')
    return "\n".join([head, f"<title>{escape(title)}</title>", box(0, 0, WIDTH, height, "#ffffff"), *parts,
                      text(MARGIN, height - 14, footer, 12, MUTED), "</svg>"]) + "\n"


def line_chart(title, subtitle, lines, x_axis, y_axis, footer):
    """lines: {name: [(x, y)]}, x > 0 on a logarithmic axis, y from zero; the first line is dashed."""
    parts, last = legend(lines, MARGIN + 68 + 19 * len(subtitle))
    left, right, top = MARGIN + 64, WIDTH - MARGIN - 24, last + 44
    bottom = top + 380
    points = [point for line_points in lines.values() for point in line_points]
    xs = sorted({x for x, _ in points})
    step = nice_step(max(y for _, y in points), 6)
    high = math.ceil(max(y for _, y in points) / step - 1e-9) * step
    span = math.log(xs[-1] / xs[0]) or 1.0

    def place(x, y):
        return left + (right - left) * math.log(x / xs[0]) / span, bottom - (bottom - top) * y / high

    parts += heading(title, subtitle)
    for value in ticks(high, step):
        y = place(xs[0], value)[1]
        parts += [line(left, y, right, y, GRID), text(left - 8, y + 4, tick_text(value, step), fill=MUTED, anchor="end")]
    for x in xs:
        parts.append(text(place(x, 0)[0], bottom + 20, f"{x:g}", fill=MUTED, anchor="middle"))
    for index, (name, colour) in enumerate(zip(lines, COLOURS)):
        placed = [place(x, y) for x, y in lines[name]]
        for before, after in zip(placed, placed[1:]):
            parts.append(line(*before, *after, colour, 2, "6 4" if index == 0 else ""))
        parts += [box(x - 3, y - 3, 6, 6, colour) for x, y in placed]
    parts += [line(left, bottom, right, bottom, INK), text((left + right) / 2, bottom + 44, x_axis, 14, anchor="middle"),
              text(MARGIN, top - 16, y_axis, 13, MUTED)]
    return finish(title, bottom + 84, parts, footer)


def bar_chart(title, subtitle, groups, x_axis, footer):
    """groups: {label: {series: value}}, bars from zero, the values as numbers behind them."""
    series = list(dict.fromkeys(name for bars in groups.values() for name in bars))
    parts, last = legend(series, MARGIN + 68 + 19 * len(subtitle))
    bar, between = 18, 14
    left = MARGIN + max(width_of(label, 14) for label in groups) + 12
    right, top = WIDTH - MARGIN - 60, last + 20
    most = max(value for bars in groups.values() for value in bars.values())
    bottom = top + between + sum(bar * len(bars) + between for bars in groups.values())
    step = nice_step(most, 8)
    parts += heading(title, subtitle)
    for value in ticks(most, step):
        x = left + (right - left) * value / most
        parts += [line(x, top, x, bottom, GRID), text(x, bottom + 18, tick_text(value, step), fill=MUTED, anchor="middle")]
    y = top + between
    for label, bars in groups.items():
        parts.append(text(left - 12, y + bar * len(bars) / 2 + 5, label, 14, anchor="end"))
        for name, value in bars.items():
            width = (right - left) * value / most
            parts += [box(left, y + 1, width, bar - 2, COLOURS[series.index(name)]),
                      text(left + width + 6, y + bar - 5, f"{value:.1f}")]
            y += bar
        y += between
    parts += [line(left, top, left, bottom, INK), text(left, bottom + 42, x_axis, 14)]
    return finish(title, bottom + 80, parts, footer)
