"""The tools see what they must: a lesson that needs no GPU is recorded with
stand-ins for nvcc, ncu and so on; then one thing at a time is made wrong."""
import contextlib
import io
import json
import os
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import conftest
import evidence
import faults
import pages
import programs
import pytest
import sass
import test_claims
import test_docs
import test_evidence
import test_lessons
from conftest import committed, edit

COMMIT = "0123456789" * 4
FAKE = r"""#!/bin/sh
for word; do
  case $word in
    -D*) flags="$flags $word" ;;
    -cubin) cubin=yes ;;
  esac
  test "$last" = -o && out=$word
  last=$word
done
case $(basename "$0"):$1 in
  nvcc:--version) echo 'release 13.0, V13.0.88' ;;
  nvcc:-E) echo '"12.2.0"' ;;
  nvcc:*)
    if test "$last" = fill_card.cu; then
      printf '#!/bin/sh\necho SKIPPED: no memory; exit 77\n' >"$out"
      chmod +x "$out"; exit
    fi
    g++ -std=c++17 $flags -I "$(dirname "$0")" -x c++ -o "$out" "$last" || exit
    test -z "$cubin" || { echo sm_75; echo 'Function : _Z3sumPf'; grep -c \
      shfl "$last" | sed 's/.*/   \/*0000*\/   SHFL.& R1 ;/'; } >"$out" ;;
  cuobjdump:*) cat "$2" ;;
  nvidia-smi:) echo '| CUDA Version: 13.0 |' ;;
  nvidia-smi:*) echo "${FAKE_CARD:-NVIDIA H200}, 9.0, 580.1, Enabled, [N/A]," \
    '700.00 W, 345 MHz, 1980 MHz, 3201 MHz, 3201 MHz' ;;
  ncu:--version) echo 'Version 2025.3' ;;
  ncu:--import) echo '==WARNING== none'
    echo '"ID","Kernel Name","other","launch__grid_size"'
    echo '"","","",""'; echo '"0","sum(float *)","1","1,024"' ;;
  ncu:*) : >"${last%/*}/$(basename "$last").ncu-rep"; "$last" ;;
  compute-sanitizer:*)
    said=$("$last"); status=$?
    case $2:$said in
      memcheck:*) echo '===== LEAK SUMMARY: 0 bytes leaked in 0 allocations' ;;
      racecheck:*RACE*) status=99 ;;
    esac
    test "$2" = racecheck && echo '===== RACECHECK SUMMARY: 0 hazards' \
      'displayed (0 errors, 0 warnings)' ||
      echo '===== ERROR SUMMARY: 0 errors'
    exit $status ;;
esac
"""
LESSON = r"""// Day 99: what is tested?
//
// Rows:
//   copy (ceiling)  what a copy takes
//   one             one sum  of all
//
// Build: nvcc -std=c++17 -O3 -arch=sm_75 -o test test.cu
// Verified: UNVERIFIED
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#ifndef LESSON_QUICK
#define LESSON_QUICK 0
#endif
// snippet: cuda-check
#include <cstring>
// end snippet
constexpr int kElems = 10;
static_assert(kElems > 4, "kElems: five or "
              "more");
// gate("in-a-comment", true, "does not count");
// snippet: one-kernel
__global__ void __launch_bounds__(32, 1) sum(float*) { int shfl; }
// end snippet
// snippet: yours
int mine;
// end snippet
// snippet: row-table
struct Row;
// end snippet
// ---- helpers: the same
constexpr int kBatches = 9;
inline void warm(int last = 9) {
  for (int warm = 0, took = 0; warm < last || took < last;) break;
}
inline int failures = 0;
inline void gate(const char* name, bool ok, const char* why) {
  if (!ok) ++failures, std::printf("FAILED %s: %s\n", name, why);
}
inline void openDevice(int need, const void*) {
  const char* device = std::getenv("CUDA_VISIBLE_DEVICES");
  if (need < 99 && device && std::strlen(device) == 1 &&
      !std::getenv("CUDA_DISABLE_PTX_JIT")) return;
  std::printf("SKIPPED: no GPU, or newer, or -arch=\n");
  std::exit(77);
}
// ---- end of helpers ----
// snippet: reference
int reference();
// end snippet
// snippet: one-check
void check();
// end snippet
int main(int argc, char** argv) {
  if (argc > 1 && !std::strcmp(argv[1], "--list")) {
    std::printf("Rows:\n  copy (ceiling)   sum\n  one   sum\n");
#ifdef LESSON_YOURS
    std::printf("  yours   sum\n");
#endif
    return 0;
  }
  std::printf("NVIDIA H200, compute capability 9.0, 4 SMs\n"
              "driver CUDA 13.0, toolkit CUDA 13.0, peak 100 GB/s\n");
  openDevice(75, nullptr);
  if (LESSON_QUICK) std::printf("LESSON_QUICK\n");
  int total = 0, warm = 0;
  volatile int waited = 0;
  for (int i = 0; i < kElems; ++i) total += i;
  while (total > 1000) ++waited;
  gate("clock", warm == 0, "never");
  gate("sum", !(total != 45), "not 45");
  std::printf("\nSums\nrow  ms  GB/s\none  %d  2\ncopy  4  8\n", 1);
  if (std::fflush(stdout) != 0) gate("lost", false, "output");
  if (failures == 0) std::printf("\nAll checks passed.\n");
  if (std::fflush(stdout) != 0) std::fprintf(stderr, "FAILED: lost\n");
  return std::ferror(stdout) || failures > 0;
}
"""
CLAIMS = f"""
| a | b |
|---|---|
| text | in another table |

{test_claims.HEAD}
|---|---|---|---|---|
| d99-01 | it is large | compiler | "kElems: five or m" | - |
| d99-02 | it is right | run | `sum`, `lost`, `clock` | - |
| d99-03 | it shuffles | machine code | `test_shuffles` | - |
| d99-04 | it runs once | profile | `test_once` | - |
| d99-05 | it has a row | figures | `test_row` | - |
"""
TESTS = '''# No row:
def test_shuffles(kernel):
    assert kernel("sum").count(r"SHFL\\.1") == 1
def test_once(profile):
    assert [one.grid for one in profile.launches] == [1024]
    assert profile.run.arch == 75
def test_row(run):
    [table] = run.tables
    assert table.row("one")["ms"] == "1" and table.title == "Sums"
'''


