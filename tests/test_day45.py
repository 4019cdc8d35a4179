"""Day 45: where the loads are, and what its tables say."""
import math
import re
import subprocess

import pytest
from conftest import NVCC

# No row: pointerChase fillLinks fillValues yours
LOAD, LOAD16 = r"LDG\.", r"LDG\S*\.128"
FLOATS = ("scaleAdd", "scaleAddBounded", "scaleAddGuarded")
STREAMS = ("scaleAddStream", "scaleAddDependent")


# ---- machine code. A first template argument is kItems; each item loads an
# element of x and one of y.

@pytest.mark.archs(75, 80, 86, 89, 90, 100, 103, 110, 120, 121)
def test_loads_before_fma(kernels):
    """In a full tile all loads come before the first multiply, in one basic
    block, without a predicate."""
    for name, load in (("scaleAdd", LOAD), ("scaleAddBounded", LOAD),
                       ("scaleAddVec", LOAD16), ("scaleAddStream", LOAD16),
                       ("scaleAddDependent", LOAD16)):
        for kernel in kernels[name]:
            items = kernel.arguments[0]
            assert kernel.run(load, until="FFMA", block=True) == 2 * items
            assert kernel.count("FFMA") >= items


def test_bound_changes_nothing(kernels, kernel):
    [ilp8] = [k for k in kernels["scaleAdd"] if k.arguments == (8,)]
    assert kernel("scaleAddBounded").count(".") == ilp8.count(".")


def only_13_0():
    """What follows was read in the machine code of this compiler."""
    said = subprocess.run([NVCC, "--version"], text=True, check=True,
                          stdout=subprocess.PIPE).stdout
    if "release 13.0" not in said:
        pytest.skip("another compiler than that of CUDA 13.0")


@pytest.mark.archs(75, 80, 86, 89, 90, 103, 121)
def test_guarded_loads_are_apart(kernel):
    assert kernel("scaleAddGuarded").run(LOAD, until="FFMA") < 2 * 8


@pytest.mark.archs(100, 110, 120)
def test_guarded_loads_are_together(kernel):
    only_13_0()
    assert kernel("scaleAddGuarded").run(LOAD, until="FFMA") == 2 * 8


def test_width_of_loads(kernels, kernel):
    for name in ("scaleAddVec", *STREAMS):
        for one in kernels[name]:
            assert one.count(LOAD16) == 2 * one.arguments[0]
    assert kernel("copy16").count(LOAD16) == kernel("copy16").count(LOAD) == 1
    assert kernel("copy16").count(r"STG\S*\.128") == 1
    assert all(one.count(LOAD16) == 0
               for name in FLOATS for one in kernels[name])


def test_streaming_hints(kernels, kernel):
    """Evict first: every float4 of the streaming kernels and of the copy."""
    for one in (kernel("copy16"), *kernels["scaleAddStream"],
                kernel("scaleAddDependent")):
        items = (one.arguments or (1,))[0]
        loads = items if one.name == "copy16" else 2 * items
        assert one.count(r"LDG\S*\.EF\S*\.128") == loads
        assert one.count(r"STG\S*\.EF\S*\.128") == items
    assert all(one.count(r"(LDG|STG)\S*\.EF") == 0
               for name in ("scaleAddVec", *FLOATS) for one in kernels[name])


@pytest.mark.archs(90, 100)
def test_dependent_launch_waits_first(kernels, kernel):
    one = kernel("scaleAddDependent")
    assert one.count("ACQBULK") == 1
    assert one.before("LDG|LD |STG|ST |ATOM|RED", "ACQBULK") == 0
    assert all(other.count("ACQBULK") == 0
               for other in kernels["scaleAddStream"])


