"""Day 25: machine code, profile and printed figures."""
import math
import re

import pytest

from evidence import close
from figures import (COPY, READ, SECTORS, WRITE, as_profiled, cells, launched,
                     moved, near, rates, real, said, table_with, times)

# No row: fillInput reduceYours
SCALAR = ["reduceSequentialTwoLoads", "reduceCascaded", "reduceShuffleTail",
          "reduceUnrolled"]
SHUFFLING = [*SCALAR[2:], "reduceVectorized", "reduceVectorizedAtomic",
             "reduceLastBlock", "reduceInFlight"]
LOAD16, BARRIER, TICKET = r"LDG\S*\.128", r"BAR\.SYNC", r"ATOMG?\."
# label: kernel, what it leaves
ROWS = {
    COPY: ("copyFloats", "n floats"),
    "v4 two loads": (SCALAR[0], "partials"),
    "v4c cascaded": (SCALAR[1], "partials"),
    "v5 shuffle tail": (SCALAR[2], "partials"),
    "v6 template": (SCALAR[3], "partials"),
    "v7 float4": ("reduceVectorized", "partials"),
    "v8 two launches": ("reduceVectorized", "one float"),
    "v8a atomic finish": ("reduceVectorizedAtomic", "one float"),
    "v9 last block": ("reduceLastBlock", "one float"),
    "v9a loads first": ("reduceInFlight", "one float"),
    "v9b streaming loads": ("reduceInFlight", "one float"),
    "v10 loads in flight": ("reduceInFlight", "one float"),
    "v11 dependent launch": ("reduceInFlight", "one float"),
    "library": (None, "one float"),
}
V11, GROWS = "v11 dependent launch", ["v8", "v9", "v10", "v11", "library"]


def test_shuffles_from_v5(kernels):
    for name in SHUFFLING:
        assert all(one.count("SHFL") >= 5 for one in kernels[name])
    for name in SCALAR[:2]:
        assert all(one.count("SHFL") == 0 for one in kernels[name])


def test_tree_loop_until_v5(kernel):
    for one in map(kernel, SCALAR[:3] + SHUFFLING[1:5]):
        loop = one.name in SCALAR[:3]
        assert one.loops_around(BARRIER) == loop
        assert one.before(BARRIER, "LDS") == 1
        assert not loop or one.count(BARRIER) == 2


def test_loads_16_bytes_from_v7(kernels):
    for name in ["copyFloats", *SHUFFLING[2:], *SCALAR]:
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
        assert not any(guarded[0] < i.address < guarded[-1]
                       for i in one.find("FADD"))


def test_v9_ordered_ticket(kernels):
    """A fence before the ticket (release), L1 emptied behind it (acquire);
    v8a's addition has neither, and brings nothing back."""
    for one in kernels["reduceLastBlock"] + kernels["reduceInFlight"]:
        assert one.count(r"MEMBAR\S*\.GPU") == one.count(TICKET) == 1
        assert one.before(r"MEMBAR\S*\.GPU", TICKET) == 1
        assert one.before("STG", "MEMBAR") >= 1
        assert one.count(r"CCTL\.IVALL") == 1 == \
            one.after(TICKET).count(r"CCTL\.IVALL")
    [atomic] = kernels["reduceVectorizedAtomic"]
    assert atomic.count("MEMBAR|CCTL|ATOM") == 0
    assert atomic.count(r"REDG?\.") == 1