FAILURES = """| met by |
|---|
| test `test_row`, gate `sum`, says "no GPU", [r](../README.md#no-gpu) |
"""
PAGE = r"""# A `b` (c)

It has <!-- figure: sm_75 | Sums | one | GB/s -->2<!-- end --> GB/s of
<!-- figure: sm_75 | /peak (\d+) GB/ -->100<!-- end -->, and `copy` is slower
by <!-- figure: sm_75 :: Sums :: copy :: ms :: / one :: %.0f -->4<!-- end -->;
256 threads add 2^14 - 3 floats: [a](#a-b-c), [b](test.cu), `[c](no.md)`,
[d](../README.md#no-gpu), [e](https://x.y/z)

## Compile and run

<!-- snippet: one-kernel -->
```cuda
__global__ void __launch_bounds__(32, 1) sum(float*) { int shfl; }
```
<!-- end -->

## Exercises

<!-- output: sm_75 -->
```text
$ ./test
NVIDIA H200, compute capability 9.0, 4 SMs
driver CUDA 13.0, toolkit CUDA 13.0, peak 100 GB/s

Sums
row  ms  GB/s
one  1  2
copy  4  8

All checks passed.
```
<!-- end -->
"""
BY_HAND = [
    "10x", "ten times", "4383 GB/s", "12 %", "3 furlongs", "1.5", "88%",
    "7 microseconds", "a tenfold gain", "812 GFLOP/s", "`4383 GB/s`", "5 us",
    "twice as fast", "half the time", "a factor of two", "| 87.5 |", "4383",
    "a hundred times", "1,234 rowboats", "120 of the 132"]


def cells(text):
    r"""The cells of each line: ~ is between them, \n a new line, \N 900."""
    return [[cell.replace(r"\n", "\n").replace(r"\N", 900 * "\n")
             for cell in line.split(" ~ ")]
            for line in text.strip("\n").splitlines()]


def planted(text):
    return "".join(
        f"=== {name}\nWhat is done.\ncaught: {caught}\n--- find\n{find}\n"
        f"--- replace\n{new}\n" for name, caught, find, new, *_ in cells(text))


