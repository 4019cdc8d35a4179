"""Draws the lessons' charts and drawings, day*/*.svg.

    python tools/charts.py [--check]

A chart is drawn from the lesson's record and has its hash in the metadata; a
drawing explains and has no figures in it. --check writes nothing and fails
where a file is not what this tool draws; of a draft's it only says so.
"""
import io
import re
import sys

import evidence
import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402  (after the backend is chosen)
from matplotlib.patches import Rectangle  # noqa: E402

matplotlib.rcParams.update({
    "svg.fonttype": "none", "svg.hashsalt": "cuda-lessons", "font.size": 9,
    "axes.spines.top": False, "axes.spines.right": False,
    "axes.titleweight": "bold", "axes.titlelocation": "left",
    "axes.titlesize": 10, "figure.figsize": (9, 5)})
BLUE, ORANGE, GREEN, RED, GREY = "#0062b1", "#c45100", "#1b7837", "#b2182b", "#707070"
PURPLE = "#7b3fa0"
PALE = ["#cfe3f5", "#fde0c5", "#d5ecd4", "#e8daef"]  # banks, kinds of memory

# A dark page: the picture is turned around. Renderers that do not know the
# rule show it on its own white ground.
DARK = "<style>@media (prefers-color-scheme: dark) {svg {filter: invert(.9) " \
       "hue-rotate(180deg)}}</style>"


def drawn(draw, *run):
    """What `draw` draws, as text."""
    figure, source = draw(*run), "a drawing, without figures"
    for one in run:
        source = f"{one.header['gpu']}, {one.path.name}"
        figure.text(0.995, 0.005, source, ha="right", va="bottom", color=GREY, fontsize=7)
        source += f", body-sha256 {one.header['body-sha256']}"
    text = io.StringIO()
    figure.savefig(text, format="svg", bbox_inches="tight", pad_inches=0.15,
                   facecolor="white", metadata={
                       "Date": None, "Creator": None, "Title": draw.__doc__,
                       "Description": source})
    plt.close(figure)
    svg = re.sub(r"(<svg [^>]*>)", rf"\1\n {DARK}", text.getvalue(), count=1)
    return re.sub(r"[ \t]+$", "", svg, flags=re.M)


def numbers(rows, column):
    """A column's numbers; what is no number leaves a gap."""
    cells = (evidence.number(row[column]) for row in rows)
    return [float("nan") if cell is None else cell for cell in cells]


def peak(axis, run, along):
    """Draws the peak, where it is known; returns it and what to write."""
    found = int(re.search(r"peak (\d+) GB/s", run.body)[1])
    if found:
        getattr(axis, along)(found, color=GREY, ls="--", lw=1, zorder=0)
    return found, f"GB/s; dashed: the peak, {found}" if found else "GB/s"


def bars(run):
    """Days 24 and 25: the first table with the columns of every lesson."""
    table = next(one for one in run.tables if one.columns[1:4] == ["ms", "spread", "GB/s"])
    rows = [(row["row"], rate, f"{row['GB/s']} GB/s, {row['ms']} ms")
            for row, rate in zip(table.rows, numbers(table.rows, "GB/s"))]
    rows += [(label, 0, note) for label, note in table.notes.items()]
    top = max(rate for _, rate, _ in rows)
    figure, axis = plt.subplots(figsize=(9, 0.31 * len(rows) + 1), layout="constrained")
    for label, rate, text in rows:
        other = label.startswith(("copy", "library", "cudaMemcpy"))
        axis.barh(label, rate, color=GREY if other else BLUE, height=0.7)
        inside = rate > 0.5 * top  # clear of the line of the peak
        axis.annotate(text, (rate, label), (-5 if inside else 5, 0),
                      textcoords="offset points", va="center",
                      ha="right" if inside else "left", color="white" if inside else "black")
    most, words = peak(axis, run, "axvline")
    axis.set(title="One sum, row by row", xlabel=words,
             xlim=(0, 1.05 * max(most, top)))
    axis.invert_yaxis()
    return figure


