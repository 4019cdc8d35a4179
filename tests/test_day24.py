"""Day 24: machine code, profile and printed figures."""
import math
import re

import pytest

from evidence import close
from figures import (ATOMICS, COPY, SECTORS, TIME, as_profiled, cells,
                     compared, launched, moved, near, rates, real, rows_with,
                     said)

# No row: fillInput reduceYours
RED, BARRIER = r"REDG?\.", r"BAR\.SYNC"  # RED: an atomic without an answer
TREES = ["reduceInterleavedModulo", "reduceInterleavedStrided",
         "reduceSequential", "reduceSequentialTwoLoads"]
FINISHED = ["reduceSequentialAtomic", "reduceShuffleAtomic",
            "reduceFinalAtomic"]  # trees with an atomic at the end
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
    "v3 + atomic": (FINISHED[0], 1, "block"),
    "v3 + shuffle + atomic": (FINISHED[1], 1, "block"),
    "v4 + shuffle + atomic": (FINISHED[2], 2, "block"),
    "v4 + two-stage shuffle": ("reduceTwoStageShuffle", 2, "block"),
    "v0 + warp shuffle": ("reduceWarpAtomic", 1, "warp"),
    "cudaMemcpyAsync": (None, 4, None),
}
LABELS = list(ROWS)
FROM = {**dict(zip(LABELS[2:-1], LABELS[1:])),  # the row that a row changes
        "v3 + atomic": "v3 sequential", "v0 + warp shuffle": LABELS[1]}
KERNELS = [kernel for kernel, _, _ in ROWS.values() if kernel]


def test_copy_16_byte_accesses(kernel):
    copy = kernel("copyFloats")
    assert min(copy.counts(r"LDG\S*\.128", r"STG\S*\.128")) >= 1


def test_v0_red_per_thread(kernel):
    v0 = kernel("reduceAtomicGlobal")
    assert v0.counts(RED, r"ATOM|BAR\.|SHFL|REDUX|MEMBAR") == [1, 0]
    assert not v0.loops


def test_v0s_shared_cas_loop(kernel):
    v0s = kernel("reduceAtomicShared")
    assert v0s.loops_around(r"ATOMS\.CAS") >= 1
    assert v0s.counts(RED, BARRIER) == [1, 2]


@pytest.mark.archs(75, 80, 90, 100, 120)
def test_v1_divides(kernel):
    """An integer division starts with a reciprocal."""
    for one in map(kernel, TREES):
        divides = one.name == TREES[0] and one.arch < 100
        assert (one.count(r"MUFU\.RCP") >= 1) == divides


def test_trees_predicated(kernel):
    for one in map(kernel, TREES):
        assert one.predicated("LDS") >= 2 and one.predicated("STS") >= 1


def test_trees_loop_one_barrier(kernel):
    for one in map(kernel, TREES + FINISHED):
        assert one.loops_around(BARRIER) == one.before(BARRIER, "LDS") == 1
        assert one.count(BARRIER) == 2


def test_two_loads_first(kernel):
    for name in (TREES[3], FINISHED[2], "reduceTwoStageShuffle"):
        assert kernel(name).run("LDG", until="FADD") >= 2


def test_shuffles(kernel):
    some = {**dict.fromkeys([*FINISHED[1:], "reduceWarpAtomic"], 5),
            "reduceTwoStageShuffle": 10}
    for one in map(kernel, KERNELS):
        assert one.count("SHFL") == some.get(one.name, 0)


def test_atomic_finish_red(kernel):
    for one in map(kernel, KERNELS[1:]):
        assert one.counts(RED, r"ATOMG?\.", "STG") == (
            [0, 0, 1] if one.name in TREES else [1, 0, 0])


def test_warp_atomic_alone(kernel):
    one = kernel("reduceWarpAtomic")
    assert one.count(r"BAR\.|LDS|STS|ATOMS") == 0 and not one.loops


def test_two_stages_one_barrier(kernel):
    both = kernel("reduceTwoStageShuffle")
    assert both.count(BARRIER) == 1 and not both.loops
    assert both.upto(BARRIER).counts("SHFL", "STS", "LDS") == [5, 1, 0]
    assert both.after(BARRIER).counts("SHFL", "STS", "LDS") == [5, 0, 1]


def test_index_64_bit(kernel):
    """Index and n are compared with both halves, and the upper one of the
    index is computed."""
    for one in map(kernel, KERNELS):
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
                         r"block, (\d+) copies\nrow "))