FAULTS, SURVIVORS, EDITS = (Path(__file__).parent / "faults" / "tools.txt"
                            ).read_text().split("\n\n")[1:]
FAULTS = planted(FAULTS)
EDITS = cells(EDITS) + [
    ["page", "256 th", f"It is {figure} here; 256 th", "typed by hand"]
    for figure in BY_HAND]


def woven(lesson):
    """What tools/pages.py --check says, if it fails."""
    with contextlib.redirect_stderr(io.StringIO()) as said:
        failed = pages.main(True, lesson.root)
    return said.getvalue().splitlines() * failed


CHECKS = {  # what finds planted errors, and where they are
    "research": (test_claims.disagreements, "research/day99-test.md"),
    "tests": (test_claims.disagreements, "tests/test_day99.py"),
    "gates": (test_claims.disagreements, "day99-test/test.cu"),
    "failures": (lambda one: test_claims.unmet(one.root),
                 "research/FAILURES.md"),
    "page": (woven, "day99-test/README.md"),
    "book": (woven, "day99-test/test.ipynb"),
    "links": (lambda one: test_docs.dead(
        one.root / "day99-test/README.md", one.root), "day99-test/README.md"),
    "form": (test_lessons.form, "day99-test/test.cu"),
    "rows": (test_lessons.rows, "day99-test/test.cu"),
    "layout": (lambda one: test_lessons.layout(one.root), "CMakeLists.txt"),
    "helpers": (lambda one: test_lessons.unlike([one, SimpleNamespace(
        source="b.cu", text=LESSON)]), "day99-test/test.cu"),
    "verified": (test_evidence.shortcomings, "day99-test/test.cu"),
    "list": (lambda one: faults.read(one)[1], "tests/faults/day99.txt")}


@pytest.fixture(scope="module")
def fakes(tmp_path_factory):
    """A folder of stand-ins, used by all that this file calls."""
    folder = tmp_path_factory.mktemp("fakes")
    (folder / "cuda_runtime.h").write_text(
        "#define __global__\n#define __launch_bounds__(...)\n")
    for name in ("nvcc", "cuobjdump", "nvdisasm", "ncu", "compute-sanitizer",
                 "nvidia-smi"):
        (folder / name).write_text(FAKE)
        (folder / name).chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
        for name in ("NVCC", "CUBINS", "LESSONS_REQUIRE_TOOLS"):
            patch.delenv(name, raising=False)
        patch.setattr(programs, "NVCC", "nvcc")
        patch.setattr(conftest, "CUBINS", folder / "cubins")
        patch.setattr(conftest, "known_archs", lambda: {75})
        patch.setattr(faults, "LEAST", 3)
        yield


def record(tree, *options):
    return programs.sh(
        [sys.executable, tree / "tools/record.py", "--work",
         tree.parent / "work", "--quick-runs=100", "--full-runs=8", "--each=2",
         "--commit", COMMIT, *options])


@pytest.fixture(scope="module")
def recorded(fakes, tmp_path_factory):
    """A repository with one lesson, recorded."""
    tree = tmp_path_factory.mktemp("recorded") / "tree"
    for path, text in {
            "CMakeLists.txt": "lesson(day99-test/test.cu 75)\n",
            "README.md": "# No GPU?\n", "research/FAILURES.md": FAILURES,
            "day99-test/test.cu": LESSON, "day99-test/README.md": PAGE,
            "research/day99-test.md": CLAIMS, "evidence/README.md": "",
            "tests/faults/day99.txt": FAULTS,
            "tests/test_day99.py": TESTS}.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(text)
    for name in ("cmake", "tools"):
        shutil.copytree(evidence.ROOT / name, tree / name)
    for name in ("conftest.py", "sass.py"):
        shutil.copy(Path(__file__).with_name(name), tree / "tests")
    edit(tree / "tools/faults.py", "LEAST, ", "LEAST = 3\n_, ")
    status, said = record(tree)
    assert status == 0, said
    assert record(tree, "--verified")[0] == 0
    assert pages.main(False, tree) == 0
    return tree


@pytest.fixture
def tree(recorded, tmp_path):
    return shutil.copytree(recorded, tmp_path / "tree")


