"""Day 24: machine code, profile and printed figures; each test is a claim of
research/day24-reduction.md."""
import math
import re
from statistics import median

import pytest

from evidence import close, number

# No row: fillInput reduceYours
RED = r"REDG?\."  # an atomic on global memory that brings no value back
TREES = ["reduceInterleavedModulo", "reduceInterleavedStrided",
         "reduceSequential", "reduceSequentialTwoLoads"]
TAILS = ["reduceShuffleAtomic", "reduceFinalAtomic"]
SHUFFLES = {**dict.fromkeys(TAILS, 5), "reduceWarpAtomic": 5,
            "reduceTwoStageShuffle": 10}
TWO_LOADS = ["reduceSequentialTwoLoads", "reduceFinalAtomic",
             "reduceTwoStageShuffle"]
# label: kernel, blocks' worth of elements per block (of the copy 4), what a
# block adds to *out: every element, every warp, itself or nothing
ROWS = {
    "copy (ceiling)": ("copyFloats", 4, None),
    "v0 atomic global": ("reduceAtomicGlobal", 1, "element"),
    "v0s atomic shared": ("reduceAtomicShared", 1, "block"),
    "v1 interleaved modulo": (TREES[0], 1, None),
    "v2 interleaved strided": (TREES[1], 1, None),
    "v3 sequential": (TREES[2], 1, None),
    "v4 two loads": (TREES[3], 2, None),
    "v3 + atomic": ("reduceSequentialAtomic", 1, "block"),
    "v3 + shuffle + atomic": (TAILS[0], 1, "block"),
    "v4 + shuffle + atomic": (TAILS[1], 2, "block"),
    "v4 + two-stage shuffle": ("reduceTwoStageShuffle", 2, "block"),
    "v0 + warp shuffle": ("reduceWarpAtomic", 1, "warp"),
}
FROM = {  # the row that a row changes, as the comment at its kernel says
    "v0s atomic shared": "v0 atomic global",
    "v1 interleaved modulo": "v0s atomic shared",
    "v2 interleaved strided": "v1 interleaved modulo",
    "v3 sequential": "v2 interleaved strided",
    "v4 two loads": "v3 sequential",
    "v3 + atomic": "v3 sequential",
    "v3 + shuffle + atomic": "v3 + atomic",
    "v4 + shuffle + atomic": "v3 + shuffle + atomic",
    "v4 + two-stage shuffle": "v4 + shuffle + atomic",
    "v0 + warp shuffle": "v0 atomic global",
}
REDUCTIONS = [kernel for kernel, _, _ in ROWS.values()][1:]


# ---- machine code

def test_copy_16_byte_accesses(kernel):
    assert kernel("copyFloats").count(r"LDG\S*\.128") >= 1
    assert kernel("copyFloats").count(r"STG\S*\.128") >= 1


def test_v0_red_per_thread(kernel):
    """One atomic per thread, and nothing before or around it."""
    assert kernel("reduceAtomicGlobal").count(RED) == 1
    assert kernel("reduceAtomicGlobal").count(
        r"ATOM|BAR\.|SHFL|REDUX|MEMBAR") == 0
    assert not kernel("reduceAtomicGlobal").loops


def test_v0s_shared_cas_loop(kernel):
    assert kernel("reduceAtomicShared").loops_around(r"ATOMS\.CAS") >= 1
    assert kernel("reduceAtomicShared").count(RED) == 1
    assert kernel("reduceAtomicShared").count(r"BAR\.SYNC") == 2


@pytest.mark.archs(75, 80, 90, 100, 120)
def test_v1_divides(kernel):
    """An integer division starts with a reciprocal."""
    divides = kernel(TREES[0]).arch < 100
    assert (kernel(TREES[0]).count(r"MUFU\.RCP") >= 1) == divides
    for name in TREES[1:]:
        assert kernel(name).count(r"MUFU\.RCP") == 0


