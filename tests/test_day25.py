"""Day 25: machine code, profile and printed figures; each test is a claim of
research/day25-reduction.md."""
import math
import re
from collections import defaultdict

import pytest

from evidence import close, number

# No row: fillInput reduceYours
SCALAR = ["reduceSequentialTwoLoads", "reduceCascaded", "reduceShuffleTail",
          "reduceUnrolled"]
SHUFFLING = ["reduceShuffleTail", "reduceUnrolled", "reduceVectorized",
             "reduceVectorizedAtomic", "reduceLastBlock", "reduceInFlight"]
LOAD16 = r"LDG\S*\.128"
GLOBAL = r"LDG|STG|ATOM|REDG?\.|LD\.|ST\."
# label: kernels of one launch, (kernel, integer template arguments); what it
# leaves
ROWS = {
    "copy (ceiling)": (["copyFloats"], "n floats"),
    "v4 two loads": (["reduceSequentialTwoLoads"], "partials"),
    "v4c cascaded": (["reduceCascaded"], "partials"),
    "v5 shuffle tail": (["reduceShuffleTail"], "partials"),
    "v6 template": (["reduceUnrolled"], "partials"),
    "v7 float4": (["reduceVectorized"], "partials"),
    "v8 two launches": (["reduceVectorized", "reduceUnrolled"], "one float"),
    "v8a atomic finish": (["reduceVectorizedAtomic"], "one float"),
    "v9 last block": (["reduceLastBlock"], "one float"),
    "v9a loads first": (["reduceInFlight"], "one float"),
    "v9b streaming loads": (["reduceInFlight"], "one float"),
    "v10 loads in flight": (["reduceInFlight"], "one float"),
    "v11 dependent launch": (["reduceInFlight"], "one float"),
    "library": (None, "one float"),
}
GROWS = ["v8", "v9", "v10", "v11", "library"]


# ---- machine code

def instances(kernels):
    """(kernel, loads per thread, streaming, waits) of each reduceInFlight."""
    return [(one, one.arguments[1], bool(one.arguments[2]),
             bool(one.arguments[3])) for one in kernels["reduceInFlight"]]


def test_shuffles_from_v5(kernels):
    """The tail of v4 and v4c runs in shared memory, that of v5 to v11 in
    registers."""
    for name in SHUFFLING:
        assert all(one.count("SHFL") >= 5 for one in kernels[name])
    for name in SCALAR[:2]:
        assert all(one.count("SHFL") == 0 for one in kernels[name])


def test_tree_loop_until_v5(kernel):
    for name in SCALAR[:3]:
        assert kernel(name).loops_around(r"BAR\.SYNC") == 1
        assert kernel(name).before(r"BAR\.SYNC", "LDS") == 1
        assert kernel(name).count(r"BAR\.SYNC") == 2
    for name in SHUFFLING[1:5]:
        assert kernel(name).loops_around(r"BAR\.SYNC") == 0
        assert kernel(name).before(r"BAR\.SYNC", "LDS") == 1


def test_loads_16_bytes_from_v7(kernels):
    for name in ["copyFloats", *SHUFFLING[2:]]:
        assert all(one.count(LOAD16) >= 1 for one in kernels[name])
    for name in SCALAR:
        assert all(one.count(LOAD16) == 0 for one in kernels[name])


@pytest.mark.archs(75, 80, 90, 100, 120)
def test_loads_in_flight(kernels):
    """v9a to v11: all loads of a tile before the first addition, in one basic
    block, without a guard; from v9b on those of large tiles evict first."""
    for one, loads, streaming, _ in instances(kernels):
        assert one.run(LOAD16, until="FADD", block=True) == loads
        evict = one.run(r"LDG\S*\.EF\S*\.128", until="FADD", block=True)
        assert evict == (loads if streaming else 0)


def test_last_tile_in_flight(kernels):
    """The loads of a tile that is not full come before its additions, too."""
    for one, loads, _, _ in instances(kernels):
        guarded = [i for i in one.find(LOAD16) if i.predicate]
        assert len(guarded) == loads
        assert not [i for i in one.find("FADD")
                    if guarded[0].address < i.address < guarded[-1].address]