def growth(run):
    """Day 25: the time of a sum against its length, by both clocks."""
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.8), sharey=True, layout="constrained")
    for axis, clock in zip(axes, ("by the host", "from a graph")):
        [table] = [one for one in run.tables
                   if one.title.startswith(f"Growth, launched {clock}")]
        names = [name for name in table.columns if re.fullmatch(r"v\d+|library", name)]
        for name, color in zip(names, (PURPLE, ORANGE, BLUE, GREEN, "black")):
            axis.plot([2 ** int(row["n"][2:]) for row in table.rows],
                      numbers(table.rows, name), "o-" if name[0] == "v" else "s--",
                      ms=3.5, lw=1.4, color=color, label=name)
        axis.set_xscale("log", base=2)
        axis.set(title=f"Launched {clock}", xlabel="floats", yscale="log")
        axis.grid(alpha=0.25)
    axes[0].set_ylabel("microseconds per sum")
    axes[0].legend(frameon=False)
    return figure


def curve(run):
    """Day 45: GB/s against bytes in flight; full points are full SMs."""
    figure, axis = plt.subplots(figsize=(10, 6.6), layout="constrained")
    [table] = [one for one in run.tables if one.title.startswith("Table 3")]
    columns = {}
    for row in table.rows:
        x = evidence.number(row["in flight"].lstrip("<="))
        if row["row"].startswith("Little"):
            axis.axvline(x, color=GREY, ls=":", lw=1)
            axis.text(x * 0.97, 60, f"Little's law:\n{x:.0f} bytes", color=GREY, ha="right")
        else:
            columns.setdefault(x, []).append(row)
    for x, rows in columns.items():
        rows.sort(key=lambda row: numbers([row], "GB/s"))
        rates, places = numbers(rows, "GB/s"), []
        for rate in rates:  # labels keep apart, and near their points
            places.append(max([rate] + [places[-1] + 125] if places else [rate]))
        shift = (sum(places) - sum(rates)) / len(rates)
        for row, y, place in zip(rows, rates, places):
            color = ORANGE if row["in flight"].startswith("<") else BLUE
            full = float(row["occ %"]) / 100  # the emptier, the wider, and behind
            axis.plot(x, y, "o", color=color, ms=12 - 5 * full, mfc="white", zorder=2 + full)
            axis.plot(x, y, "o", color=color, ms=12 - 5 * full, mew=0, alpha=full,
                      zorder=2 + full)
            axis.annotate(f"{row['row']}, {row['occ %']}", (x, y), (x * 1.1, place - shift),
                          va="center", fontsize=8, bbox={"fc": "white", "ec": "none", "pad": 0},
                          arrowprops={"arrowstyle": "-", "lw": 0.4, "color": GREY})
    axis.set_xscale("log", base=2)
    axis.set(title="GB/s against bytes in flight on an SM",
             ylabel=peak(axis, run, "axhline")[1],
             xlim=(min(columns) / 1.5, max(columns) * 2.4), ylim=(0, None),
             xlabel="bytes in flight on an SM (orange: at most); behind the names: "
             "occupancy, %")
    return figure


def schedules(run):
    """Day 77: GB/s against row length, one line per schedule."""
    lines = {}
    for table in run.tables:
        if found := re.match(r"Row length 2\^(\d+)", table.title):
            for row, rate in zip(table.rows, numbers(table.rows, "GB/s")):
                lines.setdefault(row["row"], []).append((2 ** int(found[1]), rate))
    kinds = {"cluster barriers": ("per row$", BLUE), "one way": ("one way", GREEN),
             "one way, registers too": ("registers", PURPLE)}
    alone = {"copy": (GREY, "--"), "two reads": (RED, "v--"), "in shared": (RED, "x:"),
             "no cluster": (ORANGE, "D--"), "yours": ("black", "*--")}
    figure, axes = plt.subplots(1, 3, figsize=(11, 5.2), sharey=True, layout="constrained")
    for axis, (kind, (which, color)) in zip(axes, kinds.items()):
        for label, points in lines.items():
            if size := re.search(r"^cluster of (\d+)", label):
                if re.search(which, label):
                    axis.plot(*zip(*points), "-", color=color, ms=6, label=label,
                              marker={"2": "^", "4": "P", "8": "s", "16": "o"}[size[1]])
            else:
                ink, style = next(alone[one] for one in alone if one in label)
                axis.plot(*zip(*points), style, color=ink, label=label, lw=1.2, ms=4)
        axis.set_xscale("log", base=2)
        axis.set(title=f"Clusters: {kind}", xlabel="floats per row")
        axis.grid(alpha=0.2)
    axes[0].set_ylabel("GB/s, one read and one write counted")
    shown = {label: handle for axis in axes
             for handle, label in zip(*axis.get_legend_handles_labels())}
    figure.legend([shown[label] for label in lines], lines, loc="outside lower left",
                  ncols=4, frameon=False, fontsize=8)
    return figure


