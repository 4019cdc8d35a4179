"""Draws the lessons' charts and drawings, day*/*.svg.

    python tools/charts.py [--check]

A chart is drawn from the lesson's record and has its hash in the metadata; a
drawing explains and has no figures in it. --check writes nothing and fails
where a file is not what this tool draws; of a draft's it only says so. Where
another matplotlib drew a file, whose letters are wider, places may differ.
"""
import io
import re
import sys

import evidence
import matplotlib
import matplotlib.pyplot as plt

import pages

BLUE, ORANGE, GREY, ROSE = "C0", "C1", "#707070", "#ee8888"
BANKS = PALE, SAND, LEAF, LILAC = "#cfe3f5", "#fde0c5", "#d5ecd4", "#e8daef"
REFERENCE = ("copy", "library", "cudaMemcpy", "one block", "k blocks")
matplotlib.use("svg")
matplotlib.rcParams.update({
    "svg.fonttype": "none", "svg.hashsalt": "cuda-lessons", "font.size": 9,
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
    "axes.axisbelow": True, "axes.titlesize": 10, "grid.alpha": 0.3,
    "figure.constrained_layout.use": True, "figure.labelsize": 8,
    "axes.prop_cycle": matplotlib.cycler(marker=list("os^vDPX*h"), color=[
        "#0062b1", "#c45100", "#1b7837", "#7b3fa0", "black", "#b2182b",
        "#008080", "#8a6d00", "#d6006e"]), "lines.markersize": 4})

# A dark page turns the picture around; its ground is white elsewhere.
DARK = "<style>@media (prefers-color-scheme: dark) {svg {filter: " \
       "invert(.9) hue-rotate(180deg)}}</style>"


def drawn(draw, run):
    """What `draw` draws of a record, or without one, as text."""
    figure, source = draw(run), "without figures"
    if run:
        source = f"{run.header['gpu']}, {run.path.name}"
        figure.supxlabel(source, x=1, ha="right", color=GREY, fontsize=7)
        source += f", body-sha256 {run.header['body-sha256']}"
    text = io.StringIO()
    figure.savefig(text, bbox_inches="tight", pad_inches=0.15, metadata={
        "Date": None, "Title": draw.__doc__, "Description": source})
    plt.close(figure)
    svg = text.getvalue().replace(" <metadata>", f" {DARK}\n <metadata>", 1)
    return re.sub(" +$", "", svg, flags=re.M)


# --- Charts ------------------------------------------------------------------

def titled(run, pattern):
    """{what the group of the pattern matches: the table with that title}"""
    return {found[1]: table for table in run.tables
            if (found := re.match(pattern, table.title))}


def numbers(rows, column):
    """A column's numbers; what is no number, or not there, leaves a gap."""
    cells = (evidence.number(row.get(column, "-")) for row in rows)
    return [float("nan") if cell is None else cell for cell in cells]


def peak(run, line):
    """Draws the peak as a line; returns what to write at the axis."""
    found = int(re.search(r"peak (\d+) GB/s", run.body)[1])
    line(found, color=GREY, ls="--", zorder=0)
    return f"GB/s; dashed: the peak, {found}"


def lines(x, panels, size, xlabel, **labels):
    """A figure of panels, {title: {label: numbers}}, over the texts x."""
    figure, axes = plt.subplots(1, len(panels), sharey=True, figsize=size)
    for axis, (title, rows) in zip(axes, panels.items()):
        for label, y in rows.items():
            axis.plot(x, y, label=label,
                      ls="--" if label.startswith(REFERENCE) else "-")
        axis.set(title=title, xlabel=xlabel)
        axis.tick_params("x", rotation=90 if len(x) > 9 else 0)
    axes[0].set(**labels)
    figure.legend(*axes[0].get_legend_handles_labels(), ncols=5,
                  loc="outside upper left")
    return figure


def bars(run):
    """Days 24 and 25: the first table with the columns of every lesson."""
    table = next(one for one in run.tables
                 if one.columns[1:4] == ["ms", "spread", "GB/s"])
    rows = {f"{row['row']}: {row['GB/s']} GB/s, {row['ms']} ms": rate
            for row, rate in zip(table.rows, numbers(table.rows, "GB/s"))}
    rows |= {f"{label}: {why}": 0 for label, why in table.notes.items()}
    figure, axis = plt.subplots(figsize=(9, 0.3 * len(rows) + 1))
    axis.barh(list(rows), list(rows.values()), 0.7, color=[
        GREY if label.startswith(REFERENCE) else BLUE for label in rows])
    axis.set(title="One sum, row by row", xlabel=peak(run, axis.axvline))
    axis.invert_yaxis()
    return figure


def growth(run):
    """Day 25: the time of a sum against its length, by both clocks."""
    tables = titled(run, "Growth, launched (.*):")
    return lines(
        [row["n"] for row in tables["by the host"].rows],
        {f"Launched {clock}": {
            name: numbers(table.rows, name)
            for name in ("v8", "v9", "v10", "v11", "library")}
         for clock, table in tables.items()},
        (10, 5), "floats", ylabel="microseconds per sum", yscale="log")