def test_v9_ordered_ticket(kernels):
    """A fence before the ticket (release), L1 emptied behind it (acquire);
    v8a's addition has neither, and brings nothing back."""
    for one in kernels["reduceLastBlock"] + kernels["reduceInFlight"]:
        assert one.count(r"MEMBAR\S*\.GPU") == 1
        assert one.count(r"CCTL\.IVALL") == one.count(r"ATOMG?\.") == 1
        assert one.upto(r"ATOMG?\.").count(r"MEMBAR\S*\.GPU") == 1
        assert one.upto(r"MEMBAR").count("STG") >= 1
        assert one.after(r"ATOMG?\.").count(r"CCTL\.IVALL") == 1
    [atomic] = kernels["reduceVectorizedAtomic"]
    assert atomic.count("MEMBAR|CCTL|ATOM") == 0
    assert atomic.count(r"REDG?\.") == 1


def test_partials_in_flight(kernels):
    """Lanes that fold ask for 16 partials each before they add the first; in
    v9a to v11 for one per warp of the block."""
    for one in kernels["reduceLastBlock"] + kernels["reduceInFlight"]:
        wanted = 16 if one.name == "reduceLastBlock" else \
            one.arguments[0] // 32
        assert one.run(r"LDG\S*\.STRONG\.GPU", until="FADD") == wanted


def test_two_stages_one_barrier(kernels):
    """v9a to v11 sum a block by 5 shuffles, a barrier and 5 more; the fold
    takes 5, and one shuffle hands the ticket on."""
    for one, *_ in instances(kernels):
        assert one.count(r"BAR\.SYNC") == 1
        assert one.loops_around(r"BAR\.SYNC") == 0
        assert one.upto(r"BAR\.SYNC").count(r"SHFL\.DOWN") == 5
        assert one.upto(r"BAR\.SYNC").count("STS") == 1
        assert one.upto(r"BAR\.SYNC").count("LDS") == 0


@pytest.mark.archs(75, 90, 100, 120)
def test_v11_waits_first(kernels):
    """v11 waits for the kernel before it before it touches global memory, and
    nothing decides whether; the other rows do not wait."""
    for one, _, _, waits in instances(kernels):
        waits = waits and one.arch >= 90
        assert one.count("ACQBULK") == waits
        if waits:
            before = one.upto("ACQBULK")
            assert before.count(GLOBAL + "|BRA|EXIT|CALL|BAR") == 0
            assert one.find("ACQBULK")[0].predicate == ""
    for name in kernels.keys() - {"reduceInFlight"}:
        assert all(one.count("ACQBULK") == 0 for one in kernels[name])


def test_v11_as_v10(kernels):
    """Behind the wait v11 does what v10 does."""
    def counts(one):
        return [one.count(what) for what in
                ("LDG", "STG", "FADD", "SHFL", "ATOM", "BAR", "MEMBAR")]
    by = {one.arguments: one for one in kernels["reduceInFlight"]}
    waiting = [arguments for arguments in by if arguments[3]]
    assert len(waiting) == 3
    for arguments in waiting:
        assert counts(by[arguments]) == counts(by[(*arguments[:3], 0)])


def test_no_local_memory(every_kernel):
    for kernel in every_kernel:
        assert kernel.count("LDL|STL") == 0


# ---- what the program printed, read again

def facts(run):
    """What a run says of itself: n, copies, peak, L2, threads, blocks ..."""
    found = re.search(
        r"(\d+) SMs, L2 ([\d.]+) MB\n.*peak (\d+) GB/s(?:.*\n)*?"
        r"v4 to v9b: (\d+) threads per block; v4c to v9b: (\d+) blocks\n"
        r"v10, v11: (\d+) threads per block, at most (\d+) blocks\n\n"
        r"The ladder: (\d+) floats, (\d+) copies in turn\n", run.body)
    names = ("sms", "l2", "peak", "threads", "blocks", "wide", "wave", "n",
             "copies")
    return dict(zip(names, map(float, found.groups())))


def ladder(run):
    [table] = [table for table in run.tables if "GB/s" in table.columns]
    assert table.title.startswith("The ladder: ")
    return table


def growths(run):
    """{clock: (table, lines below it)} of both tables of growth."""
    found = {}
    for table in run.tables:
        if clock := re.fullmatch(r"Growth, launched (by the host|from a graph)"
                                 r": us per sum", table.title):
            behind = run.body.split(table.title + "\n", 1)[1]
            found[clock[1]] = table, behind.split("\n\n")[1]
    assert list(found) == ["by the host", "from a graph"]
    return found


