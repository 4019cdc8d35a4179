"""Day 45: where the loads are, and what its tables say."""
import math
import re

import pytest
from conftest import nvcc_version

from evidence import close
from figures import (COPY, READ, SECTORS, as_profiled, cells, launched, moved,
                     near, rates, real, said, shown)

# No row: pointerChase fillLinks fillValues yours
LOAD, LOAD16 = r"LDG\.", r"LDG\S*\.128"
FLOATS = ("scaleAdd", "scaleAddBounded", "scaleAddGuarded")
STREAMS = ("scaleAddStream", "scaleAddDependent")


# ---- machine code. A first template argument is kItems; each item loads an
# element of x and one of y.

@pytest.mark.archs(75, 80, 86, 89, 90, 100, 103, 110, 120, 121)
def test_loads_before_fma(kernels):
    for name in (*FLOATS[:2], "scaleAddVec", *STREAMS):
        for one in kernels[name]:
            items = one.arguments[0]
            assert one.run(LOAD if name in FLOATS else LOAD16, until="FFMA",
                           block=True) == 2 * items <= 2 * one.count("FFMA")


def test_bound_changes_nothing(kernels, kernel):
    [ilp8] = [k for k in kernels["scaleAdd"] if k.arguments == (8,)]
    assert len(kernel("scaleAddBounded").code) == len(ilp8.code)


@pytest.mark.archs(75, 80, 86, 89, 90, 103, 121)
def test_guarded_loads_are_apart(kernel):
    assert kernel("scaleAddGuarded").run(LOAD, until="FFMA") < 2 * 8


@pytest.mark.archs(100, 110, 120)
def test_guarded_loads_are_together(kernel):
    if nvcc_version()[:2] != (13, 0):
        pytest.skip("another compiler than that of CUDA 13.0")
    assert kernel("scaleAddGuarded").run(LOAD, until="FFMA") == 2 * 8


def test_width_of_loads(kernels, kernel):
    for name in (*FLOATS, "scaleAddVec", *STREAMS):
        for one in kernels[name]:
            assert one.count(LOAD16) == (
                0 if name in FLOATS else 2 * one.arguments[0])
    assert [kernel("copy16").count(what) for what in (
        LOAD16, LOAD, r"STG\S*\.128")] == [1, 1, 1]


def test_streaming_hints(kernels):
    """Evict first: every float4 of the streaming kernels and of the copy."""
    for name in ("copy16", "scaleAddVec", *FLOATS, *STREAMS):
        for one in kernels[name]:
            loads, stores = (1, 1) if name == "copy16" else (
                2 * one.arguments[0], one.arguments[0])
            hints = name in ("copy16", *STREAMS)
            for what, many in (("LDG", loads), ("STG", stores)):
                assert one.count(rf"{what}\S*\.EF\S*\.128") == many * hints
                assert hints or one.count(rf"{what}\S*\.EF") == 0


@pytest.mark.archs(90, 100)
def test_dependent_launch_waits_first(kernels, kernel):
    one = kernel("scaleAddDependent")
    assert one.count("ACQBULK") == 1
    assert one.before("LDG|LD |STG|ST |ATOM|RED", "ACQBULK") == 0
    assert not any(k.count("ACQBULK") for k in kernels["scaleAddStream"])


@pytest.mark.archs(80, 90, 100)
def test_async_ring(kernel):
    """8 stages before the first wait; in the loop one more per round, after
    the stage that it replaces was read; no registers, no barrier."""
    one, wait = kernel("scaleAddAsync"), r"DEPBAR\.LE"
    assert one.count("LDGSTS") == one.count(r"LDGSTS\S*\.128")
    assert one.count(r"BAR|LDG\.\S*\.128") == 0
    assert {i.text[-3:] for i in one.find(wait)} == {"0x7"}
    assert one.before("LDGDEPBAR", wait) == 8
    assert one.before("LDGSTS", wait) in (16, 18)
    for loop in one.loops:
        rounds = loop.count(wait)
        assert loop.count("LDGDEPBAR") == rounds
        assert loop.count("LDGSTS") == loop.count(r"LDS\.128") == 2 * rounds
        order = [i.text[:6] for i in loop.find(wait + r"|LDS\.128|LDGSTS")]
        assert order[:5] == ["DEPBAR", *2 * ["LDS.12"], *2 * ["LDGSTS"]]


