"""Day 25: machine code, profile and printed figures."""
import math
import re
from collections import namedtuple
from itertools import product
from statistics import median

import pytest

from conftest import nvcc_version
from evidence import close
from figures import (COPY, READ, SECTORS, WRITE, as_profiled, cells, compared,
                     launched, moved, near, rates, real, rows_with, said)

# No row: fillInput reduceYours
SCALAR = ["reduceSequentialTwoLoads", "reduceCascaded", "reduceShuffleTail",
          "reduceUnrolled"]
VECTOR = ["reduceVectorized", "reduceVectorizedAtomic", "reduceLastBlock",
          "reduceInFlight"]
LOAD16, BARRIER, TICKET = r"LDG\S*\.128", r"BAR\.SYNC", r"ATOMG?\."
# label: kernel, what it leaves
ROWS = {
    COPY: ("copyFloats", "n floats"),
    "v4 two loads": (SCALAR[0], "partials"),
    "v4c cascaded": (SCALAR[1], "partials"),
    "v5 shuffle tail": (SCALAR[2], "partials"),
    "v6 template": (SCALAR[3], "partials"),
    "v7 float4": (VECTOR[0], "partials"),
    "v8 two launches": (VECTOR[0], "one float"),
    "v8a atomic finish": (VECTOR[1], "one float"),
    "v9 last block": (VECTOR[2], "one float"),
    "v9a loads first": (VECTOR[3], "one float"),
    "v9b streaming loads": (VECTOR[3], "one float"),
    "v10 loads in flight": (VECTOR[3], "one float"),
    "v11 dependent launch": (VECTOR[3], "one float"),
    "library": (None, "one float"),
}
LABELS = list(ROWS)
ABOVE = dict(zip(LABELS[2:], LABELS[1:]))  # what `x above` compares with
V11, GROWS = "v11 dependent launch", ["v8", "v9", "v10", "v11", "library"]
CLOCKS = ["by the host", "from a graph"]


def test_shuffles_from_v5(kernels):
    for one in sum((kernels[name] for name in SCALAR + VECTOR), []):
        shuffles = one.count("SHFL")
        assert shuffles == 0 if one.name in SCALAR[:2] else shuffles >= 5


def test_tree_loop_until_v5(kernel):
    for one in map(kernel, SCALAR + VECTOR[:3]):
        loop = one.name in SCALAR[:3]
        assert one.loops_around(BARRIER) == loop
        assert one.before(BARRIER, "LDS") == 1
        assert not loop or one.count(BARRIER) == 2


def test_loads_16_bytes_from_v7(kernels):
    for name in ["copyFloats", *SCALAR, *VECTOR]:
        assert all((one.count(LOAD16) >= 1) == (name not in SCALAR)
                   for one in kernels[name])


@pytest.mark.archs(75, 80, 90, 100, 120)
def test_loads_in_flight(kernels):
    for one in kernels["reduceInFlight"]:
        _, loads, streaming, _ = one.arguments
        assert one.run(LOAD16, until="FADD", block=True) == loads
        assert one.run(r"LDG\S*\.EF\S*\.128", until="FADD",
                       block=True) == loads * streaming


def test_last_tile_in_flight(kernels):
    for one in kernels["reduceInFlight"]:
        guarded = [i.address for i in one.find(LOAD16) if i.predicate]
        assert len(guarded) == one.arguments[1]
        assert one.part(guarded[0], guarded[-1]).count("FADD") == 0


def test_v9_ordered_ticket(kernels):
    """A fence before the ticket (release), L1 emptied behind it (acquire);
    v8a's addition has neither, and brings nothing back."""
    fence, empty = r"MEMBAR\S*\.GPU", r"CCTL\.IVALL"
    for one in kernels["reduceLastBlock"] + kernels["reduceInFlight"]:
        assert one.counts(fence, TICKET, empty) == [1, 1, 1]
        assert one.before(fence, TICKET) == one.after(TICKET).count(empty) == 1
        assert one.before("STG", "MEMBAR") >= 1
    [atomic] = kernels["reduceVectorizedAtomic"]
    assert atomic.counts("MEMBAR|CCTL|ATOM", r"REDG?\.") == [0, 1]