@pytest.fixture
def lesson(tree):
    return evidence.lessons(tree)[0]


def test_recorded(lesson):
    for check, _ in CHECKS.values():
        assert list(check(lesson)) == []
    assert lesson.path.with_name("README.md").read_text() == PAGE
    assert test_lessons.headed(lesson.text) == ["copy (ceiling)", "one"]
    text = lesson.run(75).read_text()
    for line in ("run-command: ./test", "mig: n/a", f"git-commit: {COMMIT}",
                 "host-compiler: gcc 12.2.0", "clocks: SM 345 MHz now, 1980 "
                 "MHz at most; memory 3201 MHz now, 3201 MHz at most"):
        assert f"\n# {line}\n" in text
    assert str(lesson.root.parent) not in text


def test_comment_and_token(lesson):
    """A comment makes no record stale, a token each of its lesson."""
    edit(lesson.path, "// Day 99: what", "// Day 99: now   what")
    edit(lesson.path, "l = 0, warm = 0;", "l = 0, warm = 0;  // one\n\n")
    assert test_evidence.shortcomings(lesson) == []
    edit(lesson.path, "int total = 0", "long total = 0")
    stale = test_evidence.shortcomings(lesson)
    assert len(stale) == 8 and all("stale: the code" in one for one in stale)


@pytest.mark.parametrize("where, old, new, said", EDITS)
def test_planted(lesson, where, old, new, said):
    check, path = CHECKS.get(where) or (
        test_evidence.shortcomings, *lesson.evidence.glob(f"{where}-*"))
    path = lesson.root / path
    edit(path, old, new)
    if where in CHECKS:
        assert said in "\n".join(check(lesson))
        return
    if said != "not what was recorded":  # somebody mended the hash as well
        record = evidence.Record(path)
        edit(path, record.header["body-sha256"], evidence.sha256(record.body))
    [wrong] = [one for one in check(lesson) if "must say" not in one]
    assert said in wrong


def test_missing_and_unknown_records(lesson):
    """A draft lists what it lacks, and fails nothing."""
    (lesson.evidence / "soak-h200.txt").rename(
        lesson.evidence / "luck-h200.txt")
    missing, unknown = test_evidence.shortcomings(lesson)
    assert "soak-h200 is missing" in missing
    assert "luck-h200.txt: of no known kind" in unknown
    lesson.draft = True
    with pytest.raises(pytest.skip.Exception, match="lacks: .*soak-h200 is"):
        test_evidence.test_records(lesson)
    (lesson.root / "tests/faults/day99.txt").unlink()
    assert faults.read(lesson) == ([], [
        "day99.txt: 0 faults; write at least 3"])


@pytest.mark.parametrize("old, new, outcome, said", [
    ("# cubin-sha256: ", "# cubin-sha256: 0", pytest.fail, "other machine co"),
    ("13.0.88", "12.4.131", pytest.skip, "not recorded with nvcc")])
def test_machine_code_is_compared(lesson, old, new, outcome, said):
    test_evidence.test_machine_code(lesson)
    edit(lesson.run(75), old, new)
    with pytest.raises(outcome.Exception, match=said):
        test_evidence.test_machine_code(lesson)


@pytest.mark.parametrize("more, wrong", [("", 0), ("int more;\n", 1)])
def test_commit_holds_the_code(lesson, more, wrong):
    was = lesson.text
    lesson.path.write_text(was + more)
    commit = committed(lesson.root)
    lesson.path.write_text(was)
    edit(lesson.run(75), COMMIT, commit)
    said = test_evidence.shortcomings(lesson)
    assert ["holds other code" in one for one in said] == [True] * wrong


def test_weaves(lesson, capfd):
    """What changes is woven; what is missing is said, but n/a in a draft."""
    page = lesson.path.with_name("README.md")
    edit(lesson.path, "sum(float*)", "sum(int*)")
    assert "not what" in woven(lesson)[0]
    assert pages.main(False, lesson.root) == 0 and woven(lesson) == []
    assert page.read_text() == PAGE.replace("sum(float*)", "sum(int*)")
    lesson.run(75).unlink()
    assert f"no record evidence/{lesson.folder}/run-" in woven(lesson)[0]
    edit(lesson.root / "CMakeLists.txt", "75)", "75 DRAFT)")
    assert pages.main(True, lesson.root) == 0  # a draft: said, no failure
    assert "README.md: not what" in capfd.readouterr().err
    assert pages.main(False, lesson.root) == 0
    assert "-->n/a<!-- end --> GB/s" in page.read_text()
    assert "not recorded yet" in page.read_text()