def test_trees_predicated(kernel):
    for name in TREES:
        assert kernel(name).predicated("LDS") >= 2
        assert kernel(name).predicated("STS") >= 1


def test_trees_loop_one_barrier(kernel):
    """One barrier in the loop, one before it."""
    for name in TREES + TAILS + ["reduceSequentialAtomic"]:
        assert kernel(name).count(r"BAR\.SYNC") == 2
        assert kernel(name).loops_around(r"BAR\.SYNC") == 1
        assert kernel(name).before(r"BAR\.SYNC", "LDS") == 1


def test_two_loads_first(kernel):
    for name in TWO_LOADS:
        assert kernel(name).run("LDG", until="FADD") >= 2


def test_shuffles(kernel):
    for name in ["copyFloats", *REDUCTIONS]:
        assert kernel(name).count("SHFL") == SHUFFLES.get(name, 0)


def test_atomic_finish_red(kernel):
    for name in REDUCTIONS:
        adds = name not in TREES
        assert kernel(name).count(RED) == adds
        assert kernel(name).count(r"ATOMG?\.") == 0
        assert kernel(name).count("STG") == (not adds)


def test_warp_atomic_alone(kernel):
    """Registers only: no shared memory, no barrier, no loop."""
    assert kernel("reduceWarpAtomic").count(r"BAR\.|LDS|STS|ATOMS") == 0
    assert not kernel("reduceWarpAtomic").loops


def test_two_stages_one_barrier(kernel):
    """Five shuffles, a word stored, the barrier, a word loaded, five more."""
    both = kernel("reduceTwoStageShuffle")
    assert both.count(r"BAR\.SYNC") == 1 and not both.loops
    first, second = both.upto(r"BAR\.SYNC"), both.after(r"BAR\.SYNC")
    assert (first.count("SHFL"), first.count("STS"), first.count("LDS"),
            second.count("SHFL"), second.count("STS"),
            second.count("LDS")) == (5, 1, 0, 5, 0, 1)


def test_index_64_bit(kernel):
    """Index and n are compared with both halves, and the upper one of the
    index is computed."""
    for name in ["copyFloats", *REDUCTIONS]:
        assert kernel(name).count(r"IMAD\.WIDE\.U32 R\d+, R\d+, "
                                  r"(?:c\[0x0\]\[0x0\]|UR\d+|0x[12]00), ") >= 1
        assert kernel(name).count(r"ISETP\.\S*\.EX P\d, PT, R\d+, ") >= 1
        assert kernel(name).count(r"ISETP\.\S*\.EX P\d, PT, RZ, ") == 0


def test_no_local_memory(every_kernel):
    for kernel in every_kernel:
        assert kernel.count("LDL|STL") == 0


# ---- what the program printed, read again

def facts(run):
    """(floats, threads per block, copies, peak) that a run tells."""
    title = re.search(r"^The ladder: (\d+) floats, (\d+) threads per block, "
                      r"(\d+) copies$", run.body, re.M)
    peak = re.search(r"peak (\d+) GB/s", run.body)
    return *map(int, title.groups()), int(peak[1])


def main_table(run):
    [table] = [table for table in run.tables if "GB/s" in table.columns]
    assert table.title.startswith("The ladder: ")
    assert not table.notes
    return table


def grid(label, n, threads):
    """A copy has 256 threads per block, whatever the others have."""
    kernel, worth, _ = ROWS[label]
    return math.ceil(n / (worth * (256 if worth == 4 else threads)))


def words(label, n, threads):
    """Floats that a launch leaves."""
    if label in ("copy (ceiling)", "cudaMemcpyAsync"):
        return n
    return 1 if ROWS[label][2] else grid(label, n, threads)