def schedules(run):
    """Day 77: GB/s against row length, one line per schedule."""
    tables = titled(run, r"Row length (2\^\d+)")
    rates = [{row["row"]: row["GB/s"] for row in table.rows}
             for table in tables.values()]
    kinds = {"cluster barriers": "", "one way": ", one way",
             "one way, registers too": ", registers too"}
    return lines(
        list(tables), {f"Clusters: {kind}": {
            row: numbers(rates, row + end * row.startswith("cluster"))
            for row in rates[0] if not re.match("cluster.*,", row)}
            for kind, end in kinds.items()},
        (11, 5.2), "floats per row",
        ylabel="GB/s, one read and one write counted")


def prices(run):
    """Day 77: ns of an exchange against threads per block."""
    tables = titled(run, r"Price of an exchange, (\d+) threads")
    ways = list(zip(*(table.rows for table in tables.values())))
    return lines(
        list(tables), {
            size: {rows[0]["row"]: numbers(rows, size) for rows in ways}
            for size in list(ways[0][0])[1:]},
        (10, 3.6), "threads per block", ylim=(0, None),
        ylabel="ns until every block has the sum")


def curve(run):
    """Day 45: GB/s against bytes in flight; full points are full SMs."""
    figure, axis = plt.subplots(figsize=(10, 6.6))
    [table] = titled(run, "(Table 3)").values()
    little = table.row("Little's law")
    table.rows.remove(little)
    label = {}  # where the last label of a column is: they keep apart
    for row in sorted(table.rows, key=lambda row: float(row["GB/s"])):
        x, y = int(row["in flight"].strip("<=")), float(row["GB/s"])
        label[x] = max(y, label.get(x, 0) + 125)
        color = ORANGE if row["in flight"].startswith("<") else BLUE
        axis.plot(x, y, "o", color=color, ms=8,
                  mfc=color if row["occ %"] == "100.0" else "white")
        axis.annotate(f"{row['row']}, {row['occ %']}", (x, y),
                      (x * 1.1, label[x]), va="center", fontsize=8,
                      bbox={"fc": "white", "lw": 0, "pad": 0}, arrowprops={
                          "arrowstyle": "-", "lw": 0.5, "relpos": (0, 0.5)})
    x = int(little["in flight"])
    axis.axvline(x, color=GREY, ls=":")
    axis.text(x, 60, f"Little's law: \n{x} bytes ", ha="right")
    axis.set_xscale("log", base=2)
    axis.set(title="GB/s against bytes in flight on an SM", ylim=(0, None),
             xlim=(None, 2.4 * max(label)), ylabel=peak(run, axis.axhline),
             xlabel="bytes in flight on an SM (orange: at most); after the "
             "names: occupancy, %")
    return figure


def nothing(_):
    """A chart of a draft: nothing has been recorded yet."""
    return plt.figure(figsize=(6, 1)).text(0, 0, "not recorded yet").figure


# --- Drawings: toy sizes, no figures -----------------------------------------

BLOCKS = [f"block {k}" for k in range(4)]
EACH, JOIN = [(k, k) for k in range(4)], [(k, 0) for k in range(4)]


def drawing(size, below, panels, left=0):
    """A figure of panels, {title: rows of boxes from the top}. A row has the
    texts of its boxes, their colours and, where there are any, [(from, to)]
    arrows to the next row and a note on its left."""
    figure, axes = plt.subplots(1, len(panels), figsize=size, sharey=True)
    figure.supxlabel(below)
    for axis, (title, rows) in zip(axes, panels.items()):
        axis.set(title=title, xlim=(left, 8))
        axis.axis("off")
        places = [[(k + 0.5) * 8 / len(texts) for k in range(len(texts))]
                  for texts, *_ in rows]
        for y, (texts, colors, *more) in enumerate(rows):
            arrows, note = (*more, *([], "")[len(more):])
            wide = min(7.2 / len(texts), 5.6)
            boxes = axis.barh(
                [y] * len(texts), wide, 0.6, [x - wide / 2 for x in places[y]],
                color=colors, ec="black", lw=0.8)
            axis.bar_label(boxes, texts, label_type="center", fontsize=8)
            axis.text(left, y, note, va="center", fontsize=8)
            for start, end in arrows:
                axis.annotate("", (places[y + 1][end], y + 0.7),
                              (places[y][start], y + 0.3), arrowprops={
                    "arrowstyle": "-|>", "shrinkA": 0, "shrinkB": 0})
    axes[0].invert_yaxis()
    return figure