def test_notebook(lesson):
    cells = json.loads(lesson.path.with_suffix(".ipynb").read_text())["cells"]
    text = "\n".join("".join(cell["source"]) for cell in cells)
    for part in ("It has 2 GB/s of\n100,", "-DLESSON_YOURS",
                 "%%writefile yours.cu\nint mine;"):
        assert part in text
    assert "<!--" not in text
    assert not any(cell.get("outputs") for cell in cells)


def tried(lesson, text, tmp_path, gpus=True):
    (lesson.root / "tests/faults/day99.txt").write_text(text)
    with ThreadPoolExecutor(4) as pool:
        return faults.tried(lesson, tmp_path / "work", pool,
                            programs.Gpus(each=2) if gpus else None)


def test_survivors_are_seen(lesson, tmp_path, monkeypatch):
    monkeypatch.setattr(faults.Trial, "timeout", 2)
    lines, wrong = tried(lesson, FAULTS + planted(SURVIVORS), tmp_path)
    assert not any("NOT CAUGHT" in line for line in lines[:6])
    for line, (name, *_, said) in zip(lines[6:], cells(SURVIVORS),
                                      strict=True):
        assert line.startswith(f"{name}: NOT CAUGHT by ")
        assert line in wrong and said in line


def test_skipped(lesson, tmp_path):
    """What a toolkit cannot show is left out without a GPU, not recorded."""
    edit(lesson.root / "tests/test_day99.py", "def test_shuffles(kernel):\n",
         "def test_shuffles(kernel):\n    __import__('pytest').skip('old')\n")
    assert any("no-shuffle: NOT CAUGHT" in one
               for one in tried(lesson, FAULTS, tmp_path)[1])
    assert tried(lesson, FAULTS, tmp_path, gpus=False)[1] == []


def test_control(lesson, tmp_path):
    """Where the lesson itself fails, its faults prove nothing."""
    edit(lesson.path, "!(total != 45)", "total == 44")
    wrong = tried(lesson, FAULTS, tmp_path)[1]
    assert any("the lesson itself, exit 1: status 1" in one for one in wrong)


def test_disturbed(lesson, tmp_path):
    """What fails beside other programs is tried again, alone."""
    mark = f'std::fopen("{tmp_path}/mark", '
    edit(lesson.path, '  gate("clock"', f'  if (!{mark}"r"))\n'
         f'    gate("once", !{mark}"w"), "");\n  gate("clock"')
    assert tried(lesson, FAULTS, tmp_path)[1] == []
    assert (tmp_path / "mark").exists()


def test_nothing_wrong_is_recorded(tree):
    """A failed step is not recorded, and the others are."""
    lesson = evidence.lessons(tree)[0]
    assert "0 to do" in record(tree)[1]
    edit(tree / "CMakeLists.txt", "75)\n", "75)\nlesson(day98-b/b.cu 75)\n")
    (tree / "day98-b").mkdir()
    (tree / "day98-b/b.cu").write_text(LESSON.replace("l != 45", "l != 44"))
    (lesson.evidence / "run-h200-sm_75.txt").unlink()
    status, said = record(tree, "--steps=run,crowd,timed,faults")
    assert status == 1 and "3 steps failed" in said
    assert "0 faults; write at least" in said
    assert "FAILED sum: not 45" in said
    assert test_evidence.shortcomings(lesson) == []
    assert [path.name for path in (tree / "evidence/day98-b").iterdir()] == \
        ["timed-h200-sm_75.csv"]  # the clock's gate may fail in a profiler


