"""Pages, notebooks, README: what they say is what the sources and records say."""
import html
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import NVCC, anchors, evidence, judge, missing

import charts  # conftest puts tools/ on the path
import pages

ROOT = evidence.ROOT
LESSONS = evidence.lessons()

# --- A small repository, in which each fault is planted ----------------------
SOURCE = """// Build: nvcc -std=c++17 -O3 -arch=sm_75 -o first first.cu
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

All checks passed.
"""
PAGE = """# Day 1: first

It reaches <!-- figure: sm_75 | Main | copy (ceiling) | GB/s -->90.0<!-- end --> GB/s
of <!-- figure: sm_75 | /peak (\\d+) GB/ -->100<!-- end -->, and `v0 slow` is slower
by <!-- figure: sm_75 :: Main :: v0 slow :: ms :: / copy (ceiling) :: %.0f -->10<!-- end -->;
256 threads add 2^14 - 3 floats.

## Compile and run

<!-- snippet: one-kernel -->
```cuda
__global__ void f();
```
<!-- end -->

## Exercises

<!-- output: sm_75 -->
```text
$ ./first
""" + OUTPUT + "```\n<!-- end -->\n"


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
    assert pages.main(True, small) == 0  # a draft: said, but no failure
    assert "README.md: not what" in capfd.readouterr().err
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
DOCS = [ROOT / "README.md", *sorted(ROOT.glob("day*/README.md")),
        *sorted(ROOT.glob("research/*.md")), ROOT / "evidence/README.md"]
NAMES = """
    day24-reduction: atomic-global atomic-shared v1-modulo v2-strided v3-sequential
        v4-two-loads atomic-finish shuffle-tail warp-then-atomic two-stage-shuffle
    day25-reduction: warp-reduce v5-tail v6-template v7-load atomic-finish
        v9-last-block v10-in-flight v8-two-passes library-call v11-dependent
    day45-occupancy: ilp-body one-guard-a-tile bounded-kernel guarded-kernel
        pointer-chase smem-dial occupancy-query
    day77-clusters: atomic-tail cluster-combine row-in-cluster cluster-launch
        cluster-query one-way-sum blocks-without-cluster"""
EVERY = "cuda-check time-kernel row-table reference one-check yours".split()


def names(folder):
    """Regions that pages elsewhere may rely on: a name that goes is a fault."""
    found = re.search(rf"{folder}:([^:]*?)(\n +day|$)", NAMES)
    return set(EVERY) | set(found[1].split() if found else ())


@pytest.fixture(scope="module")
def regions(tmp_path_factory):
    out = tmp_path_factory.mktemp("regions")
    subprocess.run([os.environ.get("CMAKE", "cmake"), f"-DOUT={out}", "-P",
                    ROOT / "cmake/snippets.cmake"], check=True)
    return out


def test_pages_are_woven(capfd):
    failed = pages.main(True)
    assert not failed, capfd.readouterr().err


def test_pictures_are_drawn(capfd):
    failed = charts.main(True)
    assert not failed, capfd.readouterr().err


def test_pictures_are_text_and_name_their_record():
    for path in ROOT.glob("day*/*.svg"):
        svg = path.read_text()
        assert "<text" in svg, f"{path}: its text is drawn"
        if path.name.startswith("chart") and "not recorded yet" not in svg:
            said = re.search(r"(\S+\.txt), body-sha256 (\w+)", svg)
            run = ROOT / "evidence" / path.parent.name / said[1]
            assert evidence.Record(run).header["body-sha256"] == said[2]


def test_names_are_kept_and_every_kernel_is_exported(any_lesson, regions):
    files = {path.stem: path.read_text()
             for path in regions.glob(f"{any_lesson.folder}/*.cu")}
    wrong = [f"no region {name}, which pages rely on"
             for name in sorted(names(any_lesson.folder) - files.keys())]
    found = evidence.KERNEL.findall
    hidden = set(found(any_lesson.text)) - set(found("".join(files.values())))
    judge(any_lesson, wrong + [f"kernel {name} is in no region" for name in hidden])


def dead(path, root):
    """Links, pictures and anchors of a page that lead nowhere."""
    text = re.sub(r"^(```+).*?^\1|`[^`\n]*`", "", path.read_text(), flags=re.M | re.S)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        if not re.match(r"https?:", link) and not (
                target.exists() and target.is_relative_to(root)
                and (not anchor or anchor in anchors(target))):
            yield link


@pytest.mark.parametrize("path", DOCS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links(path):
    wrong = list(dead(path, ROOT))
    for lesson in LESSONS:
        if lesson.folder == path.parent.name:
            judge(lesson, wrong)
    assert wrong == []


def test_dead_links(small):
    page = small / "README.md"
    page.write_text("# A `b` (c)\n[a](#a-b-c) [b](day01-first/first.cu) `[c](no.md)`\n"
                    "[d](no.md) ![e](no.svg) [f](#b) [g](/etc) [h](https://x.y/z)\n"
                    "[i](day01-first/README.md#exercises) [j](day01-first/README.md#rows)\n")
    assert list(dead(page, small)) == ["no.md", "no.svg", "#b", "/etc",
                                       "day01-first/README.md#rows"]


def test_readme_and_repository_agree():
    text = (ROOT / "README.md").read_text()
    rows = re.findall(r"^\| \d+ \|.*\((day[^/]+)/README\.md\)", text, re.M)
    assert rows == [one.folder for one in LESSONS if one.folder in rows or not one.draft]
    commands = re.findall(r"nvcc -std[^\n'&]*?\.cu", text)
    builds = "".join(one.text for one in LESSONS)
    for command in commands:
        plain = re.sub(r" [\w/-]+/", " ", command).replace("-DLESSON_YOURS -o mine",
                                                           "-o reduction_1")
        assert plain in builds, command
    presets = json.loads((ROOT / "CMakePresets.json").read_text())
    known = {one["name"] for one in presets["workflowPresets"]}
    used = set(re.findall(r"--workflow --preset (\w+)", text))
    assert commands and {"lessons", "check"} <= used <= known
    assert text.index("--preset lessons") < text.index("--preset check") < 4000


def tracked():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, text=True,
                            capture_output=True).stdout.split("\0")[:-1]
    if not listed:
        pytest.skip("not a clone")
    return [name for name in listed if (ROOT / name).exists()]