def work(run):
    """{label: (launch, atomics or None, bytes moved)}, as claimed."""
    n, threads, _ = facts(run)
    shared = {**dict.fromkeys(TREES + FINISHED, 4 * threads),
              "reduceAtomicShared": 4, "reduceTwoStageShuffle": threads // 8}
    found = {}
    for label, (kernel, each, adds) in ROWS.items():
        block = 256 if each == 4 else threads
        grid = math.ceil(n / (each * block))
        found[label] = ({"kernel": kernel, "grid": grid, "block": block,
                         "shared": shared.get(kernel, 0)},
                        {"element": n, "warp": grid * block // 32,
                         "block": grid}.get(adds),
                        4 * (n + (n if each == 4 else 1 if adds else grid)))
    return found


def test_rows_as_listed(run):
    rows = rows_with(run)
    assert list(rows) == LABELS
    assert list(rows[COPY]) == [
        "row", "ms", "spread", "GB/s", "% copy", "% peak", "x from",
        "launches", "atomics", "% atomics", "leaves"]
    for label, (_, each, adds) in ROWS.items():
        assert rows[label]["leaves"] == (
            "n floats" if each == 4 else "one float" if adds else "partials")


def test_copies(run):
    """At least four times the L2 lies between two reads of a copy."""
    n, _, copies = facts(run)
    [cache] = said(run, r"L2 ([\d.]+) MB")
    stride = (n // 4096 + 3) * 4096 * 4
    assert (copies - 1) * stride >= 4e6 * (cache - 0.05)
    assert (copies - 2) * stride <= 4e6 * (cache + 0.05)


def test_peak(run):
    """Its data sheet gives an H200 4.8 TB/s."""
    [peak] = said(run, r"peak (\d+) GB/s")
    assert close(peak, 4800, 1) or "NVIDIA H200," not in run.body


def test_rates(run):
    rates(run, rows_with(run), lambda label: work(run)[label][2])


def test_ladder_column(run):
    compared(rows_with(run), "x from", FROM, "-")


def test_atomics_columns(run):
    """v0's time is that of its atomics; the rows that are listed have more
    than 80 % of theirs. Without v0 nothing is known."""
    rows, (n, _, _), shares = rows_with(run), facts(run), {}
    v0 = rows.get("v0 atomic global", {}).get("ms")
    pace, listed = said(
        run, r"^GB/s: what is read and left\. % atomics: (\S+) ns each, as "
        r"v0's\.\nAbove 80 % a row's atomics hide what its block's sum costs:"
        r"((?:\n  .+)+| none| n/a)$")
    assert near(pace, 1e6 * v0 / n, v0) if v0 else \
        (pace, listed) == ("n/a", " n/a")
    for label, row in rows.items():
        _, atomics, size = work(run)[label]
        count, share, ms, rate = map(row.get, (
            "atomics", "% atomics", "ms", "GB/s"))
        assert count == (atomics or "-")
        if atomics and v0:
            shares[label], paced = share, 100 * atomics / n * v0
            assert near(share, paced / ms, v0, ms)
            assert near(share, paced * rate * 1e6 / size, v0, rate)
        else:
            assert share == ("n/a" if atomics else "-")
    shares.pop("v0 atomic global", None)
    assert re.findall(r"\n +(.*)", listed) in [
        [label for label, share in shares.items() if share > least]
        for least in (79.94, 80.06)]


def test_launches_column(run):
    """Batches of 1, 2, 4 and so on launches up to one of 5 ms, then batches of
    as many: one less than a multiple. Half of them are allowed for, where a
    batch of the warm-up lasted longer."""
    real(run)
    for row in rows_with(run).values():
        count, ms, batch = row["launches"], row["ms"], 1
        while 2 * batch * ms < 5:
            batch *= 2
        assert (count + 1) % batch == 0 and 9 * batch < count < 2 ** 15
        assert count * ms > 50


def test_orders(run):
    """With 256 threads both one-float rows of v4 wait for their atomics."""
    real(run)
    rows = rows_with(run)
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
    assert 80 < rows_with(run)["cudaMemcpyAsync"]["% copy"] < 125


def passes(version, threads):
    """Passes through 32 banks by the loads of a tree, two for each addition:
    all, most in one."""
    found = []
    for s in (2 ** level for level in range(threads.bit_length() - 1)):
        working, step = {"v1": (range(0, threads, 2 * s), 1),
                         "v2": (range(threads // (2 * s)), 2 * s),
                         "v3": (range(s), 1)}[version]
        for warp in range(threads // 32):
            banks = [t * step % 32 for t in working if t // 32 == warp]
            found += 2 * [max(map(banks.count, banks), default=0)]
    return sum(found), max(found)


def test_bank_passes(run):
    _, threads, _ = facts(run)
    rows = rows_with(run, "passes")
    assert [*rows] == LABELS[3:6]
    for label, row in rows.items():
        assert (row["passes"], row["most in one load"]) == \
            passes(label[:2], threads)


# The sum of the first so many elements in exact arithmetic (tried in Python).
EXACT = {100000000: 4200238672.96, 1000000: 42001412.15}


def test_accuracy(run):
    """Errors against the exact sum; bounds; who adds the partial sums. One
    float is a multiple of its last bit; the errors of many blocks cancel."""
    _, threads, _ = facts(run)
    levels = int(math.log2(threads))
    on_cpu, on_gpu = (cells(one) for one in run.tables
                      if "allowed" in one.columns)
    assert list(on_cpu) == ["CPU sequential float", "CPU pairwise float"]
    assert list(on_gpu) == LABELS[1:-1]
    for where, rows in (("CPU", on_cpu), ("GPU", on_gpu)):
        n, exact = said(run, rf"^Accuracy on the {where}: (\d+) floats in \[0,"
                        r" 84\); exact: ([\d.]+)\nrow ")
        assert exact == EXACT[n]
        chains = {**dict.fromkeys(LABELS[3:6], levels), LABELS[6]: levels + 1,
                  "CPU pairwise float": math.ceil(math.log2(n))}
        for label, row in rows.items():
            error, allowed = row["sum"] / exact - 1, row["allowed"]
            one_by_one = label in ("CPU sequential float", "v0 atomic global")
            assert close(row["rel. error"], error, 5.1) or \
                abs(row["rel. error"] - error) < 0.02 / exact
            if label in chains:
                k = chains[label] / 2 ** 24
                assert allowed == f"+-{k / (1 - k):.1e}"
                assert abs(error) <= k / (1 - k)
            elif one_by_one and exact > 2 ** 31:
                assert (allowed, row["sum"]) == ("at most 2^31", 2 ** 31)
            else:
                assert allowed == "-"
                assert abs(error) < (0.1 if one_by_one else 1e-4)
            added = row["partials added"]
            assert added == ("-" if where == "CPU" else "atomics"
                             if ROWS[label][2] else "CPU, double")
            last_bit = 2 ** (math.frexp(row["sum"])[1] - 24)
            assert abs(error) < 1e-8 if added == "CPU, double" \
                else row["sum"] % last_bit == 0


def test_stall_sentence(run):
    assert ("of floats below 84 stays at 2147483648: the next float is\n256 "
            "away, and less than half of that is rounded off.") in run.body


# ---- profiles

CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"
PASSES = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"
ACTIVE = "smsp__thread_inst_executed_per_inst_executed.ratio"


def launches(profile):
    """{label: its launch}, each as claimed."""
    return dict(launched(profile.launches, [
        (label, claim) for label, (claim, _, _) in work(profile.run).items()
        if claim["kernel"]]))


def test_launches_as_rows(profile):
    assert launches(profile)


def test_time_as_profiled(profile):
    for label, one in launches(profile).items():
        as_profiled(rows_with(profile.run)[label], one)


def test_sectors(profile):
    for label, one in launches(profile).items():
        assert close(one.metrics[SECTORS], 16 if label == COPY else 4, 0.1)


def test_shared_passes(profile):
    """What the program counts, and one more for the load of the block's sum.
    Other traffic meets the loads at the banks: hence 5 and 10 %."""
    rows, seen = rows_with(profile.run, "passes"), launches(profile)
    v1, v2, v3 = rows
    for label, row in rows.items():
        one = seen[label]
        assert close(one.metrics[PASSES], one.grid * (row["passes"] + 1), 5)
        conflicts = one.grid * (row["passes"] - rows[v3]["passes"])
        assert close(one.metrics[CONFLICTS], conflicts, 5) if label == v2 \
            else one.metrics[CONFLICTS] <= 0.05 * one.metrics[PASSES]
    stages = seen["v4 + two-stage shuffle"]
    assert close(stages.metrics[PASSES], stages.grid, 10)


def test_active_lanes(profile):
    """Most leave the loop of v0s early; none leaves a tree."""
    active = {label: one.metrics[ACTIVE]
              for label, one in launches(profile).items()}
    assert active["v0s atomic shared"] <= 24
    assert min(active[label] for label in LABELS[3:7]) >= 31


def test_atomics_as_counted(profile):
    """A request of v0 carries the 32 atomics of a warp, of other rows one."""
    for label, one in launches(profile).items():
        lanes = 32 if label == "v0 atomic global" else 1
        _, atomics, _ = work(profile.run)[label]
        assert one.metrics[ATOMICS] == math.ceil((atomics or 0) / lanes)


def test_timed_launches(timed):
    """Eight of each: cudaMemcpyAsync launches none of them."""
    n, _, _ = facts(timed.run)
    for label, (claim, _, size) in work(timed.run).items():
        if claim["kernel"]:
            whole = moved(timed, claim, 4 * n, size - 4 * n)
            assert len(whole) == 8, label
            as_profiled(rows_with(timed.run)[label], sorted(
                whole[-4:], key=lambda one: one.metrics[TIME])[1])