def test_kept(tree, recorded, monkeypatch):
    """What is settled is not tried again; what has changed is."""
    monkeypatch.setenv("SANITIZER", "no-such-program")

    def again():
        for path in (tree / "evidence").glob("*/[fs]a*"):
            path.unlink()
        return record(tree, "--steps=sanitizer,faults", "--kept",
                      recorded.parent / "work/kept")[1]
    assert "0 steps failed" in again()
    edit(tree / "tests/test_day99.py", r"SHFL\.1", "SHFL")
    said = again()
    assert "no-shuffle: NOT CAUGHT" in said and "race: NOT" not in said
    edit(tree / "day99-test/test.cu", "int warm = 0,", "long warm = 0,")
    said = again()
    for text in ("race: NOT CAUGHT", "2 steps fail", "no-such-program",
                 "initcheck: exit status 127", "memcheck: exit status 127"):
        assert text in said
    assert "short: NOT" not in said


@pytest.mark.parametrize("options, env, said", [
    (["--commit="], {"GIT_DIR": "none"}, "say --commit"),
    ([], {"NVIDIA_SMI": "no-such-program"}, "does not describe GPU 0"),
    ([], {"NVCC": "no-such-program"}, "no nvcc"),
    (["--steps=luck"], {}, "--steps: of run"),
    (["--steps=run"], {"FAKE_CARD": "T4"}, "another GPU, T4"),
    (["--steps=run", "--minutes=0"], {}, "out of time")])
def test_recording_refuses(tree, monkeypatch, options, env, said):
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    (tree / "evidence/day99-test/run-h200-sm_75.txt").unlink()
    before = sorted((tree / "evidence").rglob("*"))
    status, text = record(tree, *options)
    assert status == 1 and said in text
    assert sorted((tree / "evidence").rglob("*")) == before


def test_code():
    text = '''// all
int a;  /* b */ int c;  // d

const char* s = "// kept  /* \\" ";  // not
const char* r = R"x(// kept)" // too)x";
int n = 1'000; char q = '"'; // "
'''
    assert evidence.code(text) == '''int a;    int c;
const char* s = "// kept  /* \\" ";
const char* r = R"x(// kept)" // too)x";
int n = 1'000; char q = '"';
'''


def test_tables():
    [table] = evidence.tables("A\nrow  ms  own\na b  1.5  x\nc  skipped: y\n")
    assert table.rows == [{"row": "a b", "ms": "1.5", "own": "x"}]
    assert table.notes == {"c": "skipped: y"}
    with pytest.raises(ValueError, match="4 cells, not 3"):
        evidence.tables("A\nrow  ms  own\na  1  2  3\n")
    assert [evidence.number(cell) for cell in
            ("1,234.5", "80.3%", "~1.01", "-2e-3", "n/a", "1.2.3")] == \
        [1234.5, 80.3, 1.01, -0.002, None, None]


def test_kernel_names():
    for text, name in {
            "copy(const float *)": ("copy", ()),
            "void sum<(int)256>(float *)": ("sum", (256,)),
            "void flags<(bool)1, float, -3>(int)": ("flags", (1, -3)),
            "void cub::Sum<cub::policy<float, 8>::P, 7>(T2, T5 *)":
                ("Sum", (7,))}.items():
        assert evidence.kernel_name(text) == name


def test_machine_code():
    code = ["S2R R0", "@P0 EXIT", "LDG.E R1", "LDG.E R2", "FADD R1",
            "LDG.E R3", "@!P1 LDG.E R4", "LDG.E R5", "BAR.SYNC",
            "@P2 BRA 0x50", "FADD R2",
            "RED.E", "BRA 0xc0"]
    kernel = sass.Kernel("sum", (), 75, tuple(
        sass.Instruction(16 * k, *(line[1:].split(" ", 1) if line[0] == "@"
                                   else ("", line)))
        for k, line in enumerate(code)))
    assert kernel.count("LDG") == 5 and kernel.count("DG") == 0
    assert kernel.predicated("LDG") == 1
    assert kernel.loops_around("BAR") == 1 and kernel.loops_around("RED") == 0
    assert kernel.run("LDG", until="FADD") == 3
    assert kernel.run("LDG", until="FADD", block=True) == 2
    assert kernel.before("LDG", "FADD") == 2
    assert kernel.after("FADD").upto("BAR").count("LDG") == 3


def test_programs_end(tmp_path):
    """One that hangs is stopped, with its children."""
    start = time.monotonic()
    assert programs.sh(["sh", "-c", "sleep 60 & sleep 60"], 1)[0] == 124
    assert time.monotonic() - start < 20
    assert programs.sh(["no-such-program"])[0] == 127