def prices(run):
    """Day 77: ns of an exchange against threads per block."""
    tables = {int(found[1]): table for table in run.tables if
              (found := re.match(r"Price of an exchange, (\d+) threads", table.title))}
    labels, *sizes = next(iter(tables.values())).columns
    figure, axes = plt.subplots(1, len(sizes), sharey=True, figsize=(10, 3.6),
                                layout="constrained")
    for axis, size in zip(axes, sizes):
        for k, color in enumerate((BLUE, GREEN, ORANGE)):
            rows = [table.rows[k] for table in tables.values()]
            axis.plot(list(tables), numbers(rows, size), "o-", color=color,
                      label=rows[0][labels])
        axis.set_xscale("log", base=2)
        axis.set_xticks(list(tables), [str(threads) for threads in tables])
        axis.set(title=size, xlabel="threads per block")
        axis.grid(alpha=0.25)
    axes[0].set(ylabel="ns until every block has the sum", ylim=(0, None))
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center",
                  ncols=3, frameon=False)
    return figure


# --- Drawings: toy sizes, no figures -----------------------------------------

def panels(titles, width, height, size, below, left=-0.3):
    figure, axes = plt.subplots(1, len(titles), figsize=size, layout="constrained")
    for axis, title in zip(axes, titles):
        axis.set(xlim=(left, width), ylim=(height, -0.3), title=title, aspect="equal")
        axis.axis("off")
    figure.supxlabel(below, fontsize=8)
    return figure, axes


def say(axis, x, y, text, color="black", ha="center", **more):
    axis.text(x, y, text, ha=ha, va="center", fontsize=8, color=color, **more)


def box(axis, x, y, w, h, color="white", text="", **more):
    axis.add_patch(Rectangle((x, y), w, h, fc=color, **{"ec": "black", "lw": 0.8, **more}))
    say(axis, x + w / 2, y + h / 2, text)


def arrow(axis, start, end, color="black", **more):
    axis.annotate("", end, start, arrowprops={
        "arrowstyle": "-|>", "color": color, "shrinkA": 0, "shrinkB": 0, **more})


def trees():
    """The trees of v1, v2 and v3: which lanes add, and which banks they read."""
    figure, axes = panels(
        ["v1: every 2s-th lane", "v2: packed lanes, stride 2s", "v3: halving stride"],
        8, 11.7, (10.4, 4.6), "Boxes: words of shared memory, coloured by bank. Circles: "
        "lanes, four per warp; red ones add. A real warp has 32 lanes, shared memory "
        "32 banks.", left=-3.2)
    for axis, kind in zip(axes, (1, 2, 3)):
        for step, s in enumerate((4, 2, 1) if kind == 3 else (1, 2, 4)):
            y = 3.6 * step
            words = {(2 * s * k if kind == 1 else k): (k if kind == 3 else 2 * s * k)
                     for k in range(4 >> step)}  # of each lane that adds
            for k in range(8):
                box(axis, k, y, 0.9, 0.7, PALE[k % 4])
                x, at = k + (0.7 if k > 3 else 0.35), words.get(k, 0) + 0.45
                axis.plot(x, y + 1.95, "o", ms=8, mec="black", mew=0.8,
                          mfc=RED if k in words else "white")
                if k in words:
                    arrow(axis, (at, y + 0.75), (x, y + 1.65), GREY)
                    arrow(axis, (at + s, y + 0.75), (x, y + 1.65), GREY)
                    arrow(axis, (x, y + 2.25), (at, y + 3.55))
            warps, banks = max(words) // 4 + 1, {word % 4 for word in words.values()}
            twice = kind == 2 and len(banks) < len(words)
            say(axis, -3, y + 1.95, f"s = {s}\nlanes: {len(words)}\nwarps: {warps}"
                + "\nbank conflict" * twice, ha="left",
                color=RED if twice or kind == 1 < warps else GREEN)
        box(axis, 0, 10.8, 0.9, 0.7, PALE[0])
        say(axis, 1.2, 11.15, "the sum", ha="left")
    return figure