def exponent(row):
    return int(re.fullmatch(r"2\^(\d+)", row["n"])[1])


def near(value, wanted, step, percent):
    """Equal but for half a printed step and what `wanted` itself lost."""
    return abs(value - wanted) <= 0.51 * step + abs(wanted) * percent / 100


def test_rows_as_listed(run):
    """All rows in their order, each with what it leaves; v11 is missing only
    from code for compute capability 7.5, and says so."""
    table = ladder(run)
    assert table.columns == ["row", "ms", "spread", "GB/s", "% copy",
                             "% peak", "x above", "results", "leaves"]
    lines = run.body.split("\n")
    at = next(k for k, line in enumerate(lines) if line.startswith("row "))
    labels = [re.split(r" {2,}", line)[0] for line in
              lines[at + 1:at + 1 + len(table.rows) + len(table.notes)]]
    assert labels == list(ROWS)
    allowed = {"library": "skipped: built with LESSON_NO_CUB",
               "v11 dependent launch":
               "skipped: this is code for 7.5; -arch=sm_90 needed"}
    for label, why in table.notes.items():
        assert why == allowed[label]
    if run.arch:
        assert ("v11 dependent launch" in table.notes) == (run.arch < 90)
    for row in table.rows:
        assert row["leaves"] == ROWS[row["row"]][1]


def test_ladder_columns(run):
    """GB/s from ms and n; shares of the copy and the peak; `x above`."""
    said = facts(run)
    notes, rows, above = ladder(run).notes, ladder(run).rows, None
    order, copy = list(ROWS), number(rows[0]["GB/s"])
    for row in rows:
        is_copy = row["row"] == "copy (ceiling)"
        ms, rate = number(row["ms"]), number(row["GB/s"])
        size = 4 * said["n"] * (2 if is_copy else 1)
        loss = 100 * 0.00005 / ms  # per cent: what ms lost in printing
        assert near(rate, size / ms / 1e6, 0.1, 1.1 * loss), row
        assert near(number(row["% copy"]), 100 * rate / copy, 0.1, 0.01)
        assert near(number(row["% peak"]), 100 * rate / said["peak"], 0.1,
                    0.02)
        cell = row["x above"]
        if above is None or order[order.index(row["row"]) - 1] in notes:
            assert cell == "n/a"
        else:
            loss += 100 * 0.00005 / number(above["ms"])
            times = number(above["ms"]) / ms
            assert near(number(cell), times, 0.01, 1.1 * loss), row
            noise = max(number(above["spread"]), number(row["spread"])) / 100
            margin = times * loss / 100 + 0.001
            if abs(abs(times - 1) - noise) > margin:
                assert cell.startswith("~") == (abs(times - 1) < noise), row
        above = None if is_copy else row


def test_copies(run):
    """Four times the L2 lies between two reads of a copy."""
    said = facts(run)
    most = [2 + int(4e6 * (said["l2"] + lost) / (4 * said["n"]))
            for lost in (-0.05, 0.05)]
    assert most[0] <= said["copies"] <= most[1]


def test_copy_is_a_ceiling(run):
    """The copy row against cudaMemcpyAsync: as printed, and near 1."""
    share, ms = re.search(r"The copy row reaches ([\d.]+) of cudaMemcpyAsync, "
                          r"([\d.]+) ms\.", run.body).groups()
    size = 8 * facts(run)["n"]
    rate = number(ladder(run).row("copy (ceiling)")["GB/s"])
    assert near(float(share), rate * float(ms) * 1e6 / size, 0.01,
                100 * 0.00006 / float(ms))
    assert run.quick or 0.8 < float(share) < 1.25


def test_same_bits(run):
    """20 launches over values that round: v8 to v11 leave one result, v8a
    several (in a full run; a quick one need not)."""
    for row in ladder(run).rows:
        label, results = row["row"], row["results"]
        if row["leaves"] != "one float":
            assert results == "-"
        elif label == "v8a atomic finish":
            assert (1 if run.quick else 2) <= number(results) <= 20
        else:
            assert results == "1" or label == "library"