@pytest.mark.archs(80, 90, 100)
def test_async_ring(kernel):
    """8 stages before the first wait; in the loop one more per round, after
    the stage that it replaces was read; no registers, no barrier."""
    one = kernel("scaleAddAsync")
    assert one.count("LDGSTS") == one.count(r"LDGSTS\S*\.128")
    assert one.count(r"BAR|LDG\.\S*\.128") == 0
    waits = one.find(r"DEPBAR\.LE")
    assert waits and all(wait.text.endswith("0x7") for wait in waits)
    start = one.upto(r"DEPBAR\.LE")
    assert start.count("LDGDEPBAR") == 8 and start.count("LDGSTS") in (16, 18)
    for loop in one.loops:
        rounds = loop.count(r"DEPBAR\.LE")
        assert loop.count("LDGDEPBAR") == rounds
        assert loop.count("LDGSTS") == loop.count(r"LDS\.128") == 2 * rounds
        order = [i.text[:6] for i in loop.find(r"DEPBAR\.LE|LDS\.128|LDGSTS")]
        assert order[:5] == ["DEPBAR", *2 * ["LDS.12"], *2 * ["LDGSTS"]]


def test_async_needs_8_0(kernels):
    [one] = kernels["scaleAddAsync"]
    assert (one.count("LDGSTS") > 0) == (one.arch >= 80)


def test_no_local_memory(every_kernel):
    for kernel in every_kernel:
        assert kernel.count("LDL|STL") == 0


# ---- what the program printed

def expected(label):
    """(kernel, items, floats per load, blocks per SM or None) of a row."""
    family, items, suffix, blocks = re.fullmatch(
        r"(tlp|ilp|vec)(\d)(|-control|-lb|-guarded|-cs|-cs-dl)(?:-b(\d))?",
        {"suggested": "tlp1", "yours": "tlp1"}.get(label, label)).groups()
    kernel = "scaleAdd" + {
        "-lb": "Bounded", "-guarded": "Guarded", "-cs": "Stream",
        "-cs-dl": "Dependent"}.get(suffix, "Vec" * (family == "vec"))
    if kernel == "scaleAddVec" and int(items) > 2:
        kernel = "scaleAddStream"
    return (kernel, int(items), 4 if family == "vec" else 1,
            int(blocks) if blocks else None)


ROWS = """tlp1 tlp1-control tlp1-b3 tlp1-b2 tlp1-b1 ilp2 ilp4 ilp8 ilp4-b1
    ilp8-b1 ilp8-lb ilp8-guarded ilp8-guarded-b1 vec1 vec1-b2 vec2-b1 vec2
    suggested vec1-cs vec1-cs-dl vec4-b2 vec8-b2 async-b1""".split()
YARDSTICKS = ["copy (ceiling)", "cudaMemcpyAsync"]


def claim(label):
    return ("scaleAddAsync", 8, 4, 1) if label == "async-b1" \
        else expected(label)


class Figures:
    """The three tables of a run, cells as numbers, and its header."""

    def __init__(self, run):
        self.residency, self.measured, self.curve = (
            table for n in "123" for table in run.tables
            if table.title.startswith(f"Table {n}:"))
        text, self.quick = run.body, run.quick
        self.sms = int(re.search(r"(\d+) SMs", text)[1])
        self.peak = int(re.search(r"peak (\d+) GB/s", text)[1])
        self.n, self.mb = (float(cell) for cell in re.search(
            r"Table 2: (\d+) elements, ([\d.]+) MB", text).groups())
        self.h200 = "NVIDIA H200," in text
        self.text = text

    @staticmethod
    def cells(table):
        return {row["row"]: {
            name: float(cell.strip("<=%! ")) if re.match(
                r"[<=! ]*[\d.]+%?$", cell) else cell
            for name, cell in row.items()} for row in table.rows}

    @property
    def table1(self):
        return self.cells(self.residency)

    @property
    def table2(self):
        return self.cells(self.measured)

    @property
    def table3(self):
        return self.cells(self.curve)


def near(value, want, digits, slack=0.0):
    """What is printed with so many digits; slack: of the numbers it is made
    of, relative."""
    return abs(value - want) <= 0.501 * 10 ** -digits + abs(want) * slack


def test_every_row_is_there(run):
    """In order; the only rows left out are those that this build cannot have,
    or a library that is not there; nothing is WRONG."""
    figures = Figures(run)
    left_out = {"vec1-cs-dl", "async-b1"} if run.arch < 80 else \
        {"vec1-cs-dl"} if run.arch < 90 else set()
    labels = [row["row"] for row in figures.measured.rows]
    for label, note in figures.measured.notes.items():
        assert label in left_out | {"library"} and note.startswith("skipped: ")
        if label in left_out:
            assert f"built for {run.arch // 10}.{run.arch % 10}" in note
    there = [label for label in ROWS if label not in left_out]
    assert [one for one in labels if one not in ("library", "yours")] == \
        YARDSTICKS + there
    assert [one for one in figures.table1 if one != "yours"] == there
    assert "library" in labels or "library" in figures.measured.notes


