"""Day 77: machine code, figures and profile."""
import re

import pytest

from conftest import known_archs
from evidence import close, number

# No row: doNothing fill countWrongFloats normaliseRowYours
TREE = ("reduceBlockAtomic", "reduceClusterDsm", "reduceClusterRelaxed")
BARRIERS = ("reduceClusterDsm", "normaliseRowCluster")  # two, both releasing
ONE_WAY = ("normaliseRowOneWay", "normaliseRowRegisters")
SINGLE = ("reduceBlockAtomic", "copyVectors", "normaliseRowTwoReads",
          "normaliseRowShared", "normaliseRowBlocks")
# The address of another block's shared memory: MAPA, or where the compiler
# spells it out, the window of shared memory in the generic address space.
REMOTE = r"MAPA|S2U?R[^,]*, SR_SWINHI"
READ = r"LD\.E "  # through such an address
ARRIVE, WAIT = "UCGABAR_ARV", "UCGABAR_WAIT"
WRITE = r"STG\S*\.128"
RED = r"REDG?\."


# ---- machine code ----------------------------------------------------------

def since_13():
    """What a claim says of nvcc 13.0 and newer, the first to know sm_110."""
    if 110 not in known_archs():
        pytest.skip("this nvcc is older than 13.0")


@pytest.mark.parametrize("name", [*BARRIERS, "reduceClusterRelaxed"])
def test_cluster_barriers(kernel, name):
    assert kernel(name).count(ARRIVE) == kernel(name).count(WAIT) == 2


@pytest.mark.parametrize("name", [*BARRIERS, "reduceClusterRelaxed"])
def test_remote_read_between_barriers(kernel, name):
    """Behind the first wait and before the second arrival."""
    one = kernel(name)
    assert one.count(REMOTE) >= 1 and one.count(READ) == 1
    assert one.before(WAIT, READ) == 1 and one.before(ARRIVE, READ) == 1


@pytest.mark.parametrize("name", BARRIERS)
def test_arrival_waits_for_writes(kernel, name):
    """12.4 emits some fences twice."""
    since_13()
    one = kernel(name)
    assert one.run("MEMBAR", until=ARRIVE) == 1 and one.count("MEMBAR") == 2


def test_relaxed_arrival(kernel):
    """One fence less; the remote value is used before the second arrival.
    12.4 emits the fence twice."""
    since_13()
    one = kernel("reduceClusterRelaxed")
    assert one.count("MEMBAR") == 1
    last = one.after(READ)
    assert last.before("SHFL", ARRIVE) == 5 and last.count(ARRIVE) == 1


@pytest.mark.parametrize("name", TREE)
def test_one_atomic(kernel, name):
    one = kernel(name)
    assert one.count(RED) == 1
    if name != "reduceBlockAtomic":  # behind both barriers
        assert one.before(WAIT, RED) == 2


def test_row_arrives_before_writing(kernel):
    one = kernel("normaliseRowCluster")
    assert one.before(ARRIVE, WRITE) == 2
    assert one.after(WRITE).count(WAIT) == 1


@pytest.mark.parametrize("name", SINGLE)
def test_no_cluster(kernel, name):
    one = kernel(name)
    assert one.count("UCGABAR|STAS") == one.count(REMOTE) == 0


@pytest.mark.parametrize("name", ONE_WAY)
def test_one_way(kernel, name):
    """The mailboxes open before the loads; the barrier is waited for behind
    them and before the sums are sent; from there to the writes nothing waits
    for another thread, but for the bytes that come."""
    one = kernel(name)
    assert one.count("STAS") == one.count(ARRIVE) == one.count(WAIT) == 1
    assert one.count("MEMBAR") == one.count(READ) == 0
    assert one.before(r"SYNCS\.EXCH", ARRIVE) == 1
    assert one.before(WAIT, r"SYNCS\.ARRIVE") == 1
    assert one.before(r"SYNCS\.ARRIVE", r"SYNCS\.PHASECHK") == 1
    assert one.before(ARRIVE, "LDGSTS") == 1
    assert one.before(WAIT, "LDGSTS") == 0 and one.before(WAIT, "STAS") == 1
    behind = one.after("STAS")
    assert behind.before(r"SYNCS\.PHASECHK", WRITE) >= 1
    assert behind.count(r"UCGABAR|BAR\.SYNC|LDGSTS") == 0