def test_async_needs_8_0(kernel):
    one = kernel("scaleAddAsync")
    assert (one.count("LDGSTS") > 0) == (one.arch >= 80)


def test_no_local_memory(every_kernel):
    assert not any(kernel.count("LDL|STL") for kernel in every_kernel)


# ---- what the program printed

ROWS = """tlp1 tlp1-control tlp1-b3 tlp1-b2 tlp1-b1 ilp2 ilp4 ilp8 ilp4-b1
    ilp8-b1 ilp8-lb ilp8-guarded ilp8-guarded-b1 vec1 vec1-b2 vec2-b1 vec2
    suggested vec1-cs vec1-cs-dl vec4-b2 vec8-b2 async-b1""".split()
YARDSTICKS = [COPY, "cudaMemcpyAsync"]
OTHERS = [*YARDSTICKS, "library"]


def claim(label):
    """(kernel, items, floats per load, blocks per SM or None) of a row."""
    if label == "async-b1":
        return "scaleAddAsync", 8, 4, 1
    family, items, suffix, blocks = re.fullmatch(
        r"(tlp|ilp|vec)(\d)(|-control|-lb|-guarded|-cs|-cs-dl)(?:-b(\d))?",
        {"suggested": "tlp1", "yours": "tlp1"}.get(label, label)).groups()
    wide = family == "vec"
    kernel = {"-lb": FLOATS[1], "-guarded": FLOATS[2], "-cs": STREAMS[0],
              "-cs-dl": STREAMS[1]}.get(suffix, "scaleAdd" + "Vec" * wide)
    if kernel == "scaleAddVec" and int(items) > 2:
        kernel = STREAMS[0]
    return kernel, int(items), 4 if wide else 1, int(blocks or 0) or None


def table(run, number):
    [found] = [one for one in run.tables
               if one.title.startswith(f"Table {number}:")]
    return found


def facts(run):
    """SMs, peak, elements, MB."""
    return said(run, r"(\d+) SMs(?:.*\n)*?.*peak (\d+) GB/s(?:.*\n)*?"
                r"Table 2: (\d+) elements, ([\d.]+) MB")


def own(run):
    """Table 2 without yardsticks and library."""
    return {label: row for label, row in cells(table(run, 2)).items()
            if label not in OTHERS}