def trees(_):
    """The trees of v1, v2, v3: which lanes add, and which banks they read."""
    panels = {"v1: every 2s-th lane": [], "v2: packed lanes, stride 2s": [],
              "v3: halving stride": []}
    for version, rows in enumerate(panels.values(), 1):
        for s in (4, 2, 1) if version == 3 else (1, 2, 4):
            words = range(s) if version == 3 else range(0, 8, 2 * s)
            lanes = words if version == 1 else range(len(words))
            adds = list(zip(words, lanes))
            loads = {(lane // 4, word % 4) for word, lane in adds}
            rows += [
                (8 * [""], 2 * BANKS,
                 [(word + k, lane) for word, lane in adds for k in (0, s)]),
                (range(8), [ROSE if k in lanes else "white" for k in range(8)],
                 [(lane, word) for word, lane in adds],
                 f"s = {s}\nwarps: {lanes[-1] // 4 + 1}"
                 + "\nbank conflict" * (len(loads) < len(adds)))]
        rows.append((["sum"] + 7 * [""], 2 * BANKS))
    return drawing(
        (10.4, 5), "Rows without numbers: words of shared memory, coloured by "
        "bank. Numbers: lanes, four per warp; red ones add. A real warp has "
        "32 lanes, shared memory 32 banks.", panels, left=-3.4)


def partials(_):
    """Where the partial sums of the blocks meet in v8, v8a and v9."""
    start = [(BLOCKS, PALE, EACH), (4 * ["partial"], SAND, JOIN)]
    sums = (["sum"], SAND)
    return drawing(
        (10, 3.4), "Blue: blocks. Orange: words of global memory. v9: each "
        "block writes its partial, then counts itself; the block that counts "
        "last adds all partials, in one order.", {
            "v8: a second launch": [
                *start, (["one block, launched after"], PALE, [(0, 0)]), sums],
            "v8a: one atomic per block": [
                (BLOCKS, PALE, JOIN),
                (["sum, in the order in which they end"], SAND)],
            "v9: the last block": [
                *start, (["the block that counts last"], PALE, [(0, 0)]),
                sums]})


def multiprocessor(_):
    """An SM with its bytes in flight in many warps, in few, and in a ring."""
    full, none = 8 * ["••••\n••••"], 8 * [""]
    return drawing(
        (10, 5), "One SM. Rows of boxes: blocks; boxes: warps (white: empty "
        "places). Green: shared memory. Points: equal numbers of bytes in "
        "flight. The first two SMs hold as many; a ring can hold more.", {
            "tlp1: 8 blocks, little per warp": [
                *8 * [(8 * ["•"], PALE)], (["not used"], LEAF)],
            "vec2-b1: 1 block, much per warp": [
                (full, PALE), *7 * [(none, "white")], (["a dial"], LEAF)],
            "async-b1: 1 block, bytes in a ring": [
                (none, PALE), *7 * [(none, "white")], (full, LEAF)]})


def exchange(_):
    """How block 1 gets the partial sums of the other blocks of its row."""
    blocks, words = (BLOCKS, PALE, EACH), (4 * ["word"], SAND, JOIN)
    barrier, sums = "barrier of all threads", (4 * ["sum"], LEAF, JOIN)
    return drawing(
        (10.4, 3.6), "Blue: blocks, each with a slice of one row. Green: "
        "shared memory. Orange: global memory. Each block gets what block 1 "
        "gets.", {
            "cluster barriers: block 1 reads": [
                blocks, sums, ([barrier], LILAC, [(0, 0)]),
                (["block 1 reads and adds all sums"], PALE, [(0, 0)]),
                ([barrier], LILAC)],
            "one way: the others send": [
                blocks, sums, (["block 1 waits only for the bytes"], LEAF)],
            "no cluster: block 1 reads memory": [
                blocks, (4 * ["sum"], LEAF, EACH), words,
                (["block 1 reads and adds all words"], PALE)]})


CHARTS = {  # day: {file: what draws it}; a chart takes a record
    "24": {"drawing-trees.svg": trees, "chart-rows.svg": bars},
    "25": {"drawing-partials.svg": partials, "chart-rows.svg": bars,
           "chart-growth.svg": growth},
    "45": {"drawing-sm.svg": multiprocessor, "chart-curve.svg": curve},
    "77": {"drawing-exchange.svg": exchange, "chart-rows.svg": schedules,
           "chart-exchange.svg": prices}}


def bare(svg):
    """Without what depends on the release of matplotlib: all places."""
    return re.sub(r'"[^"]*"|Matplotlib v\S+', "", svg)


def main(check, root=evidence.ROOT):
    made, wrong = {}, []
    for lesson in evidence.lessons(root):
        record = lesson.run(lesson.builds[-1])
        for name, draw in CHARTS.get(lesson.day, {}).items():
            path, run = lesson.path.with_name(name), None
            if name.startswith("chart") and record.exists():
                run = evidence.Record(record)
            elif name.startswith("chart"):
                draw = nothing
                if not lesson.draft:
                    wrong.append(f"{lesson.folder}: no record {record.name}")
            svg = drawn(draw, run)
            was = path.read_text(encoding="utf-8") if path.exists() else svg
            other = f"Matplotlib v{matplotlib.__version__}" not in was
            made[path] = was if other and bare(was) == bare(svg) else svg
    return pages.finish("tools/charts.py", made, wrong, check, root)


if __name__ == "__main__":
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:] == ["--check"]))