def test_recipe(tmp_path):
    """README.md's recipe of a new lesson, on a copy: a draft that can be exported
    and woven, and that fails nothing for what it lacks."""
    for name in tracked():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    part = (ROOT / "README.md").read_text().partition("### A new lesson")[2]
    recipe = re.search(r"```sh\n(.*?)```", part, re.S)[1]
    subprocess.run(["sh", "-ec", recipe], cwd=tmp_path, check=True)
    [new] = [one for one in evidence.lessons(tmp_path) if one.day == "99"]
    assert new.draft and new.text.startswith("// Day 99: ")
    assert "\n// Verified: UNVERIFIED\n" in new.text and "reduction_1" not in new.text
    weaver = pages.Weaver(tmp_path)
    weaver.page(new.path.with_name("README.md"))
    assert weaver.wrong == [] and names(new.folder) <= {
        name.split("/")[1] for name in weaver.regions if name.startswith(new.folder)}


def test_no_place_is_named():
    for name in tracked():
        text = (ROOT / name).read_bytes()
        found = re.search(rb"(?<![\w.])/(home|root|work|Users)/\w+|\bTODO\b", text)
        assert not found or name == "tests/test_docs.py", f"{name}: {found[0]}"


def test_notebook(any_lesson, tmp_path, monkeypatch):
    """Without a GPU: it compiles, and each run ends in the refusal."""
    try:
        import nbclient
        import nbformat
    except ImportError as error:
        missing(str(error))
    if not any_lesson.path.with_suffix(".ipynb").exists():
        judge(any_lesson, ["no notebook: tools/pages.py makes it"])
    compiler = shutil.which(NVCC) or missing(f"no {NVCC}")
    monkeypatch.setenv("PATH", str(Path(compiler).parent), prepend=os.pathsep)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "-DLESSON_NO_CUB -DLESSON_QUICK")
    shutil.copy(any_lesson.path, tmp_path)
    book = nbformat.read(any_lesson.path.with_suffix(".ipynb"), 4)
    nbformat.validate(book)
    nbclient.NotebookClient(book, timeout=600, kernel_name="python3", resources={
        "metadata": {"path": tmp_path}}).execute()
    said = "".join(output.get("text", "") for cell in book.cells
                   for output in cell.get("outputs", []))
    assert "error:" not in said and "copy (ceiling)" in said, said
    codes = re.findall(r"exit code (\d+)", said)
    assert codes == ["77"] * 3 and said.count("SKIPPED:") == 3, said


# --- Page generators: what README.md shows embeds every region unchanged -----
SHOWN = {
    "sphinx-build": ("```{literalinclude} snippets/NAME\n:language: cuda\n```",
                     "-q -b html . html", "html/index.html"),
    "mkdocs": ('```cuda\n--8<-- "NAME"\n```', "build -q --strict", "site/index.html"),
    "pandoc": ("```{.cpp include=snippets/NAME}\n```",
               "--lua-filter include.lua docs/index.md -o page.html", "page.html")}


@pytest.mark.parametrize("tool", SHOWN)
def test_generator(tool, regions, tmp_path):
    shown, arguments, made = SHOWN[tool]
    readme = (ROOT / "README.md").read_text()
    assert shown.replace("NAME", "day24-reduction/v3-sequential.cu") in readme
    path = shutil.which(tool)
    if tool == "pandoc" and not path:
        path = pytest.importorskip("pypandoc").get_pandoc_path()
    path = path or missing(f"no {tool}")
    shutil.copytree(regions, tmp_path / "snippets")
    wanted = {path.relative_to(regions).as_posix(): path.read_text()
              for path in regions.glob("*/*.cu")}
    page = "# Page\n" + "".join(f"\nat {name}\n\n{shown.replace('NAME', name)}\n"
                                for name in wanted)
    (tmp_path / "docs").mkdir()
    for index in ("index.md", "docs/index.md"):
        (tmp_path / index).write_text(page)
    (tmp_path / "conf.py").write_text('extensions = ["myst_parser"]\n'
                                      'exclude_patterns = ["docs"]\n')
    (tmp_path / "mkdocs.yml").write_text("site_name: x\nuse_directory_urls: false\n" +
                                         re.search(r"```yaml\n(.*?)```", readme, re.S)[1])
    (tmp_path / "include.lua").write_text(re.search(r"```lua\n(.*?)```", readme, re.S)[1])
    subprocess.run([path, *arguments.split()], cwd=tmp_path, check=True)
    html_page = (tmp_path / made).read_text()
    for name, code in wanted.items():
        found = re.search(rf"at {re.escape(name)}</p>.*?<pre\b[^>]*>(.*?)</pre>",
                          html_page, re.S)
        got = html.unescape(re.sub(r"<[^>]*>", "", found[1])).rstrip("\n")
        assert got == code.rstrip("\n"), name
    assert len(wanted) > 30