def partials():
    """Where the partial sums of the blocks meet in v8, v8a and v9."""
    figure, axes = panels(
        ["v8: a second launch", "v8a: one atomic per block", "v9: the last block"],
        8.2, 8.3, (9.4, 3.8), "Blue: blocks. Orange: words of global memory. v9: each "
        "block writes its partial, then counts itself; the block that counts last adds "
        "all partials, in one order.")
    for axis, kind in zip(axes, (8, 0, 9)):
        for block in range(4):
            x = 2 * block + 0.85
            box(axis, x - 0.85, 0, 1.7, 1, PALE[0], f"block {block}")
            if kind == 0:
                arrow(axis, (x, 1.05), (3.4 + 0.5 * block, 7.1), RED)
                continue
            box(axis, x - 0.45, 2.5, 0.9, 0.7, PALE[1])
            arrow(axis, (x, 1.05), (x, 2.4))
            arrow(axis, (x, 3.3), (4 if kind == 8 else 5.9, 5.1), GREY)
        box(axis, 3.2, 7.2, 1.9, 0.9, PALE[1], "sum")
        if kind == 0:
            say(axis, 0, 6, "in the order in\nwhich they end", RED, ha="left")
            continue
        x = 4.1 if kind == 8 else 5.9
        box(axis, x - 2.1, 5.2, 4.2, 1, PALE[0],
            "one block, launched after" if kind == 8 else "block 2: it was last")
        arrow(axis, (x, 6.25), (4.3, 7.1))
        if kind == 8:
            axis.plot([-0.2, 8], [4.3, 4.3], "--", color=GREY, lw=1)
            say(axis, 0, 4.7, "launch 2", GREY, ha="left")
        else:
            box(axis, 0, 5.2, 2.7, 1, PALE[2], "counter: 4 of 4")
            arrow(axis, (2.75, 5.7), (3.7, 5.7), GREEN)
    return figure