def atomics(label, n, threads):
    """None where a row has none."""
    blocks = ROWS[label][2] and grid(label, n, threads)
    return {None: None, "element": n, "block": blocks,
            "warp": blocks and blocks * threads // 32}[ROWS[label][2]]


def time_of(row, size):
    """The least and the most ms that the row's ms and GB/s allow."""
    ms, rate = number(row["ms"]), number(row["GB/s"])
    slow = size / (rate - 0.051) / 1e6 if rate > 0.1 else math.inf
    return (max(ms - 0.000051, size / (rate + 0.051) / 1e6),
            min(ms + 0.000051, slow))


def times(run):
    """{label: (least, most ms)}; bytes: what is read, and what is left."""
    n, threads, _, _ = facts(run)
    return {row["row"]: time_of(row, 4 * (n + words(row["row"], n, threads)))
            for row in main_table(run).rows}


def near(cell, least, most, step):
    """Whether a printed number is in a range, half a step to either side."""
    return least - 0.51 * step <= number(cell) <= most + 0.51 * step


def test_rows_as_listed(run):
    """All rows, in order, each with what it leaves; then cudaMemcpyAsync."""
    table = main_table(run)
    assert table.columns == ["row", "ms", "spread", "GB/s", "% copy",
                             "% peak", "x from", "launches", "atomics",
                             "% atomics", "leaves"]
    assert [row["row"] for row in table.rows] == [*ROWS, "cudaMemcpyAsync"]
    for row in table.rows[:-1]:
        kernel, worth, adds = ROWS[row["row"]]
        assert row["leaves"] == ("n floats" if worth == 4 else
                                 "one float" if adds else "partials")


def test_copies(run):
    """At least four times the L2 lies between two reads of a copy."""
    n, _, copies, _ = facts(run)
    cache = float(re.search(r"L2 ([\d.]+) MB", run.body)[1]) * 1e6
    stride = (n // 4096 + 3) * 4096 * 4
    assert (copies - 1) * stride >= 4 * (cache - 5e4)
    assert (copies - 2) * stride <= 4 * (cache + 5e4)


def test_peak(run):
    """Its data sheet gives an H200 4.8 TB/s."""
    if "NVIDIA H200," not in run.body:
        pytest.skip("another card")
    assert close(facts(run)[3], 4800, 1)


def test_rates(run):
    """GB/s is what is read and left over the time; its shares of the copy and
    of the peak."""
    _, _, _, peak = facts(run)
    rows = {row["row"]: row for row in main_table(run).rows}
    copy = number(rows["copy (ceiling)"]["GB/s"])
    for label, (least, most) in times(run).items():
        assert least <= most, f"{label}: ms and GB/s do not belong together"
        rate = number(rows[label]["GB/s"])
        assert near(rows[label]["% copy"], 100 * (rate - 0.05) / (copy + 0.05),
                    100 * (rate + 0.05) / (copy - 0.05), 0.1)
        assert near(rows[label]["% peak"], 100 * (rate - 0.05) / (peak + 0.5),
                    100 * (rate + 0.05) / (peak - 0.5), 0.1)
        assert rate < 1.02 * peak


def test_ladder_column(run):
    """`x from` is the time of the row that a row changes over the row's; `~`
    where that is within the spread of either."""
    time, table = times(run), main_table(run)
    for row in table.rows:
        cell = row["x from"]
        if row["row"] not in FROM:
            assert cell == "-"
            continue
        before = table.row(FROM[row["row"]])
        (a, b), (c, d) = time[before["row"]], time[row["row"]]
        assert near(cell, a / d, b / c, 0.01)
        noise = max(number(before["spread"]), number(row["spread"])) / 100
        least, most = sorted((abs(a / d - 1), abs(b / c - 1)))
        if a / d <= 1 <= b / c:
            least = 0
        assert cell.startswith("~") or most > noise - 0.0006
        assert not cell.startswith("~") or least < noise + 0.0006


def test_atomics_columns(run):
    """How many atomics a launch makes, and the share of its time that they
    take at v0's pace, which the line below the table tells; and the line that
    names the rows, without v0, of which it is above 80 %."""
    n, threads, _, _ = facts(run)
    time = times(run)
    pace = [one / n for one in time["v0 atomic global"]]
    told = re.search(r"^GB/s: what is read and left\. % atomics: ([\d.]+) ns "
                     r"each, as v0's\.$", run.body, re.M)
    assert near(told[1], 1e6 * pace[0], 1e6 * pace[1], 0.001)
    for row in main_table(run).rows[:-1]:
        count = atomics(row["row"], n, threads)
        if not count:
            assert (row["atomics"], row["% atomics"]) == ("-", "-")
            continue
        least, most = time[row["row"]]
        assert number(row["atomics"]) == count
        assert near(row["% atomics"], 100 * count * pace[0] / most,
                    100 * count * pace[1] / least, 0.1)
    listed = re.search(r"^Above 80 % a row's atomics hide what its block's sum "
                       r"costs:((?:\n  .+)+| none)$", run.body, re.M)[1]
    listed = [line.strip() for line in listed.splitlines()[1:]]
    shares = {row["row"]: number(row["% atomics"])
              for row in main_table(run).rows if row["% atomics"] != "-"}
    del shares["v0 atomic global"]
    assert [label for label in shares if label in listed] == listed
    assert all((label in listed) == (share > 80) or abs(share - 80) < 0.06
               for label, share in shares.items())


def test_launches_column(run):
    """Batches of 1, 2, 4 and so on launches up to one of 5 ms (1 ms in a quick
    run), then batches of as many: one less than a multiple. Half of them are
    allowed for, where a batch of the warm-up lasted longer."""
    for row in main_table(run).rows:
        count, ms = number(row["launches"]), number(row["ms"])
        batch = 1
        while 2 * batch * ms < (1 if run.quick else 5):
            batch *= 2
        assert (count + 1) % batch == 0 and count < 2 ** 15
        assert run.quick or count > 9 * batch and count * ms > 50


def test_orders(run):
    """v0 to v4, each faster than the one before; v4 at 0.39 of the copy or
    more. With 256 threads both one-float rows of v4 wait for their atomics."""
    if run.quick:
        pytest.skip("the times of a quick run mean nothing")
    rows = {row["row"]: row for row in main_table(run).rows}
    for label in list(ROWS)[2:7]:
        cell = rows[label]["x from"]
        assert "~" not in cell and number(cell) > 1
    assert number(rows["v4 two loads"]["% copy"]) >= 39
    tail, stages = rows["v4 + shuffle + atomic"], rows["v4 + two-stage shuffle"]
    assert min(number(row["% atomics"]) for row in (tail, stages)) > 80
    assert close(number(stages["ms"]), number(tail["ms"]), max(
        number(row["spread"]) for row in (tail, stages)))
    time = times(run)
    assert time["v0s atomic shared"][1] < time["v0 + warp shuffle"][0] \
        < time["v0 atomic global"][0] / 20


def test_copy_is_a_ceiling(run):
    if run.quick:
        pytest.skip("the times of a quick run mean nothing")
    share = number(main_table(run).row("cudaMemcpyAsync")["% copy"])
    assert 80 < share < 125


def passes(label, threads):
    """Passes through 32 banks by the loads of a tree, (all, most in one)."""
    total = worst = 0
    for level in range(threads.bit_length() - 1):
        s = 2 ** level
        working = {"v1": range(0, threads, 2 * s), "v3": range(s),
                   "v2": range(threads // (2 * s))}[label]
        for warp in range(0, threads, 32):
            for offset in (0, s):
                banks = [(t * (2 * s if label == "v2" else 1) + offset) % 32
                         for t in working if warp <= t < warp + 32]
                most = max(map(banks.count, banks), default=0)
                total, worst = total + most, max(worst, most)
    return total, worst


def test_bank_passes(run):
    _, threads, _, _ = facts(run)
    [table] = [table for table in run.tables if "passes" in table.columns]
    assert [row["row"] for row in table.rows] == list(ROWS)[3:6]
    for row in table.rows:
        assert (number(row["passes"]), number(row["most in one load"])) == \
            passes(row["row"][:2], threads)


# The sum of the first so many elements in exact arithmetic (tried in Python).
EXACT = {100000000: 4200238672.96, 1000000: 42001412.15}


def test_accuracy(run):
    """Errors against the exact sum; bounds; who adds the partial sums."""
    cpu, gpu = [table for table in run.tables if "allowed" in table.columns]
    _, threads, _, _ = facts(run)
    assert [row["row"] for row in cpu.rows] == ["CPU sequential float",
                                                "CPU pairwise float"]
    assert [row["row"] for row in gpu.rows] == list(ROWS)[1:]
    for where, table in (("CPU", cpu), ("GPU", gpu)):
        n, exact = re.fullmatch(
            rf"Accuracy on the {where}: (\d+) floats in \[0, 84\); "
            r"exact: ([\d.]+)", table.title).groups()
        n, exact = int(n), float(exact)
        assert exact == EXACT[n]
        for row in table.rows:
            label, error = row["row"], number(row["sum"]) / exact - 1
            assert close(number(row["rel. error"]), error, 5.1) or \
                abs(number(row["rel. error"]) - error) < 0.02 / exact
            one_by_one = label in ("CPU sequential float", "v0 atomic global")
            chain = math.ceil(math.log2(n)) if "pairwise" in label else \
                int(math.log2(threads * ROWS[label][1])) \
                if label in list(ROWS)[3:7] else 0
            if chain:
                most = chain * 2 ** -24 / (1 - chain * 2 ** -24)
                assert row["allowed"] == f"+-{most:.1e}"
                assert abs(error) <= most
            elif one_by_one and exact > 2 ** 31:
                assert row["allowed"] == "at most 2^31"
                assert number(row["sum"]) == 2 ** 31
            else:
                assert row["allowed"] == "-"
                assert abs(error) < (0.1 if one_by_one else 1e-4)
            assert row["partials added"] == (
                "-" if table is cpu else "atomics" if ROWS[label][2]
                else "CPU, double")


def test_stall_sentence(run):
    """A float of 2^31 is 256 from the next; 84 is less than half of that."""
    assert re.search(r"of floats below 84 stays at 2147483648: the next float "
                     r"is\n256 away, and less than half of that is rounded "
                     r"off\.", run.body)
    assert 2 ** 31 / 2 ** 23 == 256 and 84 < 256 / 2


# ---- profiles

SECTORS = "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio"
CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"
PASSES = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"
ACTIVE = "smsp__thread_inst_executed_per_inst_executed.ratio"
ATOMICS = "l1tex__t_requests_pipe_lsu_mem_global_op_red.sum"
DURATION = "gpu__time_duration.sum"


def metric(profile, kernel, name):
    [launch] = [one for one in profile.launches if one.kernel == kernel]
    return launch.metrics[name]


def test_launches_as_rows(profile):
    """One launch of each row, in their order, with the grid, block and shared
    memory that the row claims."""
    n, threads, _, _ = facts(profile.run)
    shared = {"reduceAtomicShared": 4,
              "reduceTwoStageShuffle": threads // 32 * 4,
              **dict.fromkeys(TREES + TAILS + ["reduceSequentialAtomic"],
                              4 * threads)}
    assert [(one.kernel, one.grid, one.block, one.shared)
            for one in profile.launches] == \
        [(kernel, grid(label, n, threads), 256 if worth == 4 else threads,
          shared.get(kernel, 0)) for label, (kernel, worth, _) in ROWS.items()]


def test_time_as_profiled(profile):
    """The printed time of a row above 20 us is the profiler's, within 15 %."""
    for row in main_table(profile.run).rows[:-1]:
        ms = number(row["ms"])
        seen = metric(profile, ROWS[row["row"]][0], DURATION) / 1e6
        assert ms <= 0.02 or close(ms, seen, 15), f"{row['row']}: {seen} ms"


def test_loads_4_sectors(profile):
    for kernel in REDUCTIONS:
        assert close(metric(profile, kernel, SECTORS), 4, 0.1)


def test_copy_16_sectors(profile):
    assert close(metric(profile, "copyFloats", SECTORS), 16, 0.1)


def test_tree_bank_passes(profile):
    """What the program counts, and one more for the load of the block's sum.
    Other traffic meets the loads at the banks: hence 5 %."""
    n, threads, _, _ = facts(profile.run)
    [table] = [one for one in profile.run.tables if "passes" in one.columns]
    for row in table.rows:
        count = grid(row["row"], n, threads) * (number(row["passes"]) + 1)
        assert close(metric(profile, ROWS[row["row"]][0], PASSES), count, 5)


def test_v2_bank_conflicts(profile):
    """v2 has as many loads as v3, and as many passes as v1."""
    n, threads, _, _ = facts(profile.run)
    [table] = [one for one in profile.run.tables if "passes" in one.columns]
    more = number(table.row("v2 interleaved strided")["passes"]) - number(
        table.row("v3 sequential")["passes"])
    assert close(metric(profile, TREES[1], CONFLICTS),
                 more * grid("v2 interleaved strided", n, threads), 5)
    for kernel in (TREES[0], TREES[2]):
        assert metric(profile, kernel, CONFLICTS) <= 0.05 * metric(
            profile, kernel, PASSES)


def test_two_stages_few_passes(profile):
    """v4 + two-stage shuffle loads from shared memory once per block."""
    blocks = grid("v4 + two-stage shuffle", *facts(profile.run)[:2])
    assert close(metric(profile, "reduceTwoStageShuffle", PASSES), blocks, 10)


def test_v0s_lanes_leave(profile):
    assert metric(profile, "reduceAtomicShared", ACTIVE) <= 24


def test_trees_keep_their_lanes(profile):
    for kernel in TREES:
        assert metric(profile, kernel, ACTIVE) >= 31


def test_atomics_as_counted(profile):
    """A request of v0 carries the 32 atomics of a warp, of other rows one."""
    n, threads, _, _ = facts(profile.run)
    for label, (kernel, _, adds) in ROWS.items():
        count = atomics(label, n, threads) or 0
        if adds == "element":
            count = math.ceil(n / 32)
        assert metric(profile, kernel, ATOMICS) == count


def launches(timed, label):
    """The last half of the timed launches of a row."""
    n, threads, _, _ = facts(timed.run)
    kernel, blocks = ROWS[label][0], grid(label, n, threads)
    found = [one for one in timed.launches
             if (one.kernel, one.grid) == (kernel, blocks)]
    assert len(found) >= 6
    return found[len(found) // 2:]


def test_dram_bytes(timed):
    """With the caches left alone: what the GB/s count, from memory. A row
    that hardly writes brings less than 2 % to memory."""
    n, threads, _, _ = facts(timed.run)
    for label in ROWS:
        seen = launches(timed, label)
        read = median(one.metrics["dram__bytes_read.sum"] for one in seen)
        written = median(one.metrics["dram__bytes_write.sum"] for one in seen)
        assert close(read, 4 * n, 2), label
        assert abs(written - 4 * words(label, n, threads)) <= 0.02 * 4 * n, \
            label


def test_timed_as_timed(timed):
    """Launches one by one, as the profiler sees them, against the column."""
    for row in main_table(timed.run).rows[:-1]:
        ms = number(row["ms"])
        seen = median(one.metrics[DURATION]
                      for one in launches(timed, row["row"])) / 1e6
        assert ms <= 0.02 or close(ms, seen, 15), f"{row['row']}: {seen} ms"
