"""The measurements as short tables of microseconds."""

from goals import COPY, GROUP, LAYOUTS, NORMAL, OP, PATTERNS, ROWS, TENSOR, TOKEN, TWO_PASS, side_of


def print_table(title, header, rows):
    cells = [header, *rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    print(f"\n{title}")
    for row in cells:
        print("  ".join(cell.rjust(width) if column else cell.ljust(width)
                        for column, (cell, width) in enumerate(zip(row, widths))))


def us(comparison, name):
    return f"{comparison.us(name):.2f}" if name in comparison.times else "-"


def print_shapes(title, shapes, ceilings):
    rows = []
    for (tokens, hidden), one in shapes.items():
        row, roof = one.fastest(ROWS), one.fastest(ceilings)
        rows.append([f"{tokens} x {hidden}", us(one, GROUP), f"{one.rate(GROUP) / 1e12:.2f}",
                     us(one, OP), us(one, row), us(one, COPY), us(one, roof), us(one, TOKEN), us(one, TWO_PASS),
                     us(one, TENSOR)])
    print_table(title, ["tokens x hidden", "group", "TB/s", "op", "row", "copy21", "ceiling", "token", "two_pass",
                        "tensor"], rows)


def print_layouts(layouts):
    header, rows = ["layout"], [[GROUP], *([layout] for layout in LAYOUTS)]
    for tokens, one in layouts.items():
        header += [f"us at {tokens}", "per byte / row-major"]
        for row in rows:
            row += [us(one, row[0]), f"{one.ratio_per_byte(row[0], GROUP):.3f}"]
    print_table("layouts of per_group(128), hidden 4096 where no other is named", header, rows)


def print_data(data):
    recipes = (GROUP, TOKEN, TENSOR, OP, TWO_PASS, *ROWS)
    for tokens, one in data.items():
        rows = [[pattern, *(us(one, side_of(recipe, pattern)) for recipe in recipes)]
                for pattern in (NORMAL, *PATTERNS)]
        print_table(f"data patterns, {tokens} tokens, hidden 4096, us", ["data", *recipes], rows)


def print_verdicts(verdicts):
    width = max((len(verdict.goal) for verdict in verdicts), default=0)
    print()
    for verdict in verdicts:
        print(f"{verdict.word}  {verdict.goal:<{width}}  {verdict.figure:7.3f} {verdict.sign} {verdict.bound:<5g} "
              f"at {verdict.where}")
    reached = sum(verdict.reached for verdict in verdicts)
    print(f"{reached} of {len(verdicts)} goals reached")