def passing(size, told, graph, l2):
    """Where inputs of so many bytes come from: by what passes between two
    reads of one copy, of which there are up to `told`."""
    copies = min(2 + int(4e6 * l2 / size), 65535 if graph else told)
    if graph:
        copies = min(copies, max(8, min(2 ** 32 // size, told)))
    times = copies * size / (l2 * 1e6)
    return "L2" if times < 1 else "memory" if times > 4 else "mixed"


def test_growth_columns(run):
    """Ratios and the share of the peak, from the times beside them; `inputs`
    says whether what passes between two reads of a copy fits in L2."""
    said = facts(run)
    for clock, (table, note) in growths(run).items():
        graph = clock == "from a graph"
        assert table.columns == ["n", "inputs", *GROWS, "spread",
                                 "library/v10", "library/v11", "v10 % peak"]
        first = [exponent(row) for row in table.rows]
        assert first == list(range(10, 10 + len(first)))
        assert first[-1] == (17 if run.quick else 28)
        told = int(re.match(
            r"inputs: up to (\d+) copies in turn\. L2: they fit in it; memory: "
            r"they fill it more\nthan 4 times; mixed: neither\.", note)[1])
        for row in table.rows:
            size = 4 * 2 ** exponent(row)
            for ratio in ("library/v10", "library/v11"):
                both = [number(row[name]) for name in ratio.split("/")]
                if None in both:
                    assert row[ratio] == "n/a"
                else:
                    assert near(number(row[ratio]), both[0] / both[1], 0.001,
                                0.2), (clock, row)
            assert near(number(row["v10 % peak"]),
                        size / number(row["v10"]) / 1e3 / said["peak"] * 100,
                        0.1, 0.1), (clock, row)
            assert row["inputs"] in {
                passing(size, told, graph, said["l2"] + lost)
                for lost in (-0.05, 0.05)}, (clock, row)


def test_growth_verdicts(run):
    """The lines below each table: the knee, and the least and the greatest
    ratio with their n, each from the table above."""
    for clock, (table, note) in growths(run).items():
        v10 = [number(row["v10"]) for row in table.rows]
        allowed, last = set(), exponent(table.rows[-1])
        for least in (1.449, 1.451):  # what printing lost
            calm = [exponent(row) for k, row in enumerate(table.rows)
                    if k == 0 or v10[k] < least * v10[k - 1]]
            allowed.add(str(max(calm)) if max(calm) < last else None)
        knee = re.search(r"^Beyond 2\^(\d+), twice the floats always take v10 "
                         r"at least 1\.45 times as long\.$", note, re.M)
        assert (knee[1] if knee else None) in allowed
        for version, overlaps in (
                ("v10", ""), ("v11", ", which overlaps the launch before it")):
            ratios = {exponent(row): number(row[f"library/{version}"])
                      for row in table.rows
                      if row[f"library/{version}"] != "n/a"}
            said = re.findall(
                rf"^Launched {clock}, back to back, the library takes ([\d.]+) "
                rf"\(2\^(\d+)\) to ([\d.]+) \(2\^(\d+)\)\ntimes as long as "
                rf"{version}{overlaps}\.$",
                note, re.M)
            assert len(said) == (1 if ratios else 0)
            for least, at, most, top in said:
                assert float(least) == min(ratios.values()) == ratios[int(at)]
                assert float(most) == max(ratios.values()) == ratios[int(top)]


def test_clocks_agree(run):
    """A launch from a graph takes no longer than one by the host; for long
    kernels both clocks, and the ladder, tell the same."""
    host, graph = (table for table, _ in growths(run).values())
    times = {row["row"].split()[0]: number(row["ms"]) * 1e3
             for row in ladder(run).rows}
    n = facts(run)["n"]
    for one, other in zip(host.rows, graph.rows):
        for name in GROWS:
            a, b = number(one[name]), number(other[name])
            if a is None or b is None:
                assert a is None and b is None
                continue
            assert b < 1.2 * a, (one["n"], name)
            if exponent(one) <= 14 and name == "v10":  # the host's share
                assert b < 0.85 * a, one["n"]
            if exponent(one) >= 26:
                assert close(a, b, 10), (one["n"], name)
            if 2 ** exponent(one) == n:
                assert close(times[name], a, 5), (one["n"], name)


def test_growth_goals(run):
    """By both clocks v10 is level with the library below 2^13 and ahead from
    there, v11 everywhere; v10 near the peak where n is large."""
    if run.quick:
        pytest.skip("the times of a quick run mean nothing")
    host = {10: 0.97, 13: 1.0, 20: 1.7, 21: 1.0, 24: 1.08, 25: 1.0, 26: 1.03,
            27: 1.0}
    if "-b-" in run.path.name:  # at 2^20 the host's part differs by machine
        host[20] = 1.4
    graph = {10: 0.97, 13: 1.0}
    for clock, (table, _) in growths(run).items():
        goals = host if clock == "by the host" else graph
        for row in table.rows:
            e = exponent(row)
            goal = goals[max(k for k in goals if k <= e)]
            assert number(row["library/v10"]) >= goal, (clock, row)
            if row["library/v11"] != "n/a":
                goal = 1.03 if e <= 22 else 1.0
                assert number(row["library/v11"]) >= goal, (clock, row)
    rows = {exponent(row): row for row in growths(run)["by the host"][0].rows}
    assert number(rows[26]["v10 % peak"]) >= 88
    assert number(rows[28]["v10 % peak"]) >= 93


def test_ladder_orders(run):
    """What the page says of the steps: v4c and v7 pay, v5 and v6 hardly do;
    v9b and v10 pay each against the row above."""
    if run.quick:
        pytest.skip("the times of a quick run mean nothing")
    gain = {row["row"].split()[0]: number(row["x above"])
            for row in ladder(run).rows[1:]}
    assert gain["v4c"] > 2 and gain["v7"] > 1.02
    assert abs(gain["v5"] - 1) <= 0.01 and abs(gain["v6"] - 1) <= 0.01
    assert gain["v9b"] > 1 and gain["v10"] > 1


def test_waves(run):
    """How many blocks of v9 and v9a the card holds at once; built for 9.0 it
    holds all of v9's, and not all of v9a's."""
    said = facts(run)
    of, v9, v9a = map(int, re.search(
        r"Of (\d+) blocks the card holds (\d+) of v9 at once, (\d+) of v9a\.",
        run.body).groups())
    assert of == said["blocks"]
    assert all(held == of or held % said["sms"] == 0 for held in (v9, v9a))
    if run.arch == 90:
        assert v9a < v9 == of


def test_awkward_lines(run):
    """All runs right; above 2^32 all rows, or why not."""
    lengths, runs, right = map(int, re.search(
        r"Awkward inputs, not timed: (\d+) lengths from 0 to \d+, bases 0 to 3"
        r" floats past\na boundary: (\d+) of (\d+) runs right\.",
        run.body).groups())
    rows = len(ladder(run).rows)
    assert runs == right == 5 * lengths * rows and lengths >= 30
    huge = re.search(r"^n = 2\^32 \+ 2\^20 \+ 5(.*)", run.body, re.M)[1]
    if not run.quick:
        assert huge == f": {rows} of {rows} rows right."
    said = re.search(r"v10's (\d+) blocks are one wave: none has to wait\.",
                     run.body)
    assert int(said[1]) == facts(run)["wave"]


# ---- profiles

READ, WRITE = "dram__bytes_read.sum", "dram__bytes_write.sum"
SECTORS = "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio"
REQUESTS = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"
DURATION = "gpu__time_duration.sum"


def shape_of(n, sms, wide, wave):
    """(threads, loads, streaming, blocks) that v10 takes for n floats."""
    tiles = {(threads, loads): max(1, math.ceil(n / (4 * threads * loads)))
             for threads, loads in ((256, 4), (wide, 4), (wide, 8))}
    if tiles[wide, 8] == 1 < tiles[256, 4]:
        return wide, 4, 0, 1
    for few in ((256, 4), (wide, 4)):
        if tiles[few] <= sms:
            return *few, 0, tiles[few]
    return wide, 8, 1, min(tiles[wide, 8], wave)


def claimed(run):
    """{label: [(kernel, template arguments or None, grid, block)]} as the run
    says; of the library only that it is there."""
    said = {name: int(value) for name, value in facts(run).items()
            if name not in ("l2", "peak")}
    n, threads, blocks, wide = (said[name] for name in
                                ("n", "threads", "blocks", "wide"))
    fixed = {label: [(kernels[0], None, blocks, threads)]
             for label, (kernels, _) in ROWS.items() if kernels}
    fixed["copy (ceiling)"] = [("copyFloats", None, n // 4 // threads,
                                threads)]
    fixed["v4 two loads"] = [(SCALAR[0], None, n // 2 // threads, threads)]
    fixed["v8 two launches"].append(("reduceUnrolled", None, 1, threads))
    shape = shape_of(n, said["sms"], wide, said["wave"])
    for label, streams in (("v9a loads first", 0), ("v9b streaming loads", 1)):
        fixed[label] = [("reduceInFlight", (threads, 8, streams, 0), blocks,
                         threads)]
    for label, waits in (("v10 loads in flight", 0),
                         ("v11 dependent launch", 1)):
        *arguments, grid = shape
        fixed[label] = [("reduceInFlight", (*arguments, waits), grid,
                         arguments[0])]
    return fixed


def by_row(profile):
    """{label: its launches}; the profile has one launch of each row, in their
    order, with the kernel, grid and block that the row claims."""
    found, rest = {}, [one for one in profile.launches
                       if one.kernel != "fillInput"]
    there = [row["row"] for row in ladder(profile.run).rows]
    for label in there:
        if label == "library":
            found[label] = [one for one in rest
                            if one.kernel.startswith("Device")]
            rest = [one for one in rest if one not in found[label]]
            assert 1 <= len(found[label]) <= 2
            continue
        found[label] = []
        for kernel, arguments, grid, block in claimed(profile.run)[label]:
            one = rest.pop(0)
            assert (one.kernel, one.grid, one.block) == (kernel, grid, block)
            assert arguments in (None, one.arguments)
            found[label].append(one)
    assert not rest
    return found


def test_launches_as_rows(profile):
    assert list(by_row(profile)) == [row["row"] for row in
                                     ladder(profile.run).rows]


def test_dram_as_counted(profile):
    """Every row reads 4n bytes from DRAM, the copy writes as many: none is
    fast because it reads less."""
    size = 4 * facts(profile.run)["n"]
    for label, launches in by_row(profile).items():
        read = sum(one.metrics[READ] for one in launches)
        assert close(read, size, 1), (label, read)
        written = sum(one.metrics[WRITE] for one in launches)
        if label == "copy (ceiling)":  # some is still in L2 at the end
            assert 0.8 * size < written < 1.02 * size
        else:
            assert written < 0.02 * size, (label, written)


def test_time_as_profiled(profile):
    """The printed time of a row is the profiler's, within 15 %. v11 overlaps
    its neighbours, which a profiler keeps apart."""
    rows = {row["row"]: row for row in ladder(profile.run).rows}
    for label, launches in by_row(profile).items():
        ms, seen = number(rows[label]["ms"]), sum(
            one.metrics[DURATION] for one in launches) / 1e6
        if label != "v11 dependent launch":
            assert ms <= 0.02 or close(ms, seen, 15), (label, ms, seen)


def test_v7_quarter_of_loads(profile):
    rows = by_row(profile)
    v6, v7 = (sum(one.metrics[REQUESTS] for one in rows[label])
              for label in ("v6 template", "v7 float4"))
    assert close(v7, v6 / 4, 1)


def test_sectors_per_load(profile):
    """4 for loads of 4 bytes, 16 for loads of 16; a little less on average
    where the last block reads the partials."""
    for label, launches in by_row(profile).items():
        if label != "library":
            scalar = launches[0].kernel in SCALAR
            assert close(launches[0].metrics[SECTORS], 4 if scalar else 16, 1)


def test_timed_dram(timed):
    """Timed launches with the caches left alone read what GB/s counts, within
    2 %: nothing comes from L2. (Checks run the same kernels on less.)"""
    size = 4 * facts(timed.run)["n"]
    seen = defaultdict(list)
    for one in timed.launches:
        seen[one.kernel, one.grid, one.block].append(one)
    for label, wanted in claimed(timed.run).items():
        if label == "v11 dependent launch" and timed.run.arch < 90:
            continue
        kernel, arguments, grid, block = wanted[0]
        launches = [one for one in seen[kernel, grid, block]
                    if arguments in (None, one.arguments)]
        longest = max(one.metrics[DURATION] for one in launches)
        full = [one for one in launches
                if one.metrics[DURATION] > 0.8 * longest]
        assert len(full) >= 8, label
        for one in full:
            assert close(one.metrics[READ], size, 2), (label, one.metrics)