def multiprocessor():
    """An SM with its bytes in flight in many warps, in few warps, and in a ring."""
    figure, axes = panels(
        ["tlp1: 8 blocks, little per warp", "vec2-b1: 1 block, much per warp",
         "async-b1: 1 block, bytes in a ring"], 8.4, 9.4, (9.4, 4.1),
        "One SM. Rows of boxes: blocks; boxes: warps (pale: empty places). Red points: equal "
        "numbers of bytes in flight. The first two SMs hold equally many; a ring can hold more.")
    for axis, ring in zip(axes, (False, False, True)):
        box(axis, -0.2, -0.2, 8.4, 9.4, lw=1.2)
        high = 0.62 if ring else 0.85
        for k in range(64):
            there = k < 8 or axis is axes[0]
            box(axis, k % 8 + 0.05, 0.1 + k // 8 * high, 0.85, high - 0.2,
                PALE[0] if there else "white", alpha=1 if there else 0.35)
        box(axis, 0.05, 5.3 if ring else 7.7, 7.85, 3.6 if ring else 1.2, PALE[2])
        say(axis, 3.95, 5.75 if ring else 8.3, "shared memory: " + (
            "a ring of stages" if ring else "a dial" if axis is axes[1] else "not used"))
        for stage in range(8 * ring):
            box(axis, 0.25 + stage * 0.94, 6.3, 0.85, 2.4)
        points = ([(k % 8 + 0.47, 0.42 + k // 8 * high) for k in range(64)]
                  if axis is axes[0] else
                  [(0.52 + k % 8 * 0.94 + 0.3 * (k // 8 % 2), 6.75 + 0.5 * (k // 16))
                   for k in range(64)] if ring else
                  [(k % 8 + 0.22 + 0.17 * (k // 8 % 4), 0.31 + 0.23 * (k // 32))
                   for k in range(64)])
        axis.plot(*zip(*points), "o", color=RED, ms=3)
    return figure


def exchange():
    """How block 1 gets the partial sums of the other blocks of its row."""
    figure, axes = panels(
        ["cluster barriers: block 1 reads", "one way: the others send",
         "no cluster: block 1 reads memory"], 8.2, 8, (9.4, 3.8),
        "Blue: blocks, with slices of one row in shared memory. Dashed: a cluster. Green: "
        "how the partial sums of the others come to block 1; each block gets all.")
    for axis, kind in zip(axes, range(3)):
        if kind < 2:
            box(axis, -0.2, -0.1, 8.2, 6.5, ls="--", ec=GREY)
        for block in range(4):
            x, side = 2 * block + 0.85, 0.5 if block < 1 else -0.5
            box(axis, x - 0.85, 0.1, 1.7, 6.1, PALE[0])
            say(axis, x, 0.55, f"block {block}")
            box(axis, x - 0.7, 1, 1.4, 1.3, PALE[2], "slice of\nthe row")
            box(axis, x - 0.5, 4.3, 1, 0.8, PALE[1], "sum")
            arrow(axis, (x, 2.4), (x, 4.2))
            if kind == 2:
                box(axis, x - 0.5, 7, 1, 0.8, PALE[3], "word")
                arrow(axis, (x - 0.25, 5.2), (x - 0.25, 6.9))
            if block != 1:
                arrow(axis, *([(x + 0.1, 6.9), (3.0, 5.2)] if kind == 2 else
                              [(x + side, 4.7), (2.85 - side, 4.7)]), GREEN,
                      connectionstyle="arc3,rad=" + ("0" if kind == 2 else
                                                     str((0.9, 0, -0.45, 0.5)[block])))
        for y, text in [[(3.3, "barrier of all threads"), (5.7, "barrier of all threads")],
                        [(5.7, "a block waits only for the bytes")], []][kind]:
            color = GREEN if kind else RED
            axis.plot([-0.1, 7.9], [y, y], color=color, lw=0 if kind else 2)
            say(axis, 3.9, y, text, color, bbox={"fc": "white", "pad": 1.5, "ec": color})
    return figure


def nothing():
    """A chart of a draft: nothing has been recorded yet."""
    figure = plt.figure(figsize=(6, 1))
    figure.text(0.5, 0.5, "not recorded yet", ha="center", va="center")
    return figure


CHARTS = {  # day: {file: what draws it}; a chart takes a record
    "24": {"drawing-trees.svg": trees, "chart-rows.svg": bars},
    "25": {"drawing-partials.svg": partials, "chart-rows.svg": bars,
           "chart-growth.svg": growth},
    "45": {"drawing-sm.svg": multiprocessor, "chart-curve.svg": curve},
    "77": {"drawing-exchange.svg": exchange, "chart-rows.svg": schedules,
           "chart-exchange.svg": prices}}


def main(check, root=evidence.ROOT):
    wrong, drafts = [], {one.folder for one in evidence.lessons(root) if one.draft}
    for lesson in evidence.lessons(root):
        record = lesson.run(lesson.builds[-1])
        for name, draw in CHARTS.get(lesson.day, {}).items():
            path = lesson.path.with_name(name)
            if name.startswith("drawing"):
                svg = drawn(draw)
            elif record.exists():
                svg = drawn(draw, evidence.Record(record))
            elif lesson.draft:
                svg = drawn(nothing)
            else:
                wrong.append(f"{lesson.folder}/{name}: no record {record.name}")
                continue
            if not path.exists() or path.read_text(encoding="utf-8") != svg:
                wrong.append(f"{path.relative_to(root)}: not what tools/charts.py draws")
                if not check:
                    path.write_text(svg, encoding="utf-8", newline="\n")
    print("\n".join(wrong) if check else f"charts: {len(wrong)} written", file=sys.stderr)
    return check and any(one.split("/")[0] not in drafts for one in wrong)


if __name__ == "__main__":
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:] == ["--check"]))