def test_partials_in_flight(kernels):
    for one in kernels["reduceLastBlock"] + kernels["reduceInFlight"]:
        assert one.run(r"LDG\S*\.STRONG\.GPU", until="FADD") == (
            16 if one.name == "reduceLastBlock" else one.arguments[0] // 32)


def test_two_stages_one_barrier(kernels):
    for one in kernels["reduceInFlight"]:
        assert one.count(BARRIER) == 1 and one.loops_around(BARRIER) == 0
        assert [one.before(what, BARRIER) for what in (
            r"SHFL\.DOWN", "STS", "LDS")] == [5, 1, 0]


@pytest.mark.archs(75, 90, 100, 120)
def test_v11_waits_first(kernels):
    """Nothing decides whether it waits."""
    for one in sum(kernels.values(), []):
        waits = one.name == "reduceInFlight" and one.arguments[3] and \
            one.arch >= 90
        assert one.count("ACQBULK") == waits
        if waits:
            assert one.before("LDG|STG|ATOM|REDG?[.]|LD[.]|ST[.]|BRA|EXIT|CALL"
                              "|BAR", "ACQBULK") == 0
            assert one.predicated("ACQBULK") == 0


def test_v11_as_v10(kernels):
    by = {one.arguments: [one.count(what) for what in (
        "LDG", "STG", "FADD", "SHFL", "ATOM", "BAR", "MEMBAR")]
        for one in kernels["reduceInFlight"]}
    waiting = [arguments for arguments in by if arguments[3]]
    assert len(waiting) == 3
    assert all(by[one] == by[(*one[:3], 0)] for one in waiting)


def test_no_local_memory(every_kernel):
    assert not any(kernel.count("LDL|STL") for kernel in every_kernel)


# ---- what the program printed

def facts(run):
    """n, copies, peak, L2, threads, blocks ..."""
    return dict(zip(("sms", "l2", "peak", "threads", "blocks", "wide", "wave",
                     "n", "copies"), said(
        run, r"(\d+) SMs, L2 ([\d.]+) MB\n.*peak (\d+) GB/s(?:.*\n)*?"
        r"v4 to v9b: (\d+) threads per block; v4c to v9b: (\d+) blocks\n"
        r"v10, v11: (\d+) threads per block, at most (\d+) blocks\n\n"
        r"The ladder: (\d+) floats, (\d+) copies in turn\n")))


def ladder(run):
    return cells(table_with(run, "GB/s"))


def growths(run):
    """{clock: (rows by their exponent, lines below them)}."""
    found = {}
    for table in run.tables:
        if clock := re.fullmatch(r"Growth, launched (by the host|from a graph)"
                                 r": us per sum", table.title):
            assert table.columns == ["n", "inputs", *GROWS, "spread",
                                     "library/v10", "library/v11",
                                     "v10 % peak"]
            rows = {int(re.fullmatch(r"2\^(\d+)", n)[1]): row
                    for n, row in cells(table, "n").items()}
            assert list(rows) == [*range(10, 18 if run.quick else 29)]
            behind = run.body.split(table.title + "\n", 1)[1]
            found[clock[1]] = rows, behind.split("\n\n")[1]
    assert list(found) == ["by the host", "from a graph"]
    return found


def test_rows_as_listed(run):
    """v11 is missing only from code for compute capability 7.5."""
    table = table_with(run, "GB/s")
    assert table.title.startswith("The ladder: ")
    assert table.columns == ["row", "ms", "spread", "GB/s", "% copy",
                             "% peak", "x above", "results", "leaves"]
    lines = run.body.split("\nrow ", 1)[1].split("\n\n")[0].split("\n")[1:]
    assert [re.split(" {2,}", line)[0] for line in lines] == list(ROWS)
    for label, why in table.notes.items():
        assert why == {"library": "skipped: built with LESSON_NO_CUB", V11:
                       "skipped: this is code for 7.5; -arch=sm_90 needed"
                       }[label]
    if run.arch:
        assert (V11 in table.notes) == (run.arch < 90)
    assert all(row["leaves"] == ROWS[label][1]
               for label, row in ladder(run).items())


def test_ladder_columns(run):
    rows, n = ladder(run), facts(run)["n"]
    rates(run, rows, lambda label: 4 * n * (1 + (label == COPY)))
    for above, label in zip([None, *ROWS], ROWS):
        if label not in rows:
            continue
        cell = rows[label]["x above"]
        if above not in rows or above == COPY:
            assert cell == "n/a"
        else:
            times(cell, rows[above], rows[label])


def test_copies(run):
    """Four times the L2 lies between two reads of a copy."""
    of = facts(run)
    assert of["copies"] in [2 + int(1e6 * (of["l2"] + lost) / of["n"])
                            for lost in (-0.05, 0.05)]


def test_copy_is_a_ceiling(run):
    share, ms = said(run, r"The copy row reaches ([\d.]+) of cudaMemcpyAsync, "
                     r"([\d.]+) ms\.")
    rate = ladder(run)[COPY]["GB/s"]
    assert near(share, rate * ms * 1e6 / (8 * facts(run)["n"]), rate, ms)
    assert run.quick or 0.8 < share < 1.25


def test_same_bits(run):
    """A quick run of v8a need not leave several."""
    for label, row in ladder(run).items():
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
            size, v10 = 4 * 2 ** log, row["v10"]
            for name in ("v10", "v11"):
                ratio, mine, other = (
                    row[one] for one in (f"library/{name}", name, "library"))
                assert ratio == "n/a" if "n/a" in (mine, other) else near(
                    ratio, other / mine, other, mine), (clock, row)
            assert near(row["v10 % peak"], size / v10 / 10 / of["peak"], v10,
                        of["peak"]), (clock, row)
            assert row["inputs"] in {passing(
                size, told, clock == "from a graph", of["l2"] + lost)
                for lost in (-0.05, 0.05)}, (clock, row)


def test_growth_verdicts(run):
    """The knee, and the least and the greatest ratio with their n."""
    for clock, (rows, note) in growths(run).items():
        allowed = set()
        for least in (1.449, 1.451):  # what printing lost
            calm = max(log for log, row in rows.items() if log == 10 or
                       row["v10"] < least * rows[log - 1]["v10"])
            allowed.add(calm if calm + 1 in rows else None)
        knee = re.search(r"^Beyond 2\^(\d+), twice the floats always take v10 "
                         r"at least 1\.45 times as long\.$", note, re.M)
        assert (int(knee[1]) if knee else None) in allowed
        for version, overlaps in (
                ("v10", ""), ("v11", ", which overlaps the launch before it")):
            ratios = {log: row[f"library/{version}"] for log, row in
                      rows.items() if row[f"library/{version}"] != "n/a"}
            told = re.findall(
                rf"^Launched {clock}, back to back, the library takes ([\d.]+)"
                rf" \(2\^(\d+)\) to ([\d.]+) \(2\^(\d+)\)\ntimes as long as "
                rf"{version}{overlaps}\.$", note, re.M)
            assert len(told) == bool(ratios)
            for least, at, most, top in told:
                assert float(least) == min(ratios.values()) == ratios[int(at)]
                assert float(most) == max(ratios.values()) == ratios[int(top)]


def test_clocks_agree(run):
    """A launch from a graph takes no longer than one by the host; for long
    kernels both clocks, and the ladder, tell the same."""
    host, graph = (rows for rows, _ in growths(run).values())
    ms = {label.split()[0]: row["ms"] for label, row in ladder(run).items()}
    for log in host:
        for name in GROWS:
            a, b = host[log][name], graph[log][name]
            if "n/a" in (a, b):
                assert a == b
                continue
            assert b < 1.2 * a, (log, name)
            if log <= 14 and name == "v10":  # the host's share
                assert b < 0.85 * a, log
            if log >= 26:
                assert close(a, b, 10), (log, name)
            if 2 ** log == facts(run)["n"]:
                assert close(1e3 * ms[name], a, 5), (log, name)


def test_growth_goals(run):
    real(run)
    host = {10: 0.97, 13: 1.0, 20: 1.4, 21: 1.0, 24: 1.08, 25: 1.0, 26: 1.03,
            27: 1.0}
    for clock, (rows, _) in growths(run).items():
        goals = host if clock == "by the host" else {10: 0.97, 13: 1.0}
        for log, row in rows.items():
            goal = goals[max(k for k in goals if k <= log)]
            if log < 20 and goals is host:  # the host's part, which varies
                goal -= row["spread"] / 100
            assert row["library/v10"] >= goal, (clock, row)
            assert row["library/v11"] == "n/a" or \
                row["library/v11"] >= (1.03 if log <= 22 else 1.0), row
    rows, _ = growths(run)["by the host"]
    assert rows[26]["v10 % peak"] >= 88 and rows[28]["v10 % peak"] >= 93


def test_ladder_orders(run):
    real(run)
    gain = {label.split()[0]: row["x above"]
            for label, row in ladder(run).items()}
    assert gain["v4c"] > 2 and gain["v7"] > 1.02
    assert abs(gain["v5"] - 1) <= 0.01 and abs(gain["v6"] - 1) <= 0.01
    assert gain["v9b"] > 1 and gain["v10"] > 1


def test_waves(run):
    of, v9, v9a = said(run, r"Of (\d+) blocks the card holds (\d+) of v9 at "
                       r"once, (\d+) of v9a\.")
    assert of == facts(run)["blocks"]
    assert all(held == of or held % facts(run)["sms"] == 0
               for held in (v9, v9a))
    assert run.arch != 90 or v9a < v9 == of


def test_awkward_lines(run):
    """All runs right; above 2^32 all rows, or why not."""
    lengths, runs, right = said(
        run, r"Awkward inputs, not timed: (\d+) lengths from 0 to \d+, bases 0"
        r" to 3 floats past\na boundary: (\d+) of (\d+) runs right\.")
    rows = len(ladder(run))
    assert runs == right == 5 * lengths * rows and lengths >= 30
    [huge] = said(run, r"^n = 2\^32 \+ 2\^20 \+ 5(.*)")
    assert run.quick or huge == f": {rows} of {rows} rows right."
    assert said(run, r"v10's (\d+) blocks are one wave: none has to wait\.") \
        == [facts(run)["wave"]]


# ---- profiles

REQUESTS = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"


def shape(n, sms, wide, wave):
    """(threads, loads, streaming), blocks that v10 takes for n floats."""
    tiles = {(threads, loads): max(1, math.ceil(n / (4 * threads * loads)))
             for threads, loads in ((256, 4), (wide, 4), (wide, 8))}
    if tiles[wide, 8] == 1 < tiles[256, 4]:
        return (wide, 4, 0), 1
    for few in ((256, 4), (wide, 4)):
        if tiles[few] <= sms:
            return (*few, 0), tiles[few]
    return (wide, 8, 1), min(tiles[wide, 8], wave)


def claims(run):
    """[(label, a launch that it claims)], without the library's."""
    of, found = facts(run), []
    n, block = of["n"], of["threads"]
    took, wave = shape(n, of["sms"], int(of["wide"]), of["wave"])
    version = {"v9a": ((block, 8, 0, 0), of["blocks"]),
               "v9b": ((block, 8, 1, 0), of["blocks"]),
               "v10": ((*took, 0), wave), "v11": ((*took, 1), wave)}
    grids = {COPY: n // 4 // block, "v4 two loads": n // 2 // block}
    for label in ladder(run):
        claim = {"kernel": ROWS[label][0], "block": block,
                 "grid": grids.get(label, of["blocks"])}
        if label.split()[0] in version:
            arguments, grid = version[label.split()[0]]
            claim.update(arguments=arguments, grid=grid, block=arguments[0])
        if label != "library":
            found.append((label, claim))
        if label == "v8 two launches":
            found.append((label, {**claim, "kernel": SCALAR[3], "grid": 1}))
    return found


def by_row(profile):
    """{label: its launches}; the library's come last."""
    found = {label: [] for label in ladder(profile.run)}
    own = claims(profile.run)
    rest = [one for one in profile.launches if one.kernel != "fillInput"]
    if "library" in found:
        found["library"] = rest[len(own):]
        assert 1 <= len(found["library"]) <= 2
        assert all(one.kernel.startswith("Device")
                   for one in found["library"])
        rest = rest[:len(own)]
    for label, one in launched(rest, own):
        found[label].append(one)
    return found


def test_launches_as_rows(profile):
    assert by_row(profile)


def test_dram_as_counted(profile):
    size = 4 * facts(profile.run)["n"]
    for label, launches in by_row(profile).items():
        read, written = (sum(one.metrics[what] for one in launches)
                         for what in (READ, WRITE))
        assert close(read, size, 1), (label, read)
        if label == COPY:  # some is still in L2 at the end
            assert 0.8 * size < written < 1.02 * size
        else:
            assert written < 0.02 * size, (label, written)


def test_time_as_profiled(profile):
    """v11 overlaps its neighbours, which a profiler keeps apart."""
    for label, launches in by_row(profile).items():
        if label != V11:
            as_profiled(ladder(profile.run)[label], *launches)


def test_v7_quarter_of_loads(profile):
    v6, v7 = (sum(one.metrics[REQUESTS] for one in by_row(profile)[label])
              for label in ("v6 template", "v7 float4"))
    assert close(v7, v6 / 4, 1)


def test_sectors_per_load(profile):
    """A little less on average where the last block reads the partials."""
    for label, (first, *_) in by_row(profile).items():
        assert label == "library" or close(
            first.metrics[SECTORS], 4 if first.kernel in SCALAR else 16, 1)


def test_timed_dram(timed):
    """Not the second launch of v8."""
    size = 4 * facts(timed.run)["n"]
    for label, claim in claims(timed.run):
        if claim["grid"] > 1:
            moved(timed, claim, size, size * (label == COPY))
