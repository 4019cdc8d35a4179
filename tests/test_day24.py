"""Day 24: machine code, profile and printed figures."""
import math
import re

import pytest

from evidence import close
from figures import (ATOMICS, COPY, SECTORS, TIME, as_profiled, cells,
                     launched, moved, near, rates, real, said, table_with,
                     times)

# No row: fillInput reduceYours
RED, BARRIER = r"REDG?\.", r"BAR\.SYNC"  # RED: an atomic without an answer
TREES = ["reduceInterleavedModulo", "reduceInterleavedStrided",
         "reduceSequential", "reduceSequentialTwoLoads"]
TAILS = ["reduceShuffleAtomic", "reduceFinalAtomic"]
SHUFFLES = {**dict.fromkeys(TAILS, 5), "reduceWarpAtomic": 5,
            "reduceTwoStageShuffle": 10}
# label: kernel, elements per thread, what adds to *out: every element, every
# warp, every block or nothing
ROWS = {
    COPY: ("copyFloats", 4, None),
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
LABELS = list(ROWS)
FROM = {**dict(zip(LABELS[2:], LABELS[1:])),  # the row that a row changes
        "v3 + atomic": "v3 sequential", "v0 + warp shuffle": LABELS[1]}
REDUCTIONS = [kernel for kernel, _, _ in ROWS.values()][1:]


def test_copy_16_byte_accesses(kernel):
    assert kernel("copyFloats").count(r"LDG\S*\.128") >= 1
    assert kernel("copyFloats").count(r"STG\S*\.128") >= 1


def test_v0_red_per_thread(kernel):
    v0 = kernel("reduceAtomicGlobal")
    assert v0.count(RED) == 1 and not v0.loops
    assert v0.count(r"ATOM|BAR\.|SHFL|REDUX|MEMBAR") == 0


def test_v0s_shared_cas_loop(kernel):
    v0s = kernel("reduceAtomicShared")
    assert v0s.loops_around(r"ATOMS\.CAS") >= 1
    assert (v0s.count(RED), v0s.count(BARRIER)) == (1, 2)


@pytest.mark.archs(75, 80, 90, 100, 120)
def test_v1_divides(kernel):
    """An integer division starts with a reciprocal."""
    for name in TREES:
        divides = name == TREES[0] and kernel(name).arch < 100
        assert (kernel(name).count(r"MUFU\.RCP") >= 1) == divides


def test_trees_predicated(kernel):
    for one in map(kernel, TREES):
        assert one.predicated("LDS") >= 2 and one.predicated("STS") >= 1


def test_trees_loop_one_barrier(kernel):
    for one in map(kernel, [*TREES, *TAILS, "reduceSequentialAtomic"]):
        assert (one.count(BARRIER), one.loops_around(BARRIER),
                one.before(BARRIER, "LDS")) == (2, 1, 1)


def test_two_loads_first(kernel):
    for name in (TREES[3], TAILS[1], "reduceTwoStageShuffle"):
        assert kernel(name).run("LDG", until="FADD") >= 2


def test_shuffles(kernel):
    for name in ["copyFloats", *REDUCTIONS]:
        assert kernel(name).count("SHFL") == SHUFFLES.get(name, 0)


def test_atomic_finish_red(kernel):
    for name in REDUCTIONS:
        assert [kernel(name).count(what) for what in (
            RED, r"ATOMG?\.", "STG")] == ([0, 0, 1] if name in TREES
                                          else [1, 0, 0])


def test_warp_atomic_alone(kernel):
    assert kernel("reduceWarpAtomic").count(r"BAR\.|LDS|STS|ATOMS") == 0
    assert not kernel("reduceWarpAtomic").loops


def test_two_stages_one_barrier(kernel):
    both = kernel("reduceTwoStageShuffle")
    assert both.count(BARRIER) == 1 and not both.loops
    assert [part.count(what) for part in (both.upto(BARRIER),
                                          both.after(BARRIER))
            for what in ("SHFL", "STS", "LDS")] == [5, 1, 0, 5, 0, 1]


def test_index_64_bit(kernel):
    """Index and n are compared with both halves, and the upper one of the
    index is computed."""
    for one in map(kernel, ["copyFloats", *REDUCTIONS]):
        assert one.count(r"IMAD\.WIDE\.U32 R\d+, R\d+, "
                         r"(?:c\[0x0\]\[0x0\]|UR\d+|0x[12]00), ") >= 1
        assert one.count(r"ISETP\.\S*\.EX P\d, PT, R\d+, ") >= 1
        assert one.count(r"ISETP\.\S*\.EX P\d, PT, RZ, ") == 0


def test_no_local_memory(every_kernel):
    assert not any(kernel.count("LDL|STL") for kernel in every_kernel)


# ---- what the program printed

def facts(run):
    """Floats, threads per block, copies."""
    return map(int, said(run, r"^The ladder: (\d+) floats, (\d+) threads per "
                         r"block, (\d+) copies$"))


def work(run, label):
    """Blocks, threads of each, atomics, floats left of a row."""
    n, threads, _ = facts(run)
    _, per_thread, adds = ROWS.get(label, ROWS[COPY])
    if per_thread == 4:
        return math.ceil(n / 1024), 256, None, n
    blocks = math.ceil(n / (per_thread * threads))
    return blocks, threads, {
        None: None, "element": n, "block": blocks,
        "warp": blocks * threads // 32}[adds], 1 if adds else blocks


def size(run, label):
    """Bytes read and left."""
    return 4 * (next(facts(run)) + work(run, label)[3])


def ladder(run):
    """{label: cells}, without cudaMemcpyAsync."""
    rows = cells(table_with(run, "GB/s"))
    del rows["cudaMemcpyAsync"]
    return rows


def test_rows_as_listed(run):
    table = table_with(run, "GB/s")
    assert table.title.startswith("The ladder: ") and not table.notes
    assert table.columns == ["row", "ms", "spread", "GB/s", "% copy",
                             "% peak", "x from", "launches", "atomics",
                             "% atomics", "leaves"]
    assert list(cells(table)) == [*ROWS, "cudaMemcpyAsync"]
    for label, (_, per_thread, adds) in ROWS.items():
        assert table.row(label)["leaves"] == (
            "n floats" if per_thread == 4 else
            "one float" if adds else "partials")


def test_copies(run):
    """At least four times the L2 lies between two reads of a copy."""
    n, _, copies = facts(run)
    [cache] = said(run, r"L2 ([\d.]+) MB")
    stride = (n // 4096 + 3) * 4096 * 4
    assert (copies - 1) * stride >= 4e6 * (cache - 0.05)
    assert (copies - 2) * stride <= 4e6 * (cache + 0.05)


def test_peak(run):
    """Its data sheet gives an H200 4.8 TB/s."""
    if "NVIDIA H200," not in run.body:
        pytest.skip("another card")
    assert close(*said(run, r"peak (\d+) GB/s"), 4800, 1)


def test_rates(run):
    rates(run, cells(table_with(run, "GB/s")), lambda label: size(run, label))


def test_ladder_column(run):
    rows = cells(table_with(run, "GB/s"))
    for label, row in rows.items():
        if label in FROM:
            times(row["x from"], rows[FROM[label]], row)
        else:
            assert row["x from"] == "-"


def test_atomics_columns(run):
    """v0's time is that of its atomics; the rows that are listed have more
    than 80 % of theirs."""
    rows, (n, _, _) = ladder(run), facts(run)
    v0 = rows["v0 atomic global"]["ms"]
    [pace] = said(run, r"^GB/s: what is read and left\. % atomics: ([\d.]+) "
                  r"ns each, as v0's\.$")
    assert near(pace, 1e6 * v0 / n, v0)
    shares = {}
    for label, row in rows.items():
        count, share = row["atomics"], row["% atomics"]
        if work(run, label)[2] is None:
            assert (count, share) == ("-", "-")
            continue
        assert count == work(run, label)[2]
        paced = 100 * count / n * v0
        assert near(share, paced / row["ms"], v0, row["ms"])
        assert near(share, paced * row["GB/s"] * 1e6 / size(run, label), v0,
                    row["GB/s"])
        shares[label] = share
    del shares["v0 atomic global"]
    [listed] = said(run, r"^Above 80 % a row's atomics hide what its block's "
                    r"sum costs:((?:\n  .+)+| none)$")
    assert re.findall(r"\n +(.*)", listed) in [
        [label for label, share in shares.items() if share > least]
        for least in (79.94, 80.06)]


def test_launches_column(run):
    """Batches of 1, 2, 4 and so on launches up to one of 5 ms (1 ms in a quick
    run), then batches of as many: one less than a multiple. Half of them are
    allowed for, where a batch of the warm-up lasted longer."""
    for row in cells(table_with(run, "GB/s")).values():
        count, ms, batch = row["launches"], row["ms"], 1
        while 2 * batch * ms < (1 if run.quick else 5):
            batch *= 2
        assert (count + 1) % batch == 0 and count < 2 ** 15
        assert run.quick or count > 9 * batch and count * ms > 50


def test_orders(run):
    """With 256 threads both one-float rows of v4 wait for their atomics."""
    real(run)
    rows = ladder(run)
    for label in LABELS[2:7]:
        cell = rows[label]["x from"]
        assert cell > 1 and "~" not in cell.text
    assert rows["v4 two loads"]["% copy"] >= 39
    tail, stages = (rows[label] for label in LABELS[9:11])
    assert min(tail["% atomics"], stages["% atomics"]) > 80
    assert close(stages["ms"], tail["ms"],
                 max(tail["spread"], stages["spread"]))
    assert rows["v0s atomic shared"]["ms"] < rows["v0 + warp shuffle"]["ms"] \
        < rows["v0 atomic global"]["ms"] / 20


def test_copy_is_a_ceiling(run):
    real(run)
    rows = cells(table_with(run, "GB/s"))
    assert 80 < rows["cudaMemcpyAsync"]["% copy"] < 125


def passes(label, threads):
    """Passes through 32 banks by the loads of a tree: all, most in one."""
    found = []
    for s in (2 ** level for level in range(threads.bit_length() - 1)):
        working, step = {"v1": (range(0, threads, 2 * s), 1), "v3": (
            range(s), 1), "v2": (range(threads // (2 * s)), 2 * s)}[label]
        for warp in range(0, threads, 32):
            for offset in (0, s):
                banks = [(t * step + offset) % 32
                         for t in working if warp <= t < warp + 32]
                found.append(max(map(banks.count, banks), default=0))
    return sum(found), max(found)


def test_bank_passes(run):
    _, threads, _ = facts(run)
    rows = cells(table_with(run, "passes"))
    assert list(rows) == LABELS[3:6]
    for label, row in rows.items():
        assert (row["passes"], row["most in one load"]) == \
            passes(label[:2], threads)


# The sum of the first so many elements in exact arithmetic (tried in Python).
EXACT = {100000000: 4200238672.96, 1000000: 42001412.15}


def test_accuracy(run):
    """Errors against the exact sum; bounds; who adds the partial sums."""
    found = [table for table in run.tables if "allowed" in table.columns]
    _, threads, _ = facts(run)
    for table, where, labels in zip(found, ("CPU", "GPU"), (
            ["CPU sequential float", "CPU pairwise float"], LABELS[1:]),
            strict=True):
        assert list(cells(table)) == labels
        n, exact = map(float, re.fullmatch(
            rf"Accuracy on the {where}: (\d+) floats in \[0, 84\); "
            r"exact: ([\d.]+)", table.title).groups())
        assert exact == EXACT[n]
        for label, row in cells(table).items():
            error, allowed = row["sum"] / exact - 1, row["allowed"]
            assert close(row["rel. error"], error, 5.1) or \
                abs(row["rel. error"] - error) < 0.02 / exact
            one_by_one = label in ("CPU sequential float", "v0 atomic global")
            chain = math.ceil(math.log2(n)) if "pairwise" in label else \
                int(math.log2(threads * ROWS[label][1])) \
                if label in LABELS[3:7] else 0
            if chain:
                most = chain * 2 ** -24 / (1 - chain * 2 ** -24)
                assert allowed == f"+-{most:.1e}" and abs(error) <= most
            elif one_by_one and exact > 2 ** 31:
                assert (allowed, row["sum"]) == ("at most 2^31", 2 ** 31)
            else:
                assert allowed == "-"
                assert abs(error) < (0.1 if one_by_one else 1e-4)
            assert row["partials added"] == (
                "-" if where == "CPU" else "atomics" if ROWS[label][2]
                else "CPU, double")


def test_stall_sentence(run):
    """84 is less than half of the way from a float of 2^31 to the next."""
    assert ("of floats below 84 stays at 2147483648: the next float is\n256 "
            "away, and less than half of that is rounded off.") in run.body
    assert 2 ** 31 / 2 ** 23 == 256 and 84 < 256 / 2


# ---- profiles

CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"
PASSES = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"
ACTIVE = "smsp__thread_inst_executed_per_inst_executed.ratio"


def claims(run):
    """[(label, the launch that it claims)]."""
    _, threads, _ = facts(run)
    shared = {"reduceAtomicShared": 4, "reduceTwoStageShuffle": threads // 8,
              **dict.fromkeys([*TREES, *TAILS, "reduceSequentialAtomic"],
                              4 * threads)}
    return [(label, {"kernel": kernel, "grid": work(run, label)[0],
                     "block": work(run, label)[1],
                     "shared": shared.get(kernel, 0)})
            for label, (kernel, _, _) in ROWS.items()]


def metric(profile, label, name):
    found = dict(launched(profile.launches, claims(profile.run)))
    return found[label].metrics[name]


def test_launches_as_rows(profile):
    assert launched(profile.launches, claims(profile.run))


def test_time_as_profiled(profile):
    for label, one in launched(profile.launches, claims(profile.run)):
        as_profiled(ladder(profile.run)[label], one)


def test_sectors(profile):
    for label in LABELS:
        assert close(metric(profile, label, SECTORS),
                     16 if label == COPY else 4, 0.1)


def test_shared_passes(profile):
    """What the program counts, and one more for the load of the block's sum.
    Other traffic meets the loads at the banks: hence 5 and 10 %."""
    rows = cells(table_with(profile.run, "passes"))
    v1, v2, v3 = rows
    for label, row in rows.items():
        blocks, seen = work(profile.run, label)[0], metric(
            profile, label, PASSES)
        assert close(seen, blocks * (row["passes"] + 1), 5)
        conflicts = metric(profile, label, CONFLICTS)
        assert conflicts <= 0.05 * seen if label != v2 else close(
            conflicts, blocks * (row["passes"] - rows[v3]["passes"]), 5)
    label = "v4 + two-stage shuffle"
    assert close(metric(profile, label, PASSES), work(profile.run, label)[0],
                 10)


def test_active_lanes(profile):
    assert metric(profile, "v0s atomic shared", ACTIVE) <= 24
    assert all(metric(profile, v, ACTIVE) >= 31 for v in LABELS[3:7])


def test_atomics_as_counted(profile):
    """A request of v0 carries the 32 atomics of a warp, of other rows one."""
    for label in LABELS:
        lanes = 32 if label == "v0 atomic global" else 1
        count = math.ceil((work(profile.run, label)[2] or 0) / lanes)
        assert metric(profile, label, ATOMICS) == count


def test_timed_launches(timed):
    for label, claim in claims(timed.run):
        n, _, _ = facts(timed.run)
        seen = moved(timed, claim, 4 * n, size(timed.run, label) - 4 * n)
        as_profiled(ladder(timed.run)[label],
                    sorted(seen[-4:], key=lambda one: one.metrics[TIME])[1])