def test_residency(run):
    """Table 1: what a row is made of follows from its label; the model is the
    resources divided, its least is the driver's answer; the dial is the least
    that does it."""
    table = Figures(run).table1
    tlp1 = table["tlp1"]
    threads_per_sm = tlp1["by warps"] * tlp1["threads"]
    reserved = int(re.search(r"driver adds (\d+)", run.body)[1])

    def step(cell, size=256):
        return math.ceil(cell / size) * size
    for label, row in table.items():
        kernel, items, width, blocks = claim(label)
        assert label == "yours" or \
            (row["items"], row["width"]) == (items, width)
        assert row["threads"] == 256 or label == "suggested"
        assert row["by warps"] == threads_per_sm // row["threads"]
        registers = 16384 // step(row["regs"] * 32)
        assert row["by regs"] == 4 * registers // (row["threads"] / 32)
        held = min(row[f"by {what}"] for what in
                   ("warps", "cap", "shared", "regs")
                   if row[f"by {what}"] != "-")
        assert held == row["driver"] or "! " in run.body
        assert row["local"] == 0
        if reserved:  # the SM's shared memory, from the row without any
            whole = tlp1["by shared"] * step(reserved)
            used = step(row["shared"] + reserved)
            assert row["by shared"] == whole // used
            if blocks and label != "async-b1":
                assert whole // (used - 256) == blocks + 1
        if blocks:
            assert row["driver"] == blocks
    control = table["tlp1-control"]
    assert control["driver"] == tlp1["driver"] and control["shared"] > 0
    asked = re.search(r"ilp8-lb: compiled for (\d)\.(\d), asked for (\d+)",
                      run.body).groups()
    assert int(asked[0] + asked[1]) == run.arch
    assert int(asked[2]) <= table["ilp8-lb"]["driver"]
    assert int(asked[2]) == {75: 4, 80: 8, 90: 8, 100: 8}.get(run.arch, 6)