def test_exchange_loops(kernel):
    """What each exchange repeats."""
    barriers, sent, words = map(kernel, (
        "exchangeByBarriers", "exchangeOneWay", "exchangeThroughMemory"))

    def looped(one, pattern):
        return max([loop.count(pattern) for loop in one.loops], default=0)
    assert looped(barriers, ARRIVE) >= 1 and looped(barriers, "MEMBAR") >= 1
    assert looped(barriers, READ) == looped(barriers, ARRIVE)
    assert looped(sent, "STAS") >= 1 and looped(sent, "UCGABAR|MEMBAR") == 0
    assert looped(words, r"ST\.E\.64\.STRONG\.GPU") >= 1
    assert looped(words, r"LD\.E\.64\.STRONG\.GPU") >= 1


def test_words_without_fence(kernel):
    """Number and sum are one access of 64 bits, so there is no fence."""
    for name in ("normaliseRowBlocks", "exchangeThroughMemory"):
        one = kernel(name)
        assert one.count(r"ST\.E\.64\.STRONG\.GPU") >= 1
        assert one.count(r"LD\.E\.64\.STRONG\.GPU") >= 1
        assert one.count("MEMBAR|UCGABAR|ATOM") == 0


@pytest.mark.parametrize("name", [
    "normaliseRowShared", "normaliseRowCluster", *ONE_WAY])
def test_copies_16_bytes_asynchronous(kernel, name):
    one = kernel(name)
    assert one.count(r"LDGSTS\.E\.BYPASS\.128") == one.count("LDGSTS") >= 8
    assert one.count(WRITE) == one.count(r"STG\.E\.EF\.128") > 0


@pytest.mark.parametrize("name", ["normaliseRowTwoReads",
                                  "normaliseRowBlocks"])
def test_two_reads_loads_in_flight(kernel, name):
    """Eight before the first is used, in the first read and in the second,
    whose lines are to go first (EF)."""
    one = kernel(name)
    assert one.run(r"LDG\.E\.128", until="FADD", block=True) >= 8
    assert one.run(r"LDG\.E\.EF\.128", until="FMUL", block=True) >= 8


def test_registers_loads_in_flight(kernel):
    one = kernel("normaliseRowRegisters")
    assert one.run(r"LDG\.E\.EF\.128", until="FADD", block=True) == 8


def test_copy_16_bytes(kernel):
    one = kernel("copyVectors")
    assert one.count(r"LDG\S*\.128") == one.count(WRITE) == 1


def test_no_local_memory(every_kernel):
    """12.4 has two accesses in normaliseRowBlocks."""
    since_13()
    for one in every_kernel:
        assert one.count("LDL|STL") == 0


# ---- figures ---------------------------------------------------------------

SIZES = {2, 4, 8, 16}


def size(label):
    found = re.search(r"cluster of (\d+)", label)
    return int(found[1]) if found else 0


def tables(run, start):
    return [t for t in run.tables if t.title.startswith(start)]


def lengths(run):
    """{length: table} of part 2."""
    return {2 ** int(re.search(r"2\^(\d+)", t.title)[1]): t
            for t in tables(run, "Row length 2^")}


def half(cell):
    """Half of the last digit printed."""
    digits = cell.strip("~%").partition(".")[2]
    return 0.5 * 10 ** -len(digits) * 1.001


def near(cell, value, ms=None):
    """What is printed is `value`, as far as rounding allows: its own, and
    that of the times it was made of."""
    slack = 2e-4 + sum(half(one) / number(one) for one in ms or [])
    return abs(number(cell) - value) <= half(cell) + abs(value) * slack


def times(cell, above, row):
    """The cell is the time `above` over the row's, `~` where the spread of
    either hides the difference."""
    value = number(above["ms"]) / number(row["ms"])
    noise = max(number(above["spread"]), number(row["spread"])) / 100
    slack = sum(half(r["ms"]) / number(r["ms"]) for r in (above, row)) + 6e-4
    assert near(cell, value, [above["ms"], row["ms"]]), (cell, value)
    if abs(abs(value - 1) - noise) > slack:
        assert cell.startswith("~") == (abs(value - 1) <= noise), cell


def rates(run, table, nbytes):
    peak = float(re.search(r"peak ([\d.]+) GB/s", run.body)[1])
    copy = [r for r in table.rows if r["row"] == "copy (ceiling)"]
    for row in table.rows:
        gbs = number(row["GB/s"])
        assert near(row["GB/s"], nbytes / number(row["ms"]) / 1e6,
                    [row["ms"]]), row
        assert near(row["% peak"], 100 * gbs / peak) or peak == 0, row
        if copy:
            assert near(row["% copy"], 100 * gbs / number(copy[0]["GB/s"]))
        else:
            assert row["% copy"] == "n/a"


