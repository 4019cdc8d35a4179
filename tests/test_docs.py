"""Pages, notebooks, README: what they say is what the sources and records say."""
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import NVCC, evidence, missing

import pages  # noqa: E402  (conftest puts tools/ on the path)

ROOT = evidence.ROOT
LESSONS = evidence.lessons()

# --- A small repository, in which each fault is planted ----------------------
SOURCE = """// Day 01: first
// Build: nvcc -std=c++17 -O3 -arch=sm_75 -o first first.cu
// snippet: one-kernel
__global__ void f();
// end snippet
// snippet: yours
int mine;
// end snippet
"""
OUTPUT = """Test GPU, peak 100 GB/s

Main table
row              ms   spread     GB/s  % copy  % peak
copy (ceiling)   1.2500    0.1%     90.0   100.0    90.0
v0 slow         12.5000    0.1%      9.0    10.0     9.0

Second table
row              ms   spread     GB/s  % copy  % peak
v1 other         2.5000    0.1%     45.0    50.0    45.0

All checks passed.
"""
PAGE = """# Day 1: first

It reaches <!-- figure: sm_75 | Main | copy (ceiling) | GB/s -->90.0<!-- end --> GB/s
of <!-- figure: sm_75 | /peak (\\d+) GB/ -->100<!-- end -->, and `v0 slow` is slower
by <!-- figure: sm_75 | Main | v0 slow | ms | / copy (ceiling) | %.0f -->10<!-- end -->;
256 threads add 2^14 - 3 floats.

## Compile and run

<!-- snippet: one-kernel -->
```cuda
__global__ void f();
```
<!-- end -->

## Output

<!-- output: sm_75 -->
```text
$ ./first
""" + OUTPUT + """```
<!-- end -->

## Exercises
"""


@pytest.fixture
def small(tmp_path):
    """A tree that pages.py finds nothing wrong with."""
    (tmp_path / "cmake").mkdir()
    shutil.copy(ROOT / "cmake/snippets.cmake", tmp_path / "cmake")
    (tmp_path / "CMakeLists.txt").write_text("lesson(day01-first/first.cu 75)\n")
    (tmp_path / "README.md").write_text("# Small\n")
    folder = tmp_path / "day01-first"
    folder.mkdir()
    (folder / "first.cu").write_text(SOURCE)
    (folder / "README.md").write_text(PAGE)
    [lesson] = evidence.lessons(tmp_path)
    evidence.write(lesson.evidence / f"run-{evidence.CARD}-sm_75.txt", lesson, 75,
                   OUTPUT, dict.fromkeys(evidence.KEYS, "x") | {
                       "run-command": "./first", "gpu": "Test GPU",
                       "body-sha256": evidence.sha256(OUTPUT)})
    assert pages.main(False, tmp_path) == 0
    assert (folder / "README.md").read_text() == PAGE
    return tmp_path


def check(small, capfd):
    failed = pages.main(True, small)
    return capfd.readouterr().err if failed else ""


PLANTED = {  # edit of the page, and what is said
    "figure-edited": ("-->90.0<", "-->91.0<", "not what tools/pages.py makes"),
    "figure-swapped": ("-->90.0<", "-->100<", "not what tools/pages.py makes"),
    "other-row": ("| copy (ceiling) | GB/s -->", "| v0 slow | GB/s -->",
                  "not what tools/pages.py makes"),
    "other-column": ("| GB/s -->", "| % peak | %.0f -->", "not what"),
    "no-row": ("| copy (ceiling) | GB", "| v9 | GB", "'v9'"),
    "no-column": ("| GB/s -->", "| TB/s -->", "'TB/s'"),
    "no-table": ("| Main | copy", "| Third | copy", "0 tables begin with 'Third'"),
    "no-build": ("sm_75 | Main | copy", "sm_90 | Main | copy", "no build 'sm_90'"),
    "no-match": ("peak (", "top (", "0 matches"),
    "not-closed": ("100<!-- end -->", "100", "not closed, or not a mark"),
    "near-mark": ("<!-- output: sm_75 -->", "<!--output: sm_75 -->", "not a mark"),
    "output-edited": ("12.5000    0.1%", "11.5000    0.1%", "not what"),
    "code-edited": ("__global__ void f", "__global__ void g", "not what"),
    "no-region": ("snippet: one-kernel", "snippet: two-kernel", "no region"),
}
BY_HAND = ["10x", "ten times", "4383 GB/s", "12 %", "3 furlongs", "1.5", "88%",
           "7 microseconds", "a tenfold gain", "812 GFLOP/s", "`4383 GB/s`", "5 us",
           "twice as fast", "half the time", "a factor of two", "| 87.5 |", "4383",
           "a hundred times", "1,234 rowboats", "120 of the 132"]


@pytest.mark.parametrize("name", PLANTED)
def test_planted(small, capfd, name):
    old, new, says = PLANTED[name]
    assert PAGE.count(old) >= 1
    (small / "day01-first/README.md").write_text(PAGE.replace(old, new, 1))
    assert says in check(small, capfd)


@pytest.mark.parametrize("figure", BY_HAND)
def test_typed_by_hand(small, capfd, figure):
    (small / "day01-first/README.md").write_text(
        PAGE.replace("256 threads", f"It is {figure} here; 256 threads"))
    assert "typed by hand" in check(small, capfd)


def test_weaves(small, capfd):
    source, page = small / "day01-first/first.cu", small / "day01-first/README.md"
    source.write_text(SOURCE.replace("void f()", "void g()"))
    assert "not what" in check(small, capfd)
    assert pages.main(False, small) == 0 and check(small, capfd) == ""
    assert page.read_text() == PAGE.replace("void f()", "void g()")
    shutil.rmtree(small / "evidence")
    assert "no record evidence/day01-first/run-" in check(small, capfd)
    (small / "CMakeLists.txt").write_text("lesson(day01-first/first.cu 75 DRAFT)\n")
    assert pages.main(False, small) == 0
    assert "-->n/a<!-- end --> GB/s" in page.read_text()
    assert "not recorded yet" in page.read_text()


def test_notebook_of_the_small_one(small, capfd):
    path = small / "day01-first/first.ipynb"
    cells = json.loads(path.read_text())["cells"]
    text = "\n".join("".join(cell["source"]) for cell in cells)
    assert "It reaches 90.0 GB/s\nof 100" in text and "<!--" not in text
    assert "%%writefile yours.cu\nint mine;" in text and "-DLESSON_YOURS" in text
    assert all(cell["outputs"] == [] for cell in cells if cell["cell_type"] == "code")
    path.write_text(path.read_text().replace("int mine", "int yours"))
    assert "first.ipynb: not what" in check(small, capfd)


# --- This repository ---------------------------------------------------------
def test_pages_are_woven(capfd):
    failed = pages.main(True)
    assert not failed, capfd.readouterr().err
