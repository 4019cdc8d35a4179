"""Day 45: where the loads are, and what its tables say."""
import math
import re
from itertools import groupby
from types import SimpleNamespace

import pytest
from conftest import nvcc_version

from evidence import close
from figures import (COPY, READ, SECTORS, as_profiled, cells, launched, moved,
                     near, rates, real, said, shown)

# No row: pointerChase fillLinks fillValues yours
LOAD, LOAD16 = r"LDG\.", r"LDG\S*\.128"
FLOATS = ("scaleAdd", "scaleAddBounded", "scaleAddGuarded")
STREAMS = ("scaleAddStream", "scaleAddDependent")
VECTORS = ("scaleAddVec", *STREAMS)
ASKED = {75: 4, 80: 8, 90: 8, 100: 8, 103: 8}  # blocks of ilp8-lb; others 6


# ---- machine code

def instances(kernels, names):
    """[(kernel, its loads)]: kItems, its first argument, of x and of y."""
    return [(one, 2 * one.arguments[0])
            for name in names for one in kernels[name]]


@pytest.mark.archs(75, 80, 86, 89, 90, 100, 103, 110, 120, 121)
def test_loads_before_fma(kernels):
    for one, loads in instances(kernels, FLOATS[:2] + VECTORS):
        assert one.run(LOAD if one.name in FLOATS else LOAD16, until="FFMA",
                       block=True) == loads <= 2 * one.count("FFMA")


def test_bound_changes_nothing(kernels, kernel):
    [ilp8] = [k for k in kernels["scaleAdd"] if k.arguments == (8,)]
    assert len(kernel("scaleAddBounded").code) == len(ilp8.code)