def test_part1_figures(run):
    [table] = tables(run, "Sum of ")
    n, threads = map(int, re.findall(r"(\d+) (?:floats|threads)", table.title))
    rates(run, table, 4 * n)
    sums = -(-n // (2 * threads))
    [first] = [r for r in table.rows if r["row"] == "atomic baseline"]
    [few] = [r for r in table.rows if r["row"] == "few blocks"]
    best = {}
    for row in table.rows:
        label, blocks = row["row"], number(row["blocks"])
        group = max(size(label), 1)
        assert number(row["atomics"]) == blocks / group
        wave = label.startswith("few")
        if not wave:
            assert blocks == -(-sums // group) * group
        elif size(label):
            most = min(number(row["at once"]) * group, sums)
            assert blocks == -(-most // group) * group
        times(row["x baseline"], first, row)
        if number(few["ms"]) and row["x few blocks"] != "n/a":
            times(row["x few blocks"], few, row)
        if size(label) > 1 and (wave not in best or number(row["ms"])
                                < number(best[wave]["ms"])):
            best[wave] = row
    said = re.search(r"of 2 or more is at\n(\S+) of the baseline, fewer blocks "
                     r"without clusters at (\S+); from one wave the best "
                     r"cluster is at\n(\S+) of", run.body)
    times(said[1], first, best[False])
    times(said[2], first, few)
    times(said[3], few, best[True])
    labels = {r["row"] for r in table.rows} | set(table.notes)
    for start, least in (("dsm, cluster", {1}), ("few", {0})):
        assert {size(one) for one in labels
                if one.startswith(start)} == SIZES | least
    if not run.quick:
        ms = {r["row"]: number(r["ms"]) for r in table.rows}
        assert all(one > ms["atomic baseline"] for label, one in ms.items()
                   if label.startswith("dsm"))
        assert ms["dsm, relaxed, cluster of 8"] < ms["dsm, cluster of 8"]
        # Each cluster of one costs more than its block.
        none, one, two, eight = map(float, re.findall(
            r"(?:cluster of \d|no cluster) (\d\.\d+)", run.body)[-4:])
        assert one > 2 * none and none < eight < two < one / 2


def test_exchange_figures(run):
    found = tables(run, "Price of an exchange")
    assert len(found) >= 3
    price = {}
    for table in found:
        threads = int(re.search(r", (\d+) threads", table.title)[1])
        assert table.title.endswith("of 20" if run.quick else "of 2000")
        assert table.columns == ["row"] + [f"{k} blocks" for k in (2, 4, 8,
                                                                   16)]
        for row in table.rows:
            for k in SIZES:
                cell = number(row[f"{k} blocks"])
                assert cell or row[f"{k} blocks"] == "n/a" and k == 16
                price[row["row"].split(" ", 1)[1], threads, k] = cell
    ways = {key[0] for key in price}
    assert ways == {"by cluster barriers", "one way", "through memory"}
    if run.quick:
        return
    for (way, threads, k), ns in price.items():
        if way == "one way" and ns:
            assert ns < price["by cluster barriers", threads, k]
            assert ns < price["through memory", threads, k]
    # The barrier's price grows with threads times blocks.
    assert price["by cluster barriers", 1024, 16] > 4 * price[
        "by cluster barriers", 32, 2]
    assert price["one way", 1024, 16] < 2.2 * price["one way", 32, 2]


def best(table, clusters):
    """The fastest row with, or without, clusters."""
    rows = [r for r in table.rows if (size(r["row"]) > 0) == clusters
            and r["row"] not in ("copy (ceiling)", "yours")]
    return min(rows, key=lambda r: number(r["ms"]), default=None)


def test_part2_figures(run):
    found = lengths(run)
    assert sorted(found) == [2 ** k for k in range(14, 18 if run.quick
                                                   else 21)]
    for length, table in found.items():
        rows = int(re.search(r", (\d+) rows", table.title)[1])
        rates(run, table, 8 * length * rows)
        without = best(table, False)
        for row in table.rows:
            label, blocks = row["row"], number(row["blocks"])
            if label in ("copy (ceiling)", "yours"):
                assert row["rows at once"] == row["blocks"] == "-"
                continue
            times(row["x no cluster"], without, row)
            assert 0 < number(row["rows at once"]) <= rows
            assert blocks in ({size(label)} if size(label) else
                              SIZES if label.startswith("k ") else {1})
        labels = {r["row"] for r in table.rows} | set(table.notes)
        for end in ("per row", "one way"):
            assert {size(one) for one in labels if size(one)
                    and one.endswith(end)} == SIZES
        for label, why in table.notes.items():
            if fit := re.match(r"does not fit: (\d+) KiB per block, (\d+) at",
                               why):
                need, most = map(int, fit.groups())
                part = length * 4 // max(size(label), 1) // 1024
                less = 128 if "registers" in label else 0
                assert need == part - less > most
    copies = re.findall(r"cudaMemcpyAsync of the matrix: (\S+) ms, (\S+) GB/s",
                        run.body)
    assert len(copies) == len(found)
    for ms, gbs in copies:  # of the same number of bytes at every length
        assert near(gbs, 8 * length * rows / float(ms) / 1e6, [ms])


def test_conclusion(run):
    """Which row is best, by how much, and where clusters are ahead."""
    [table] = tables(run, "What clusters buy")
    at = {}
    for what in ("ahead", "even, within the spread,", "behind"):
        said = re.search(rf"Clusters are {what} at(.*)\.\n", run.body)
        at.update(dict.fromkeys(said[1].split() if said else [], what[:4]))
    assert len(at) == len(table.rows) == len(lengths(run))
    for row, (length, of) in zip(table.rows, sorted(lengths(run).items())):
        assert 2 ** int(row["length"][2:]) == length
        pair = []
        for name, clusters in (("without", False), ("with", True)):
            pair.append(of.row(row[name]))  # as printed, two may be equal
            assert pair[-1]["ms"] == best(of, clusters)["ms"]
            assert (size(row[name]) > 0) == clusters
        times(row["times"], *pair)
        without, with_ = (number(one["ms"]) for one in pair)
        if row["times"].startswith("~"):
            assert at[row["length"]] == "even"
        elif without != with_:
            assert at[row["length"]] == ("ahea" if with_ < without else "behi")


# What a user would pick instead, GB/s at 2^14 to 2^18, where a copy of the
# same bytes has 4,250: quack, torch.compile, a tuned Triton kernel.
PEERS = {14: (3916, 3966, 4155), 15: (3905, 4125, 4114),
         16: (3867, 2760, 3688), 17: (3725, 2570, 2793),
         18: (3621, 2569, 2639)}


def test_targets(run):
    if run.quick or "H200" not in run.body:
        pytest.skip("targets are those of a full run on an H200")
    share = {}
    for length, table in lengths(run).items():
        k = length.bit_length() - 1
        for row in table.rows:
            share[k, row["row"]] = number(row["% copy"])
    no_cluster = "k blocks per row, no cluster"
    assert share[17, no_cluster] >= 89 and share[18, no_cluster] >= 88
    for k, least in {14: 97, 15: 97, 16: 95, 17: 95, 18: 94}.items():
        assert max(value for (log, label), value in share.items()
                   if log == k and label.endswith("one way")) >= least
    for k, peers in PEERS.items():
        top = max(value for (log, label), value in share.items()
                  if log == k and "copy" not in label)
        assert all(top > peer / 42.5 for peer in peers)
    for k, factor in {17: 1.09, 18: 1.10}.items():
        top = max(value for (log, label), value in share.items()
                  if log == k and "copy" not in label)
        assert top >= factor * PEERS[k][0] / 42.5


# ---- profile ---------------------------------------------------------------

READS, WRITES = "dram__bytes_read.sum", "dram__bytes_write.sum"
SECTORS = ("l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld"
           ".ratio")
REDS = "l1tex__t_requests_pipe_lsu_mem_global_op_red.sum"
KERNELS = {"atomic": "reduceBlockAtomic", "few blocks": "reduceBlockAtomic",
           "dsm, relaxed": "reduceClusterRelaxed", "dsm": "reduceClusterDsm",
           "few blocks, cluster": "reduceClusterDsm", "copy": "copyVectors",
           "one block per row, two": "normaliseRowTwoReads",
           "one block per row, row": "normaliseRowShared",
           "k blocks": "normaliseRowBlocks"}


def kernel_of(label):
    if label.startswith("cluster of"):
        return {"per row": "normaliseRowCluster", "one way": ONE_WAY[0],
                "too": ONE_WAY[1]}[re.search("(per row|one way|too)$",
                                             label)[1]]
    return KERNELS[max((start for start in KERNELS if label.startswith(start)),
                       key=len)]


def launches(profile):
    """(row, its table, its launch) of both parts, in the order of the run."""
    rows = [(row, table) for table in profile.run.tables
            if table.title.startswith(("Sum of", "Row length"))
            for row in table.rows]
    found = [one for one in profile.launches
             if not one.kernel.startswith("exchange")]
    assert len(found) == len(rows)
    return [(row, table, one) for (row, table), one in zip(rows, found)]


def test_profile_launches(profile):
    """Kernel, grid, block, cluster and shared memory are those of the row."""
    for row, table, one in launches(profile):
        label = row["row"]
        assert one.kernel == kernel_of(label)
        assert max(one.cluster, 1) == max(size(label), 1)
        if table.title.startswith("Sum of"):
            assert one.grid == number(row["blocks"])
            continue
        length, rows = map(int, re.findall(r"\^(\d+), (\d+)", table.title)[0])
        length = 2 ** length
        threads = one.block  # a profiled run may choose another block size
        if label == "copy (ceiling)":
            assert one.grid == -(-(length * rows // 4) // threads)
            continue
        blocks = number(row["blocks"])
        if label.startswith("k blocks"):
            assert one.grid % 2 == 0 and one.grid <= 16 * rows
            continue
        assert one.grid == blocks * rows
        held = 4 * length // blocks
        if "two reads" in label:
            held = 0
        if "registers" in label:  # 8 float4 per thread
            held = max(0, held - 128 * threads)
        assert held <= one.shared <= held + 2048


def test_profile_atomics(profile):
    """One per block, or per cluster."""
    for row, table, one in launches(profile):
        if table.title.startswith("Sum of"):
            assert one.metrics[REDS] == number(row["atomics"])


def test_profile_exchange(profile):
    """The price is the time of a launch by its rounds."""
    found = [one for one in profile.launches
             if one.kernel.startswith("exchange")]
    cells = [(number(row[f"{k} blocks"]), int(table.title.split()[-1]), k)
             for table in tables(profile.run, "Price") for row in table.rows
             for k in (2, 4, 8, 16) if number(row[f"{k} blocks"])]
    assert len(cells) == len(found)
    for one, (ns, rounds, k) in zip(found, cells):
        assert close(one.metrics["gpu__time_duration.sum"] / rounds, ns, 15)
        assert one.grid == k and max(one.cluster, 1) == (
            1 if one.kernel == "exchangeThroughMemory" else k)


def test_profile_sectors(profile):
    """Per load of a warp: 4 sectors in part 1, 16 in the copy and where a
    row is read twice."""
    for row, table, one in launches(profile):
        if table.title.startswith("Sum of"):
            assert close(one.metrics[SECTORS], 4, 1)
        elif one.kernel in ("copyVectors", "normaliseRowTwoReads"):
            assert close(one.metrics[SECTORS], 16, 1)


HELD = ("copyVectors", "normaliseRowShared", "normaliseRowCluster", *ONE_WAY)


def matrix_bytes(table):
    log, rows = map(int, re.findall(r"\^(\d+), (\d+)", table.title)[0])
    return 4 * 2 ** log * rows


def test_profile_reads_once(profile):
    """Held rows are read from memory once, and written at most once (what L2
    still holds when the kernel ends is written later)."""
    for _, table, one in launches(profile):
        if one.kernel in HELD:
            n = matrix_bytes(table)
            assert close(one.metrics[READS], n, 2)
            assert 0.85 * n < one.metrics[WRITES] < 1.02 * n


def test_profile_two_reads(profile):
    """One block per row reads from memory once while the rows in progress fit
    in L2, and clearly more than once where they do not; k blocks per row keep
    most of the second read in L2."""
    share = {}
    for _, table, one in launches(profile):
        n = matrix_bytes(table) if "Row" in table.title else 1
        log = re.search(r"2\^(\d+)", table.title)
        share[one.kernel, log and int(log[1])] = one.metrics[READS] / n
    assert all(share["normaliseRowTwoReads", k] < 1.05 for k in (14, 15, 16))
    assert all(share["normaliseRowTwoReads", k] > 1.3 for k in (17, 18, 19))
    assert all(share["normaliseRowBlocks", k] < 1.15 for k in (16, 17, 18))


def test_profile_times(profile):
    for row, table, one in launches(profile):
        ms = number(row["ms"])
        if ms > 0.02:
            profiled = one.metrics["gpu__time_duration.sum"] / 1e6
            assert close(profiled, ms, 15), (row, table.title)


def test_timed_bytes(timed):
    """Timed launches, caches left alone: the rows of part 1 read their copy
    from memory, a held row moves what GB/s counts."""
    n = int(re.search(r"Sum of (\d+)", timed.run.body)[1])
    whole = matrix_bytes(next(iter(lengths(timed.run).values())))
    seen = 0
    for one in timed.launches:
        reads, writes = one.metrics[READS], one.metrics[WRITES]
        if one.kernel in TREE:
            assert close(reads, 4 * n, 2), (one.kernel, one.grid, reads)
        elif one.kernel in HELD:
            assert close(reads + writes, 2 * whole, 2), (one.kernel, one.grid)
        seen += one.kernel in TREE + HELD
    assert seen >= 8