def test_partials_in_flight(kernels):
    for one in kernels["reduceLastBlock"] + kernels["reduceInFlight"]:
        assert one.run(r"LDG\S*\.STRONG\.GPU", until="FADD") == (
            one.arguments[0] // 32 if one.name == "reduceInFlight" else 16)


def test_two_stages_one_barrier(kernels):
    for one in kernels["reduceInFlight"]:
        assert one.count(BARRIER) == 1 and one.loops_around(BARRIER) == 0
        assert one.upto(BARRIER).counts(
            r"SHFL\.DOWN", "STS", "LDS") == [5, 1, 0]


@pytest.mark.archs(75, 90, 100, 120)
def test_v11_waits_first(every_kernel):
    """Nothing decides whether it waits."""
    for one in every_kernel:
        wait, v11 = one.find("ACQBULK"), one.arguments[3:] == (1,)
        assert len(wait) == (v11 and one.arch >= 90)
        assert not wait or wait[0].predicate == "" and one.before(
            "LDG|STG|ATOM|REDG?[.]|LD[.]|ST[.]|BRA|EXIT|CALL|BAR",
            "ACQBULK") == 0


def test_v11_as_v10(kernels):
    by = {one.arguments: one.counts("LDG", "STG", "FADD", "SHFL", "ATOM",
                                    "BAR", "MEMBAR")
          for one in kernels["reduceInFlight"]}
    assert sum(waits for *_, waits in by) == 3
    assert all(by[one] == by[(*one[:3], 0)] for one in by)


def test_no_local_memory(every_kernel):
    assert not any(kernel.count("LDL") for kernel in every_kernel)
    assert {kernel.name for kernel in every_kernel if kernel.count("STL")} == (
        set() if nvcc_version() >= (13,) else
        {"reduceLastBlock", "reduceInFlight"})


# ---- what the program printed

Facts = namedtuple("Facts", "sms l2 peak threads blocks wide wave n copies")


def facts(run):
    return Facts(*said(
        run, r"(\d+) SMs, L2 ([\d.]+) MB\n.*peak (\d+) GB/s(?:.*\n)*?"
        r"v4 to v9b: (\d+) threads per block; v4c to v9b: (\d+) blocks\n"
        r"v10, v11: (\d+) threads per block, at most (\d+) blocks\n\n"
        r"The ladder: (\d+) floats, (\d+) copies in turn\nrow "))


def growths(run):
    """{clock: (rows by their exponent, lines below them)}."""
    found, logs = {}, range(10, 18 if run.quick else 29)
    for clock in CLOCKS:
        title = f"Growth, launched {clock}: us per sum"
        [table] = [one for one in run.tables if one.title == title]
        assert table.columns == ["n", "inputs", *GROWS, "spread",
                                 "library/v10", "library/v11", "v10 % peak"]
        rows = cells(table, "n")
        assert list(rows) == [f"2^{log}" for log in logs]
        found[clock] = dict(zip(logs, rows.values())), run.body.split(
            title)[1].split("\n\n")[1]
    return found


def test_rows_as_listed(run):
    """v11 is missing only from code for compute capability 7.5."""
    [table] = [one for one in run.tables if "GB/s" in one.columns]
    assert table.columns == ["row", "ms", "spread", "GB/s", "% copy",
                             "% peak", "x above", "results", "leaves"]
    lines = run.body.split("\nrow ")[1].split("\n\n")[0]
    assert re.findall(r"^(\S.*?)  ", lines, re.M) == LABELS
    assert table.notes.items() <= {
        "library": "skipped: built with LESSON_NO_CUB",
        V11: "skipped: this is code for 7.5; -arch=sm_90 needed"}.items()
    assert run.arch is None or (V11 in table.notes) == (run.arch < 90)
    assert all(row["leaves"] == ROWS[label][1]
               for label, row in rows_with(run).items())


def test_ladder_columns(run):
    rows, n = rows_with(run), facts(run).n
    rates(run, rows, lambda label: 4 * n * (1 + (label == COPY)))
    compared(rows, "x above", ABOVE, "n/a")


def test_copies(run):
    """Four times the L2 lies between two reads of a copy."""
    of = facts(run)
    assert of.copies in [2 + int(1e6 * (of.l2 + lost) / of.n)
                         for lost in (-0.05, 0.05)]


def test_copy_is_a_ceiling(run):
    share, ms = said(run, r"The copy row reaches ([\d.]+) of cudaMemcpyAsync, "
                     r"([\d.]+) ms\.")
    rate = rows_with(run)[COPY]["GB/s"]
    assert near(share, rate * ms * 1e6 / (8 * facts(run).n), rate, ms)
    assert run.quick or 0.8 < share < 1.25


def test_same_bits(run):
    """A quick run of v8a need not leave several."""
    for label, row in rows_with(run).items():
        if row["leaves"] != "one float":
            assert row["results"] == "-"
        elif label == "v8a atomic finish":
            assert (1 if run.quick else 2) <= row["results"] <= 20
        else:
            assert row["results"] == 1 or label == "library"


def passing(size, told, graph, l2):
    """Where inputs of so many bytes come from: by what passes between two
    reads of one copy, of which there are up to `told`."""
    copies = min(2 + int(4e6 * l2 / size), 65535 if graph else told)
    if graph:
        copies = min(copies, max(8, min(2 ** 32 // size, told)))
    fills = copies * size / (l2 * 1e6)
    return "L2" if fills < 1 else "memory" if fills > 4 else "mixed"


def test_growth_columns(run):
    of = facts(run)
    for clock, (rows, note) in growths(run).items():
        told = int(re.match(
            r"inputs: up to (\d+) copies in turn\. L2: they fit in it; memory:"
            r" they fill it more\nthan 4 times; mixed: neither\.", note)[1])
        for log, row in rows.items():
            size, v10, library = 4 * 2 ** log, row["v10"], row["library"]
            for name in ("v10", "v11"):
                ratio, mine = row[f"library/{name}"], row[name]
                assert ratio == "n/a" if "n/a" in (mine, library) else near(
                    ratio, library / mine, library, mine), (clock, row)
            assert near(row["v10 % peak"], size / v10 / 10 / of.peak, v10,
                        of.peak), (clock, row)
            assert row["inputs"] in [
                passing(size, told, clock == CLOCKS[1], of.l2 + lost)
                for lost in (-0.05, 0.05)], (clock, row)
        # Batches, of however many sums, are never all the same.
        assert median(row["spread"] for row in rows.values()) > 0, clock


def test_growth_verdicts(run):
    """The knee, and the least and the greatest ratio with their n."""
    for clock, (rows, note) in growths(run).items():
        calm = [max(log for log in rows if log == 10 or
                    rows[log]["v10"] < least * rows[log - 1]["v10"])
                for least in (1.449, 1.451)]  # what printing lost
        knee = re.findall(r"^Beyond 2\^(\d+), twice the floats always take "
                          r"v10 at least 1\.45 times as long\.$", note, re.M)
        assert knee in [[str(log)] * (log + 1 in rows) for log in calm]
        for version, also in (
                ("v10", ""), ("v11", ", which overlaps the launch before it")):
            ratios = {str(log): row[f"library/{version}"] for log, row in
                      rows.items() if row[f"library/{version}"] != "n/a"}
            told = re.findall(
                rf"^Launched {clock}, back to back, the library takes ([\d.]+)"
                rf" \(2\^(\d+)\) to ([\d.]+) \(2\^(\d+)\)\ntimes as long as "
                rf"{version}{also}\.$", note, re.M)
            assert len(told) == bool(ratios)
            for least, at, most, top in told:
                assert float(least) == min(ratios.values()) == ratios[at]
                assert float(most) == max(ratios.values()) == ratios[top]


def test_clocks_agree(run):
    """A launch from a graph takes no longer than one by the host; for long
    kernels both clocks, and the ladder, tell the same. Other programs disturb
    some times of a quick run."""
    host, graph = (rows for rows, _ in growths(run).values())
    ms = {label.split()[0]: row["ms"] for label, row in rows_with(run).items()}
    typical = median if run.quick else max
    assert typical(graph[log]["v10"] / host[log]["v10"]
                   for log in range(10, 15)) < 0.85  # the host's part
    for log, name in product(host, GROWS):
        a, b = host[log][name], graph[log][name]
        if "n/a" in (a, b):
            assert a == b
        elif not run.quick:
            assert b < 1.2 * a, (log, name)
            assert log < 26 or close(a, b, 10), (log, name)
            assert 2 ** log != facts(run).n or close(1e3 * ms[name], a, 5)


def test_growth_goals(run):
    real(run)
    goals = {"from a graph": {10: 0.97, 13: 1.0}, "by the host": {
        10: 0.97, 13: 1.0, 20: 1.4, 21: 1.0, 24: 1.08, 25: 1.0, 26: 1.03,
        27: 1.0}}
    for clock, (rows, _) in growths(run).items():
        for log, row in rows.items():
            goal = goals[clock][max(k for k in goals[clock] if k <= log)]
            if log < 20 and clock == "by the host":  # whose share varies
                goal -= row["spread"] / 100
            assert row["library/v10"] >= goal, (clock, row)
            assert row["library/v11"] == "n/a" or \
                row["library/v11"] >= (1.03 if log <= 22 else 1.0), row
    rows, _ = growths(run)["by the host"]
    assert rows[26]["v10 % peak"] >= 88 and rows[28]["v10 % peak"] >= 93


def test_ladder_orders(run):
    real(run)
    gain = {label.split()[0]: row["x above"]
            for label, row in rows_with(run).items()}
    assert gain["v4c"] > 2 and gain["v7"] > 1.02
    assert abs(gain["v5"] - 1) <= 0.01 and abs(gain["v6"] - 1) <= 0.01
    assert gain["v9b"] > 1 and gain["v10"] > 1


def test_waves(run):
    of, v9, v9a = said(run, r"Of (\d+) blocks the card holds (\d+) of v9 at "
                       r"once, (\d+) of v9a\.")
    assert of == facts(run).blocks
    assert all(held == of or held % facts(run).sms == 0 for held in (v9, v9a))
    assert v9a < v9 == of or "NVIDIA H200," not in run.body


def test_awkward_lines(run):
    """As many lengths as around every edge; all runs right; above 2^32 all
    rows, or why not."""
    of, rows = facts(run), len(rows_with(run))
    lengths, longest, runs, right, huge, wave = said(
        run, r"Awkward inputs, not timed: (\d+) lengths from 0 to (\d+), bases"
        r" 0 to 3 floats past\na boundary: (\d+) of (\d+) runs right\.\n"
        r"n = 2\^32 \+ 2\^20 \+ 5(.*)\n"
        r"v10's (\d+) blocks are one wave: none has to wait\.")
    edges = (of.threads, 2 * of.threads, 4096, 4096 * of.sms, 16 * of.wide,
             16 * of.wide * of.sms, 32 * of.wide, 32 * of.wide * of.wave)
    tried = {*range(6), 31, 32, 33, 1023, 1025, 2 ** 20 - 1,
             *range(2 ** 20 + 1, 2 ** 20 + 4),
             *(edge + more for edge in edges for more in (-1, 0, 1))}
    assert (lengths, longest) == (len(tried), max(tried))
    assert runs == right == 5 * lengths * rows
    assert run.quick or huge == f": {rows} of {rows} rows right."
    assert wave == of.wave


# ---- profiles

REQUESTS = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"


def shape(of):
    """(threads, loads, streaming), blocks that v10 takes."""
    wide = of.wide
    tiles = {(threads, loads): max(1, math.ceil(of.n / (4 * threads * loads)))
             for threads, loads in ((256, 4), (wide, 4), (wide, 8))}
    if tiles[wide, 8] == 1 < tiles[256, 4]:
        return (wide, 4, 0), 1
    for few in ((256, 4), (wide, 4)):
        if tiles[few] <= of.sms:
            return (*few, 0), tiles[few]
    return (wide, 8, 1), min(tiles[wide, 8], of.wave)


def claims(run):
    """[(label, a launch that it claims)], without the library's."""
    of = facts(run)
    took, wave = shape(of)
    last = {"block": took[0], "grid": wave}
    own = {COPY: {"grid": of.n // 4 // of.threads},
           "v4 two loads": {"grid": of.n // 2 // of.threads},
           "v9a loads first": {"arguments": (of.threads, 8, 0, 0)},
           "v9b streaming loads": {"arguments": (of.threads, 8, 1, 0)},
           "v10 loads in flight": {"arguments": (*took, 0), **last},
           V11: {"arguments": (*took, 1), **last}}
    found = [(label, {"kernel": ROWS[label][0], "block": of.threads,
                      "grid": of.blocks, **own.get(label, {})})
             for label in rows_with(run) if label != "library"]
    found.insert(7, ("v8 two launches", {  # the second of them
        "kernel": SCALAR[3], "block": of.threads, "grid": 1}))
    return found


def by_row(profile):
    """{label: its launches}; the library's come last."""
    own, rows = claims(profile.run), rows_with(profile.run)
    ours = [one for one in profile.launches if one.kernel != "fillInput"]
    ours, others = ours[:len(own)], ours[len(own):]
    found = {"library": others} if "library" in rows else {}
    assert len(others) in ((1, 2) if found else (0,))
    assert all(one.kernel.startswith("Device") for one in others)
    for label, one in launched(ours, own):
        found.setdefault(label, []).append(one)
    return found


def test_launches_as_rows(profile):
    assert by_row(profile)


def test_dram_as_counted(profile):
    size = 4 * facts(profile.run).n
    for label, launches in by_row(profile).items():
        read, written = (sum(one.metrics[what] for one in launches) / size
                         for what in (READ, WRITE))
        assert close(read, 1, 1), (label, read)
        # Of the copy's, some is still in L2 at the end.
        least, most = (0.8, 1.02) if label == COPY else (-1, 0.02)
        assert least < written < most, (label, written)


def test_time_as_profiled(profile):
    """v11 overlaps its neighbours, which a profiler keeps apart."""
    for label, launches in by_row(profile).items():
        if label != V11:
            as_profiled(rows_with(profile.run)[label], *launches)


def test_v7_quarter_of_loads(profile):
    [v6], [v7] = (by_row(profile)[label]
                  for label in ("v6 template", "v7 float4"))
    assert close(v7.metrics[REQUESTS], v6.metrics[REQUESTS] / 4, 1)


def test_sectors_per_load(profile):
    """A little less on average where the last block reads the partials."""
    for label, (first, *_) in by_row(profile).items():
        assert label == "library" or close(
            first.metrics[SECTORS], 4 if first.kernel in SCALAR else 16, 1)


def test_timed_dram(timed):
    """Not the second launch of v8."""
    size = 4 * facts(timed.run).n
    for label, claim in claims(timed.run):
        if claim["grid"] > 1:
            moved(timed, claim, size, size * (label == COPY))