def copied(n):
    """Vectors of 16 bytes that the copy moves."""
    return (3 * n // 2 + 3) // 4


def test_every_row_is_there(run):
    """Left out are only rows that this build cannot have, or a library that
    is not there."""
    left_out = {"vec1-cs-dl", "async-b1"} if run.arch < 80 else \
        {"vec1-cs-dl"} if run.arch < 90 else set()
    notes, labels = table(run, 2).notes, [*cells(table(run, 2))]
    for label, note in notes.items():
        assert label in left_out | {"library"} and note.startswith("skipped: ")
        assert label == "library" or \
            f"built for {run.arch // 10}.{run.arch % 10}" in note
    there = [label for label in ROWS if label not in left_out]
    assert [one for one in labels if one not in ("library", "yours")] == \
        YARDSTICKS + there
    assert [one for one in cells(table(run, 1)) if one != "yours"] == there
    assert "library" in labels or "library" in notes


def test_residency(run):
    """Table 1: what a row is made of follows from its label; the model is the
    resources divided, its least is the driver's answer; the dial is the least
    that does it."""
    rows = cells(table(run, 1))
    tlp1, control, bounded = (rows[label] for label in (
        "tlp1", "tlp1-control", "ilp8-lb"))
    [reserved] = said(run, r"driver adds (\d+)")

    def step(size):
        return math.ceil(size / 256) * 256
    for label, row in rows.items():
        _, items, width, blocks = claim(label)
        assert label == "yours" or \
            (row["items"], row["width"]) == (items, width)
        assert row["threads"] == 256 or label == "suggested"
        assert row["by warps"] == tlp1["by warps"] * 256 // row["threads"]
        assert row["by regs"] == 4 * (16384 // step(row["regs"] * 32)) // (
            row["threads"] / 32)
        assert row["driver"] == min(
            row[f"by {what}"] for what in ("warps", "cap", "shared", "regs")
            if row[f"by {what}"] != "-") or "! " in run.body
        assert row["local"] == 0 <= row["shared"]
        if reserved:  # the SM's shared memory, from the row without any
            whole = tlp1["by shared"] * step(reserved)
            used = step(row["shared"] + reserved)
            assert row["by shared"] == whole // used
            assert not blocks or label == "async-b1" or \
                whole // (used - 256) == blocks + 1
        assert blocks in (None, row["driver"])
    assert control["driver"] == tlp1["driver"] and control["shared"] > 0
    major, minor, asked = said(
        run, r"ilp8-lb: compiled for (\d+)\.(\d), asked for (\d+)")
    assert 10 * major + minor == run.arch and asked <= bounded["driver"]
    assert asked == {75: 4, 80: 8, 90: 8, 100: 8}.get(run.arch, 6)


def test_rates(run):
    _, _, n, mb = facts(run)
    rows = cells(table(run, 2))
    assert near(mb, 12 * n / 1e6)
    rates(run, rows, lambda label: 32 * copied(n) if label in YARDSTICKS
          else 12 * n)
    # One row may have met another program, not more.
    assert run.quick or sum(row["spread"] > 5 for row in rows.values()) <= 1


def test_occupancy(run):
    """`<=` where guards, few registers or a small grid can make it fewer."""
    sms, _, n, _ = facts(run)
    table1 = cells(table(run, 1))
    for label, row in cells(table(run, 2)).items():
        found = [row[name] for name in
                 ("blocks", "warps", "occ %", "in flight")]
        if label in OTHERS:
            assert found == ["-"] * 4
            continue
        made, (blocks, warps, occupancy, flying) = table1[label], found
        assert blocks == made["driver"]
        assert warps == blocks * made["threads"] / 32
        assert near(occupancy, 100 * warps / (8 * table1["tlp1"]["by warps"]))
        assert flying == warps * 32 * 8 * made["items"] * made["width"]
        registers = made["regs"] <= made["items"] * (2 * made["width"] + 1)
        assert flying.text.startswith("<=") == (
            "guarded" in label or label == "yours" or flying * sms / 8 > n
            or registers and label != "async-b1"), label


def test_curve(run):
    """Table 2 in order of bytes in flight, then of occupancy; ns is Little's
    law; / best, pair and bar are ratios."""
    table2, curve = own(run), cells(table(run, 3))
    del curve["Little's law"]
    assert sorted(curve) == sorted(table2)
    assert list(curve) == sorted(table2, key=lambda label: (
        table2[label]["in flight"], -table2[label]["occ %"]))
    best = max(row["GB/s"] for row in table2.values())
    first = None
    for label, row in curve.items():
        flying, rate = row["in flight"], row["GB/s"]
        at_most = "<=" in flying.text
        assert all(row[name] == table2[label][name] for name in
                   ("in flight", "occ %", "GB/s"))
        assert at_most == ("<=" in table2[label]["in flight"].text)
        assert near(row["ns"], flying * facts(run)[0] / (rate * 2 / 3), rate)
        assert near(row["/ best"], rate / best, rate, best)
        assert set(row["bar"]) == {"-" if at_most else "#"}
        assert abs(len(row["bar"]) - 1 - 24 * rate / best) <= 1
        if first is None or first["in flight"] != flying or \
                "<=" in first["in flight"].text:
            first = row
        assert row["pair"] == "-" if at_most else near(
            row["pair"], first["GB/s"] / rate, first["GB/s"], rate)


def test_littles_law(run):
    """Latency x 2/3 of the peak / SMs, between rows of fewer and of more bytes
    in flight; no row has more in flight than it says."""
    sms, peak, _, _ = facts(run)
    [latency] = said(run, r"alone takes ([\d.]+) ns")
    rate, need, on = said(run, r"(\d+) GB/s of\s+loads, 2/3 of\s+the peak, "
                          r"need\s+at least (\d+) bytes on each of (\d+) SMs")
    rows = cells(table(run, 3))
    at, lines = rows["Little's law"], [*rows.values()]
    assert near(rate, peak * 2 / 3, peak) and on == sms
    assert near(need, latency * peak * 2 / 3 / sms, latency, peak)
    assert at["in flight"] == need and at["ns"] == latency
    assert lines == sorted(lines, key=lambda row: row["in flight"])
    assert 200 < latency < 1500
    for row in lines:
        assert run.quick or "<=" in row["in flight"].text or \
            row["ns"] >= 0.9 * latency  # the gate knows its spread


def test_answer(run):
    """The sentences below Table 3, from Table 2."""
    rows, curve = own(run), cells(table(run, 3))
    library = cells(table(run, 2)).get("library")
    best, rate, occupied, apart, slower, least, at, share, of_library = said(
        run,
        r"Fastest of these rows: (\S+), ([\d.]+) GB/s, at ([\d.]+) % occ.*\n"
        r"(?:Without overlapping launches: (\S+), ([\d.]+) GB/s\.\n)?"
        r"Least occupancy within 10 % of that: (\S+), ([\d.]+) %, ([\d.]+) of"
        r".*\n.* rows has (\S+) of the GB/s of library\.")

    def speed(label):
        return rows[label]["GB/s"]
    want = max(rows, key=speed)
    alone = max((label for label in rows if not label.endswith("-dl")),
                key=speed)
    assert (best, rate, occupied) == (want, speed(best), rows[best]["occ %"])
    assert (apart, slower) == (
        (None, None) if alone == best else (alone, speed(alone)))
    assert least == min((label for label in curve if label in rows
                         and speed(label) >= 0.9 * speed(alone)),
                        key=lambda label: rows[label]["occ %"])
    assert at == rows[least]["occ %"]
    assert near(share, speed(least) / speed(alone), speed(alone))
    assert of_library == "n/a" if library is None else near(
        of_library, speed(best) / library["GB/s"], library["GB/s"])
    # Equal bytes in flight: of the rows with fewer warps, the slowest.
    found = iter(re.findall(
        r"^(\d+) bytes: (\S+) at ([\d.]+) % occupancy takes ([\d.]+) times as "
        r"long\n  as (\S+) at ([\d.]+) %\.$", run.body, re.M))
    groups = {}
    for label, row in curve.items():
        if label in rows and "<=" not in row["in flight"].text:
            groups.setdefault(row["in flight"].text, []).append(label)
    for flying, labels in groups.items():
        most = max(rows[label]["occ %"] for label in labels)
        fewer = [one for one in labels if rows[one]["occ %"] < most]
        if fewer:
            size, slow, low, ratio, first, high = map(shown, next(found))
            a, b = rows[slow]["ms"], rows[first]["ms"]
            assert (size, first, a) == (float(flying), labels[0], max(
                rows[one]["ms"] for one in fewer)) and slow in fewer
            assert low == rows[slow]["occ %"] and high == rows[first]["occ %"]
            assert near(ratio, a / b, a, b)
    assert not list(found)


def test_lengths(run):
    """A full run on a large card tried a length beyond 32 bits."""
    [tried] = said(run, r"^Checked: lengths from 0 to a few tiles(.*)\.$")
    assert tried == ", and 2^32 + 611" or run.quick or \
        "NVIDIA H200," not in run.body


def test_targets(run):
    """What an H200 must reach."""
    real(run)
    if "NVIDIA H200," not in run.body:
        return
    gbs = {label: row["GB/s"] for label, row in cells(table(run, 2)).items()}
    mine = {label: gbs[label] for label in ROWS if label in gbs}
    best = max(mine.values())
    apart = max(rate for label, rate in mine.items() if label != "vec1-cs-dl")
    assert best >= 0.85 * facts(run)[1]
    assert best >= 0.96 * gbs["cudaMemcpyAsync"]
    assert gbs["ilp8-b1"] >= 1.25 * gbs["ilp8-guarded-b1"]
    assert close(gbs["tlp1-control"], gbs["tlp1"], 5)
    assert 0.80 <= gbs["tlp1"] / gbs["vec2-b1"] <= 1.25
    assert gbs["ilp4-b1"] > gbs["tlp1-b3"]
    assert min(gbs["vec4-b2"], gbs["vec8-b2"]) >= 0.91 * gbs["vec1-cs"]
    if run.arch >= 90:
        assert gbs["async-b1"] >= 0.94 * apart
        assert gbs["vec1-cs-dl"] >= 1.01 * gbs["vec1-cs"]
        newest = "cccl" in run.header
        assert best >= (0.99 if newest else 1) * gbs.get("library", 0)


# ---- profiles

ACHIEVED = "sm__warps_active.avg.pct_of_peak_sustained_active"
POSSIBLE = "sm__maximum_warps_per_active_cycle_pct"


def claims(run):
    """[(label, the launch that it claims)]."""
    sms, _, n, _ = facts(run)
    rows = [label for label in cells(table(run, 2))
            if label != "cudaMemcpyAsync"]
    found = [(COPY, {"kernel": "copy16", "block": 256,
                     "grid": math.ceil(copied(n) / 256)})] * (COPY in rows)
    for label, made in cells(table(run, 1)).items():
        kernel, items, width, _ = claim(label)
        found.append((label, {
            "kernel": "yours" if label == "yours" else kernel,
            "arguments": (made["items"],), "block": made["threads"],
            "shared": made["shared"],
            "grid": sms if label == "async-b1" else math.ceil(
                n / (made["threads"] * made["items"] * made["width"]))}))
    if "library" in rows:
        found.insert(rows.index("library"),
                     ("library", {"kernel": "transform_kernel"}))
    return found


def launches(profile):
    """[(label, row of Table 2, launch)], in order."""
    rows = cells(table(profile.run, 2))
    return [(label, rows[label], one) for label, one in
            launched(profile.launches, claims(profile.run))]


def test_launches_are_the_rows(profile):
    for label, row, launch in launches(profile):
        if label not in OTHERS:
            made = cells(table(profile.run, 1))[label]
            assert near(row["occ %"], launch.metrics[POSSIBLE])
            assert [launch.metrics[f"launch__{name}"] for name in (
                "registers_per_thread", "occupancy_limit_blocks",
                "occupancy_limit_warps")] == [  # no launch has fewer than 16
                    max(16, made["regs"]), made["by cap"], made["by warps"]]


def test_achieved_occupancy(profile):
    """A place is empty while a block's last warps end and the next starts."""
    for label, row, launch in launches(profile):
        if re.search(r"-b\d$", label):
            least = 0.8 if row["blocks"] == 1 else max(
                0.7, 1 - 1 / row["blocks"])
            assert least * row["occ %"] < launch.metrics[ACHIEVED] <= \
                row["occ %"] + 0.1


def test_sectors(profile):
    for label, _, launch in launches(profile):
        if label not in ("library", "async-b1", "yours"):
            width = 4 if label == COPY else claim(label)[2]
            assert close(launch.metrics[SECTORS], 4 * width, 1)


def test_dram_reads(profile):
    _, _, n, _ = facts(profile.run)
    for label, _, launch in launches(profile):
        assert close(launch.metrics[READ], (6 if label == COPY else 8) * n, 1)


def test_times(profile):
    """A profiler runs dependent launches one by one."""
    for label, row, launch in launches(profile):
        if label != "vec1-cs-dl":
            as_profiled(row, launch)


def test_dram_traffic(timed):
    _, _, n, _ = facts(timed.run)
    for label, one in claims(timed.run):
        read = (6 if label == COPY else 8) * n
        moved(timed, one, read, 12 * n - read)