def test_rates(run):
    """Table 2: GB/s, % copy and % peak follow from ms, n and the peak."""
    figures = Figures(run)
    table, n = figures.table2, figures.n
    assert near(figures.mb, 12 * n / 1e6, 1)
    copy = table["copy (ceiling)"]["GB/s"]
    for label, row in table.items():
        size = 8 * ((3 * n // 2 + 3) // 4 * 4) if label in YARDSTICKS \
            else 12 * n
        rounded = 0.00006 / row["ms"]
        assert near(row["GB/s"], size / row["ms"] / 1e6, 1, rounded)
        assert near(row["% copy"], 100 * row["GB/s"] / copy, 1, 1e-4
                    if not figures.quick else 1e-3)
        assert near(row["% peak"], 100 * row["GB/s"] / figures.peak, 1, 2e-4)
        assert 0 <= row["spread"] <= (100 if figures.quick else 5)
        assert row["GB/s"] < 1.02 * figures.peak


def test_occupancy(run):
    """Table 2: blocks are the driver's; warps, occupancy and bytes in flight
    follow from Table 1; <= only where it must be."""
    figures = Figures(run)
    table1 = figures.table1
    full = table1["tlp1"]["by warps"] * table1["tlp1"]["threads"] / 32
    for row in figures.measured.rows:
        label = row["row"]
        if label in YARDSTICKS + ["library"]:
            assert {row[c] for c in ("blocks", "warps", "occ %",
                                     "in flight")} == {"-"}
            continue
        made = table1[label]
        blocks, warps = int(row["blocks"]), int(row["warps"])
        assert blocks == made["driver"]
        assert warps == blocks * made["threads"] / 32
        assert near(float(row["occ %"]), 100 * warps / full, 1)
        loads = 2 * made["items"] * made["width"] * 4
        in_flight = warps * 32 * loads
        assert int(row["in flight"].lstrip("<=")) == in_flight
        small = in_flight * figures.sms / 8 > figures.n
        registers = made["regs"] <= made["items"] * (2 * made["width"] + 1) \
            and label != "async-b1"
        guarded = "guarded" in label or label == "yours"
        assert row["in flight"].startswith("<=") == \
            (guarded or small or registers), label


def test_curve(run):
    """Table 3: Table 2 in order of bytes in flight, then of occupancy; ns is
    Little's law; / best, pair and bar are ratios."""
    figures = Figures(run)
    table2 = figures.table2
    rows = [row for row in figures.curve.rows if row["row"] != "Little's law"]
    timed = [label for label in table2
             if label not in YARDSTICKS + ["library"]]
    assert sorted(row["row"] for row in rows) == sorted(timed)
    best = max(table2[label]["GB/s"] for label in timed)
    keys = []
    first = None
    for row in rows:
        label, of = row["row"], table2[row["row"]]
        assert [row[c] for c in ("in flight",)] == [
            one["in flight"] for one in figures.measured.rows
            if one["row"] == label]
        in_flight = float(row["in flight"].lstrip("<="))
        at_most = row["in flight"].startswith("<=")
        assert float(row["occ %"]) == of["occ %"]
        assert float(row["GB/s"]) == of["GB/s"]
        keys.append((in_flight, -of["occ %"], timed.index(label)))
        slack = 0.06 / of["GB/s"]
        want = in_flight * figures.sms / (of["GB/s"] * 2 / 3)
        assert near(float(row["ns"]), want, 1, slack)
        assert near(float(row["/ best"]), of["GB/s"] / best, 3, 2 * slack)
        assert set(row["bar"]) == {"-" if at_most else "#"}
        assert abs(len(row["bar"]) - 1 - 24 * of["GB/s"] / best) <= 1
        if first is None or first[0] != in_flight or first[2]:
            first = (in_flight, of["GB/s"], at_most)
        if at_most:
            assert row["pair"] == "-"
        else:
            assert near(float(row["pair"]), first[1] / of["GB/s"], 2,
                        2 * slack)
    assert keys == sorted(keys)


def test_littles_law(run):
    """The line of Little's law: latency x 2/3 of the peak / SMs, between rows
    of fewer and of more bytes; no row has more in flight than it says."""
    figures = Figures(run)
    latency = float(re.search(r"alone takes ([\d.]+) ns", run.body)[1])
    rate = figures.peak * 2 / 3
    need = latency * rate / figures.sms
    assert near(int(re.search(r"(\d+) GB/s of\s+loads", run.body)[1]), rate, 0,
                2e-4)
    assert near(int(re.search(r"at least (\d+) bytes on each of "
                              rf"{figures.sms} SMs", run.body)[1]), need, 0,
                3e-4)
    lines = figures.curve.rows
    [at] = [k for k, row in enumerate(lines) if row["row"] == "Little's law"]
    assert near(float(lines[at]["in flight"]), need, 0, 3e-4)
    assert float(lines[at]["ns"]) == latency
    in_flight = [float(row["in flight"].lstrip("<=")) for row in lines]
    assert all(one < need * 1.001 for one in in_flight[:at])
    assert all(one > need * 0.999 for one in in_flight[at + 1:])
    assert 200 < latency < 1500
    for row in lines[:at] + lines[at + 1:]:
        assert figures.quick or "<=" in row["in flight"] or \
            float(row["ns"]) >= 0.9 * latency  # the gate knows its spread


def test_answer(run):
    """The sentences below Table 3, from Table 2."""
    figures = Figures(run)
    rows = {label: row for label, row in figures.table2.items()
            if label not in YARDSTICKS + ["library"]}
    said = re.search(
        r"Fastest of these rows: (\S+), ([\d.]+) GB/s, at ([\d.]+) % occ.*\n"
        r"(?:Without overlapping launches: (\S+), ([\d.]+) GB/s\.\n)?"
        r"Least occupancy within 10 % of that: (\S+), ([\d.]+) %, ([\d.]+) of"
        r".*\n.* rows has (\S+) of the GB/s of library\.",
        run.body).groups()
    best = max(rows, key=lambda label: rows[label]["GB/s"])
    apart = max((label for label in rows if not label.endswith("-dl")),
                key=lambda label: rows[label]["GB/s"])
    fast = [row["row"] for row in figures.curve.rows if row["row"] in rows and
            rows[row["row"]]["GB/s"] >= 0.9 * rows[apart]["GB/s"]]
    least = min(fast, key=lambda label: rows[label]["occ %"])
    assert said[0] == best and float(said[1]) == rows[best]["GB/s"]
    assert float(said[2]) == rows[best]["occ %"]
    if apart == best:
        assert said[3] is None
    else:
        assert said[3] == apart and float(said[4]) == rows[apart]["GB/s"]
    assert said[5] == least and float(said[6]) == rows[least]["occ %"]
    assert near(float(said[7]),
                rows[least]["GB/s"] / rows[apart]["GB/s"], 3, 1e-4)
    library = figures.table2.get("library")
    assert said[8] == "n/a" if library is None else near(
        float(said[8]), rows[best]["GB/s"] / library["GB/s"], 3, 1e-4)
    # Equal bytes in flight: of the rows with fewer warps, the slowest.
    groups = {}
    for row in figures.curve.rows:
        if row["row"] in rows and "<=" not in row["in flight"]:
            groups.setdefault(row["in flight"], []).append(row["row"])
    want = {}
    for in_flight, labels in groups.items():
        most = max(rows[label]["occ %"] for label in labels)
        fewer = [one for one in labels if rows[one]["occ %"] < most]
        if fewer:
            want[in_flight] = max(fewer, key=lambda one: rows[one]["ms"]), \
                labels[0]
    found = re.findall(r"^(\d+) bytes: (\S+) at ([\d.]+) % occupancy takes "
                       r"([\d.]+) times as long\n  as (\S+) at ([\d.]+) %\.$",
                       run.body, re.M)
    assert {one[0] for one in found} == set(want)
    for in_flight, slow, occupied, times, first, most in found:
        last = want[in_flight][0]
        assert rows[slow]["ms"] == rows[last]["ms"]
        assert first == want[in_flight][1]
        assert float(occupied) == rows[slow]["occ %"]
        assert float(most) == rows[first]["occ %"]
        assert near(float(times), rows[slow]["ms"] / rows[first]["ms"], 2,
                    0.0001 / rows[first]["ms"])


def test_lengths(run):
    """A full run on a large card tried a length beyond 32 bits."""
    figures = Figures(run)
    tried = re.search(r"^Checked: lengths from 0 to a few tiles(.*)\.$",
                      run.body, re.M)[1]
    assert tried == ", and 2^32 + 611" or figures.quick or not figures.h200


def test_targets(run):
    """What an H200 must reach."""
    figures = Figures(run)
    if figures.quick or not figures.h200:
        return
    gbs = {label: row["GB/s"] for label, row in figures.table2.items()}
    own = {label: gbs[label] for label in ROWS if label in gbs}
    best = max(own.values())
    apart = max(rate for label, rate in own.items() if label != "vec1-cs-dl")
    assert best >= 0.85 * figures.peak
    assert best >= 0.96 * gbs["cudaMemcpyAsync"]
    assert gbs["ilp8-b1"] >= 1.25 * gbs["ilp8-guarded-b1"]
    assert abs(gbs["tlp1-control"] / gbs["tlp1"] - 1) < 0.05
    assert 0.80 <= gbs["tlp1"] / gbs["vec2-b1"] <= 1.25
    assert gbs["ilp4-b1"] > gbs["tlp1-b3"]
    for label in ("vec4-b2", "vec8-b2"):
        assert gbs[label] >= 0.91 * gbs["vec1-cs"]
    if run.arch >= 90:
        assert gbs["async-b1"] >= 0.94 * apart
        assert gbs["vec1-cs-dl"] >= 1.01 * gbs["vec1-cs"]
        newest = "cccl" in run.header
        library = gbs.get("library", 0)  # a build without CUB has none
        assert best >= (0.99 if newest else 1.00) * library


# ---- the profile of each row's checked launch, and that of timed ones

ACHIEVED = "sm__warps_active.avg.pct_of_peak_sustained_active"
POSSIBLE = "sm__maximum_warps_per_active_cycle_pct"
SECTORS = "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld"


def launches(profile):
    """[(label, row of Table 2, launch)], in order."""
    figures = Figures(profile.run)
    labels = [label for label in figures.table2 if label != "cudaMemcpyAsync"]
    assert len(labels) == len(profile.launches)
    return [(label, figures.table2[label], launch)
            for label, launch in zip(labels, profile.launches)]


def test_launches_are_the_rows(profile):
    """Kernel, items, grid, block, shared memory, registers and limits as the
    label and Table 1 say; as many warps may be resident as the driver said."""
    figures = Figures(profile.run)
    for label, row, launch in launches(profile):
        if label == "library":
            assert launch.kernel == "transform_kernel"
            continue
        if label == "copy (ceiling)":
            assert (launch.kernel, launch.block) == ("copy16", 256)
            vectors = (3 * figures.n // 2 + 3) // 4
            assert launch.grid == math.ceil(vectors / 256)
            continue
        made = figures.table1[label]
        kernel, items, width, blocks = claim(label)
        assert launch.kernel == ("yours" if label == "yours" else kernel)
        assert launch.arguments == (made["items"],)
        assert launch.block == made["threads"]
        assert launch.shared == made["shared"]
        per_block = made["threads"] * made["items"] * made["width"]
        assert launch.grid == (figures.sms if label == "async-b1" else
                               math.ceil(figures.n / per_block))
        assert near(launch.metrics[POSSIBLE], row["occ %"], 1)
        held = {name: launch.metrics[f"launch__{name}"] for name in
                ("registers_per_thread", "occupancy_limit_blocks",
                 "occupancy_limit_warps")}  # no launch has fewer than 16
        assert list(held.values()) == [max(16, made["regs"]),
                                       made["by cap"], made["by warps"]]


def test_achieved_occupancy(profile):
    """Of a -bN row never above the driver's figure, at least 70 % of it (of
    one block 80 %), and more than one block fewer could reach. It does not
    reach the figure: a place is empty while a block's last warps end and the
    next one starts."""
    for label, row, launch in launches(profile):
        if not re.search(r"-b\d$", label):
            continue
        achieved, said = launch.metrics[ACHIEVED], row["occ %"]
        least = 0.8 if row["blocks"] == 1 else max(
            0.7, 1 - 1 / row["blocks"])
        assert least * said < achieved <= said + 0.1


def test_sectors(profile):
    """A warp's load of floats is 4 sectors, of float4 16; of the guarded rows
    and of those with a slow path nearly so."""
    for label, _, launch in launches(profile):
        if label in ("library", "async-b1", "yours"):
            continue
        width = 4 if label == "copy (ceiling)" else claim(label)[2]
        assert abs(launch.metrics[SECTORS + ".ratio"] / (4 * width) - 1) < 0.01


def test_dram_reads(profile):
    """8 bytes per element, of the copy 6: no row is fast because it reads
    less."""
    n = Figures(profile.run).n
    for label, _, launch in launches(profile):
        want = (6 if label == "copy (ceiling)" else 8) * n
        assert abs(launch.metrics["dram__bytes_read.sum"] / want - 1) < 0.01


def test_times(profile):
    """The printed time is within 15 % of the profiler's. Dependent launches
    overlap, and a profiler runs them one by one."""
    for label, row, launch in launches(profile):
        if label == "vec1-cs-dl" or row["ms"] < 0.020:
            continue
        seconds = launch.metrics["gpu__time_duration.sum"] / 1e6
        assert abs(row["ms"] / seconds - 1) < 0.15


def test_dram_traffic(timed):
    """Timed launches, caches left alone: reads and writes are the bytes that
    the GB/s column counts, within 2 %. So nothing comes from L2."""
    figures = Figures(timed.run)
    sizes = {}
    for launch in timed.launches:
        if launch.kernel.startswith("fill"):
            continue
        key = (launch.kernel, launch.arguments, launch.shared, launch.block)
        size = sum(launch.metrics[f"dram__bytes_{what}.sum"]
                   for what in ("read", "write"))
        sizes.setdefault(key, []).append(size)
    assert len(sizes) >= len(figures.table2) - 4
    for (kernel, *_), found in sizes.items():
        want = 12 * figures.n
        found = sorted(found)[len(found) // 2]
        assert abs(found / want - 1) < 0.02, kernel