def test_register_budgets(every_kernel):
    """Of 256 per thread of a block, what the blocks asked for leave."""
    for one in every_kernel:
        asked = (ASKED.get(one.arch, 6) if one.name == "scaleAddBounded" else
                 2 if one.name in STREAMS else 1)
        assert one.budget == min(255, 256 // asked // 8 * 8), one.name


@pytest.mark.archs(75, 80, 86, 89, 90, 103, 121)
def test_guarded_loads_are_apart(kernel):
    assert kernel("scaleAddGuarded").run(LOAD, until="FFMA") < 2 * 8


@pytest.mark.archs(100, 110, 120)
def test_guarded_loads_are_together(kernel):
    if nvcc_version()[:2] != (13, 0):
        pytest.skip("another compiler than that of CUDA 13.0")
    assert kernel("scaleAddGuarded").run(LOAD, until="FFMA") == 2 * 8


def test_width_of_loads(kernels, kernel):
    for one, loads in instances(kernels, FLOATS + VECTORS):
        assert one.count(LOAD16) == (0 if one.name in FLOATS else loads)
    assert kernel("copy16").counts(LOAD16, LOAD, r"STG\S*\.128") == [1, 1, 1]


def test_streaming_hints(kernels, kernel):
    """Evict first: every float4 of the streaming kernels and of the copy."""
    hinted = r"LDG\S*\.EF\S*\.128", r"STG\S*\.EF\S*\.128"
    assert kernel("copy16").counts(*hinted) == [1, 1]
    for one, loads in instances(kernels, STREAMS):
        assert one.counts(*hinted) == [loads, loads / 2]
    for one, _ in instances(kernels, (*FLOATS, "scaleAddVec")):
        assert one.count(r"(LDG|STG)\S*\.EF") == 0


@pytest.mark.archs(90, 100)
def test_dependent_launch_waits_first(kernels, kernel):
    one = kernel("scaleAddDependent")
    assert one.count("ACQBULK") == 1
    assert one.before("LDG|LD |STG|ST |ATOM|RED", "ACQBULK") == 0
    assert not any(k.count("ACQBULK") for k in kernels["scaleAddStream"])


@pytest.mark.archs(80, 90, 100)
def test_async_ring(kernel):
    """8 stages before the first wait; a round reads one, then starts one."""
    one, wait, read = kernel("scaleAddAsync"), r"DEPBAR\.LE", r"LDS\.128"
    steps = [wait, read, read, "LDGSTS", "LDGSTS", "LDGDEPBAR"]
    assert one.count("LDGSTS") == one.count(r"LDGSTS\S*\.128")
    assert one.count(r"BAR|LDG\.\S*\.128") == 0
    assert {i.text[-3:] for i in one.find(wait)} == {"0x7"}
    assert one.before("LDGDEPBAR", wait) == 8
    assert one.before("LDGSTS", wait) in (16, 18)
    for loop in one.loops:
        rounds = max(1, loop.count(wait))
        assert loop.order(*dict.fromkeys(steps)) == rounds * steps


def test_async_needs_8_0(kernel):
    one = kernel("scaleAddAsync")
    assert (one.count("LDGSTS") > 0) == (one.arch >= 80)


def test_no_local_memory(every_kernel):
    assert not any(kernel.count("LDL|STL") for kernel in every_kernel)


# ---- what the program printed

ROWS = {label: kernel for kernel, labels in (  # in the header's order
    ("scaleAdd", "tlp1 tlp1-control tlp1-b3 tlp1-b2 tlp1-b1"),
    ("scaleAdd", "ilp2 ilp4 ilp8 ilp4-b1 ilp8-b1"),
    ("scaleAddBounded", "ilp8-lb"),
    ("scaleAddGuarded", "ilp8-guarded ilp8-guarded-b1"),
    ("scaleAddVec", "vec1 vec1-b2 vec2-b1 vec2"), ("scaleAdd", "suggested"),
    ("scaleAddStream", "vec1-cs"), ("scaleAddDependent", "vec1-cs-dl"),
    ("scaleAddStream", "vec4-b2 vec8-b2"), ("scaleAddAsync", "async-b1"))
    for label in labels.split()}
NEEDS = {"vec1-cs-dl": 90, "async-b1": 80}  # a build for this or newer
ITEMS = {"suggested": 1, "async-b1": 8}  # others say it after three letters
YARDSTICKS = [COPY, "cudaMemcpyAsync"]
OTHERS = [*YARDSTICKS, "library"]


def printed(run):
    """Tables 1 to 3, and the rows of 1 and 2 side by side; what the copy
    moves is `copied` vectors of 16 bytes."""
    tables = {table.title.partition(":")[0]: table for table in run.tables}
    one, two, three = (cells(tables[f"Table {at}"]) for at in (1, 2, 3))
    sms, peak, n, mb = said(run, r"(\d+) SMs(?:.*\n)*?.*peak (\d+) GB/s(?:.*\n"
                            r")*?Table 2: (\d+) elements, ([\d.]+) MB")
    return SimpleNamespace(
        one=one, two=two, three=three, skipped=tables["Table 2"].notes,
        rows={label: one[label] | row for label, row in two.items()
              if label not in OTHERS},
        sms=sms, peak=peak, n=n, mb=mb, copied=(3 * n // 2 + 3) // 4)


def test_every_row_is_there(run):
    """Left out are only rows that this build cannot have, or the library."""
    there = [label for label in ROWS if run.arch >= NEEDS.get(label, 0)]
    of = printed(run)
    card, version = said(run, r"compute capability ([\d.]+)(?:.*\n)*?"
                         r".*CUB_VERSION here: (\d+)\)")
    assert [one for one in of.one if one != "yours"] == there
    assert [one for one in of.two if one not in ("library", "yours")] == \
        YARDSTICKS + there
    assert "library" in [*of.two, *of.skipped]
    for label, note in of.skipped.items():
        assert label in {*NEEDS, "library"} - {*there}
        need = NEEDS.get(label, 0)
        assert note == "skipped: " + (
            "no cub::DeviceTransform; CUDA 12.9 or newer has it" if not need
            else f"needs compute capability {need / 10}" if 10 * card < need
            else f"built for {run.arch / 10}; build with -arch=sm_{need} or "
            "newer")
    # 0 where there is no library; 3.0.1 is 300001.
    assert version >= 2e5 if "library" in of.two else version == 0


def test_residency(run):
    """Table 1: the label says what a row is made of; the driver's answer is
    the least of the resources divided; the dial is the least that does it."""
    rows = printed(run).one
    tlp1, control = rows["tlp1"], rows["tlp1-control"]
    [reserved] = said(run, r"driver adds (\d+)")
    assert (tlp1["by shared"] == "-") == (reserved == 0)
    whole = tlp1["by shared"] * math.ceil(reserved / 256) if reserved else 0
    for label, row in rows.items():
        threads, dial = row["threads"], re.search(r"-b(\d)$", label)
        if label != "yours":
            assert row["width"] == (1 if ROWS[label] in FLOATS else 4)
            assert row["items"] == (ITEMS.get(label) or int(label[3]))
        assert threads == 256 or label == "suggested"
        assert row["by warps"] == tlp1["by warps"] * 256 // threads
        assert row["by regs"] == \
            4 * (64 // math.ceil(row["regs"] / 8)) // (threads / 32)
        least = min(row[f"by {what}"] for what in (
            "warps", "cap", "shared", "regs") if row[f"by {what}"] != "-")
        assert (row["driver"] != least) == ("!" in row["driver"].text)
        assert row["local"] == 0 <= row["shared"]
        assert not dial or row["driver"] == int(dial[1])
        if reserved:  # steps of 256 bytes; tlp1 has no others
            steps = math.ceil((row["shared"] + reserved) / 256)
            assert row["by shared"] == whole // steps
            assert not dial or row["by shared"] == int(dial[1])
            assert not dial or label == "async-b1" or \
                whole // (steps - 1) == int(dial[1]) + 1
    assert control["driver"] == tlp1["driver"] and control["shared"] > 0
    built, asked = said(run, r"ilp8-lb: compiled for (\S+), asked for (\d+)")
    assert built == run.arch / 10 and asked <= rows["ilp8-lb"]["driver"]
    assert asked == ASKED.get(run.arch, 6)


def test_rates(run):
    of = printed(run)
    assert near(of.mb, 12 * of.n / 1e6)
    rates(run, of.two, lambda label: 12 * of.n if label not in YARDSTICKS
          else 32 * of.copied)
    # One row may have met another program, not more.
    assert run.quick or sum(row["spread"] > 5 for row in of.two.values()) <= 1


def test_occupancy(run):
    """`<=` where guards, few registers or a small grid can make it fewer."""
    of = printed(run)
    for label, row in of.rows.items():
        items, width, warps = row["items"], row["width"], row["warps"]
        assert row["blocks"] == row["driver"]
        assert warps == row["blocks"] * row["threads"] / 32
        assert near(row["occ %"], 100 * warps / 8 / of.one["tlp1"]["by warps"])
        flying = row["in flight"]
        assert flying == warps * 32 * 8 * items * width
        few = row["regs"] <= items * (2 * width + 1) and label != "async-b1"
        assert flying.text.startswith("<=") == (
            few or "guarded" in label or label == "yours"
            or flying * of.sms / 8 > of.n), label
    assert all(of.two[label][column] == "-" for label in {*OTHERS} & {*of.two}
               for column in ("blocks", "warps", "occ %", "in flight"))


def test_curve(run):
    """Table 2 in order of bytes in flight, then of occupancy, with ratios."""
    of, firsts = printed(run), {}
    del of.three["Little's law"]
    assert [*of.three] == sorted(of.rows, key=lambda label: (
        of.rows[label]["in flight"], -of.rows[label]["occ %"]))
    best = max(row["GB/s"] for row in of.rows.values())
    for label, row in of.three.items():
        assert all(row[name].text == of.rows[label][name].text
                   for name in ("in flight", "occ %", "GB/s"))
        flying, rate = row["in flight"], row["GB/s"]
        assert near(row["ns"], flying * of.sms / (rate * 2 / 3), rate)
        assert near(row["/ best"], rate / best, rate, best)
        at_most = "<=" in flying.text
        assert set(row["bar"]) == {"-" if at_most else "#"}
        assert abs(len(row["bar"]) - 1 - 24 * rate / best) <= 1
        above = rate if at_most else firsts.setdefault(flying, rate)
        assert row["pair"] == "-" if at_most else near(
            row["pair"], above / rate, above, rate)


def test_littles_law(run):
    """Latency x rate; no row has more in flight than it says."""
    of = printed(run)
    latency, rate, need, sms = said(
        run, r"alone takes ([\d.]+) ns[^;]*;\s+(\d+) GB/s of\s+loads, 2/3 of"
        r"\s+the peak, need\s+at least (\d+) bytes on each of (\d+) SMs")
    assert near(rate, of.peak * 2 / 3, of.peak) and sms == of.sms
    assert near(need, latency * of.peak * 2 / 3 / sms, latency, of.peak)
    flying = [row["in flight"] for row in of.three.values()]
    assert flying == sorted(flying) and 200 < latency < 1500
    at = of.three["Little's law"]
    assert (at["in flight"], at["ns"]) == (need, latency)
    assert run.quick or all(  # the gate knows the spread of the latency
        row["ns"] >= 0.9 * latency for row in of.three.values()
        if "<=" not in row["in flight"].text)


def test_answer(run):
    """The sentences below Table 3, from Table 2."""
    of = printed(run)
    ms, rate, occ = ({label: row[name] for label, row in of.rows.items()}
                     for name in ("ms", "GB/s", "occ %"))
    exact = {label: row["in flight"] for label, row in of.three.items()
             if label in rate and "<=" not in row["in flight"].text}
    best = max(rate, key=rate.get)
    alone = max((label for label in rate if not label.endswith("-dl")),
                key=rate.get)
    least = min((label for label in of.three if label in rate
                 and rate[label] >= 0.9 * rate[alone]), key=occ.get)
    *found, share, of_library = said(
        run,
        r"Fastest of these rows: (\S+), ([\d.]+) GB/s, at ([\d.]+) % occ.*\n"
        r"(?:Without overlapping launches: (\S+), ([\d.]+) GB/s\.\n)?"
        r"Least occupancy within 10 % of that: (\S+), ([\d.]+) %, ([\d.]+) of"
        r".*\n.* rows has (\S+) of the GB/s of library\.")
    apart = (None, None) if alone == best else (alone, rate[alone])
    assert found == [best, rate[best], occ[best], *apart, least, occ[least]]
    assert near(share, rate[least] / rate[alone], rate[alone])
    library = of.two.get("library", {"GB/s": None})["GB/s"]
    assert of_library == "n/a" if library is None else near(
        of_library, rate[best] / library, library)
    # Equal bytes in flight: of the rows with fewer warps, the slowest.
    told = iter(re.findall(
        r"^(\d+) bytes: (\S+) at ([\d.]+) % occupancy takes ([\d.]+) times as "
        r"long\n  as (\S+) at ([\d.]+) %\.$", run.body, re.M))
    for flying, (first, *others) in groupby(exact, exact.get):
        fewer = {one: ms[one] for one in others if occ[one] < occ[first]}
        if fewer:
            line = next(told, None)
            assert line, first
            size, slow, low, ratio, *other = map(shown, line)
            assert [first, occ[first]] == other and size == flying
            assert low == occ[slow] and fewer[slow] == max(fewer.values())
            assert near(ratio, ms[slow] / ms[first], ms[slow], ms[first])
    assert not list(told)


def test_lengths(run, lesson):
    """The lengths are those in the code; a full run on a large card tried one
    beyond 32 bits."""
    shift, rest, end, under = re.search(
        r"large = \(size_t\(1\) << (\d+)\) \+ (\d+);(?:.*\n)*?.*"
        r"{size_t\((\d+)\), (?:.*\n)*?.*n = end - (\d+);",
        lesson.text).groups()
    large = f"2^{shift} + {rest}"
    first, more = said(
        run, r"^Checked: lengths from (\d+) to a few tiles(.*)\.$")
    assert first == int(end) - int(under)
    must = "NVIDIA H200," in run.body and not run.quick
    assert more == f", and {large}" or not must and \
        more == f" ({large} in full runs, 64 GB)"


def test_targets(run):
    """What an H200 must reach."""
    real(run)
    if "NVIDIA H200," not in run.body:
        return
    of = printed(run)
    gbs = {label: row["GB/s"] for label, row in of.two.items()}
    mine = {label: gbs[label] for label in ROWS if label in gbs}
    best = max(mine.values())
    assert best >= max(0.85 * of.peak, 0.96 * gbs["cudaMemcpyAsync"])
    assert gbs["ilp8-b1"] >= 1.25 * gbs["ilp8-guarded-b1"]
    assert close(gbs["tlp1-control"], gbs["tlp1"], 5)
    assert 0.80 <= gbs["tlp1"] / gbs["vec2-b1"] <= 1.25
    assert gbs["ilp4-b1"] > gbs["tlp1-b3"]
    assert min(gbs["vec4-b2"], gbs["vec8-b2"]) >= 0.91 * gbs["vec1-cs"]
    if run.arch >= 90:
        assert mine.pop("vec1-cs-dl") >= 1.01 * gbs["vec1-cs"]
        assert gbs["async-b1"] >= 0.94 * max(mine.values())
        assert gbs["async-b1"] <= 0.98 * gbs["vec1-cs"]  # it does not overlap
        least = 0.99 if "cccl" in run.header else 1  # of the newest library
        assert best >= least * gbs.get("library", 0)


# ---- profiles

ACHIEVED = "sm__warps_active.avg.pct_of_peak_sustained_active"
POSSIBLE = "sm__maximum_warps_per_active_cycle_pct"


def claims(of):
    """[(label, the launch that it claims)]."""
    found = {"library": {"kernel": "transform_kernel"},
             COPY: {"kernel": "copy16", "block": 256,
                    "grid": math.ceil(of.copied / 256)}}
    for label, row in of.rows.items():
        tile = row["threads"] * row["items"] * row["width"]
        found[label] = {
            "kernel": ROWS.get(label, "yours"), "arguments": (row["items"],),
            "block": row["threads"], "shared": row["shared"],
            "grid": of.sms if label == "async-b1" else math.ceil(of.n / tile)}
    return [(label, found[label]) for label in of.two
            if label != "cudaMemcpyAsync"]


def launches(profile):
    """[(label, its row of Tables 1 and 2, the metrics of its launch)]."""
    of = printed(profile.run)
    return [(label, of.two[label] | of.rows.get(label, {}), one) for label, one
            in launched(profile.launches, claims(of))]


def test_launches_are_the_rows(profile):
    for label, row, launch in launches(profile):
        if label not in OTHERS:
            assert near(row["occ %"], launch.metrics[POSSIBLE])
            assert [launch.metrics[f"launch__{name}"] for name in (
                "registers_per_thread", "occupancy_limit_blocks",
                "occupancy_limit_warps")] == [  # no launch has fewer than 16
                    max(16, row["regs"]), row["by cap"], row["by warps"]]


def test_achieved_occupancy(profile):
    """A place is empty while a block's last warps end and the next starts."""
    real(profile.run)
    for label, row, launch in launches(profile):
        if re.search(r"-b\d$", label):
            least = max(0.8 if row["blocks"] == 1 else 0.7,
                        1 - 1 / row["blocks"])
            assert least * row["occ %"] < launch.metrics[ACHIEVED] <= \
                row["occ %"] + 0.1


def test_sectors(profile):
    for label, row, launch in launches(profile):
        if label not in ("library", "async-b1", "yours"):
            assert close(launch.metrics[SECTORS], 4 * row.get("width", 4), 1)


def test_dram_reads(profile):
    n = printed(profile.run).n
    for label, _, launch in launches(profile):
        assert close(launch.metrics[READ], n * (6 if label == COPY else 8), 1)


def test_times(profile):
    """A profiler runs dependent launches one by one."""
    real(profile.run)
    for label, row, launch in launches(profile):
        if label != "vec1-cs-dl":
            as_profiled(row, launch)


def test_dram_traffic(timed):
    of = printed(timed.run)
    for label, one in claims(of):
        read = of.n * (6 if label == COPY else 8)
        moved(timed, one, read, 12 * of.n - read)
