"""Pages, notebooks and README say what the sources and records say."""
import html
import json
import os
import re
import shutil
from pathlib import Path

import nbclient
import nbformat
import pytest
from conftest import NVCC, anchors, evidence, judge, missing
from programs import sh

import charts  # conftest puts tools/ on the path
import pages

ROOT = evidence.ROOT
README = (ROOT / "README.md").read_text()
LESSONS = evidence.lessons()

DOCS = [ROOT / "README.md", *sorted(ROOT.glob("day*/README.md")),
        *sorted(ROOT.glob("research/*.md")), ROOT / "evidence/README.md"]
EVERY = """constants cuda-check open-device time-kernel print-rows run-lesson
    row-table reference one-check yours """
NAMES = {
    "day24-reduction": """atomic-global atomic-shared v1-modulo v2-strided
        v3-sequential v4-two-loads atomic-finish shuffle-tail warp-then-atomic
        two-stage-shuffle""",
    "day25-reduction": """warp-reduce v5-tail v6-template v7-load atomic-finish
        v9-last-block v10-in-flight v8-two-passes library-call
        v11-dependent""",
    "day45-occupancy": """ilp-body one-guard-a-tile bounded-kernel
        guarded-kernel pointer-chase smem-dial occupancy-query""",
    "day77-clusters": """atomic-tail cluster-combine row-in-cluster
        cluster-launch cluster-query one-way-sum blocks-without-cluster"""}


def names(folder):
    """Regions that pages elsewhere rely on: a name that goes is a fault."""
    return {*(EVERY + NAMES.get(folder, "")).split()}


@pytest.fixture(scope="module")
def regions():
    """{folder/name: text}, as they are exported."""
    return pages.Weaver(ROOT).regions


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
            assert run.exists(), f"{run} is gone: run tools/charts.py"
            assert evidence.Record(run).header["body-sha256"] == said[2]


def on_gpu(text):
    """The names of its kernels and device functions."""
    return {*evidence.KERNEL.findall(text),
            *re.findall(r"__device__[^;={(]*?(\w+)\(", text)}


def test_names_are_kept_and_every_kernel_is_exported(any_lesson, regions):
    own = {f"{any_lesson.folder}/{name}" for name in names(any_lesson.folder)}
    hidden = on_gpu(any_lesson.text) - on_gpu("".join(
        text for name, text in regions.items()
        if name.startswith(any_lesson.folder)))
    judge(any_lesson, [f"no region {name}, which pages rely on"
                       for name in sorted(own - regions.keys())] + [
        f"{name}, for the GPU, is in no region" for name in hidden])


def dead(path, root):
    """Links, pictures and anchors of a page that lead nowhere."""
    text = re.sub(r"^(```+).*?^\1|`[^`\n]*`", "", path.read_text(),
                  flags=re.M | re.S)
    for link in re.findall(r"\]\((?!https?:)([^)\s]+)\)", text):
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        if not (target.exists() and target.is_relative_to(root)
                and (not anchor or anchor in anchors(target))):
            yield link


@pytest.mark.parametrize("path", DOCS,
                         ids=lambda path: str(path.relative_to(ROOT)))
def test_links(path):
    wrong = list(dead(path, ROOT))
    for lesson in LESSONS:
        if lesson.folder == path.parent.name:
            judge(lesson, wrong)
    assert wrong == []


def test_readme_and_repository_agree():
    rows = re.findall(r"^\| \d+ \|.*\((day[^/]+)/README\.md\)", README, re.M)
    assert rows == [one.folder for one in LESSONS
                    if one.folder in rows or not one.draft]
    commands = re.findall(r"nvcc -std[^\n'&]*?\.cu", README)
    builds = "".join(one.text for one in LESSONS)
    for command in commands:
        plain = re.sub(r" [\w/-]+/", " ", command).replace(
            "-DLESSON_YOURS -o mine mine", "-o reduction_1 reduction_1")
        assert plain in builds, command
    presets = json.loads((ROOT / "CMakePresets.json").read_text())
    known = {one["name"] for one in presets["workflowPresets"]}
    used = re.findall(r"--workflow --preset (\w+)", README)
    assert commands and used[:2] == ["lessons", "check"] and {*used} <= known
    assert README.index("--preset check") < 4000


def tracked():
    _, listed = sh(["git", "-C", ROOT, "ls-files", "-z"])
    found = [name for name in listed.split("\0")[:-1]
             if (ROOT / name).exists()]
    return found or pytest.skip("not a clone")


def test_recipe(tmp_path):
    """README.md's recipe of a new lesson, on a copy: a draft that can be
    exported and woven, and that fails nothing for what it lacks."""
    for name in tracked():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    recipe = re.search(r"### A new lesson.*?```sh\n(.*?)```", README, re.S)
    status, said = sh(["sh", "-ec", recipe[1]], cwd=tmp_path)
    assert status == 0, said
    [new] = evidence.lessons(tmp_path, ["day99"])
    assert new.draft and new.text.startswith("// Day 99: ")
    assert "\n// Verified: UNVERIFIED\n" in new.text
    assert "reduction_1" not in new.text
    weaver = pages.Weaver(tmp_path)
    weaver.page(new.path.with_name("README.md"))
    assert weaver.wrong == []
    assert {f"{new.folder}/{name}" for name in names("")} <= {*weaver.regions}


def test_no_place_is_named():
    for name in tracked():
        found = re.search(rb"(?<![\w.])/(home|root|work|Users)/\w+|\bTODO\b",
                          (ROOT / name).read_bytes())
        assert not found or name == "tests/test_docs.py", f"{name}: {found[0]}"


def test_notebook(any_lesson, tmp_path, monkeypatch):
    """Without a GPU: it compiles, and each run ends in the refusal."""
    path = any_lesson.path.with_suffix(".ipynb")
    judge(any_lesson, ["no notebook"] * (not path.exists()))
    compiler = shutil.which(NVCC) or missing(f"no {NVCC}")
    monkeypatch.setenv("PATH", str(Path(compiler).parent), prepend=os.pathsep)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "-DLESSON_NO_CUB -DLESSON_QUICK")
    shutil.copy(any_lesson.path, tmp_path)
    book = nbformat.read(path, 4)
    nbformat.validate(book)
    nbclient.NotebookClient(
        book, timeout=600, kernel_name="python3",
        resources={"metadata": {"path": tmp_path}}).execute()
    said = "".join(output.get("text", "") for cell in book.cells
                   for output in cell.get("outputs", []))
    assert "error:" not in said and "copy (ceiling)" in said, said
    codes = re.findall(r"exit code (\d+)", said)
    judge(any_lesson, ["of the headings `##` of its page, one needs the word "
                       "`run` and one `exercises`: the notebook's cells go "
                       "there"] * (len(codes) < 3))
    assert codes == ["77"] * 3, said
    assert said.count("SKIPPED:") == 3, said


# --- Page generators: what README.md shows embeds every region unchanged -----
SHOWN = {
    "sphinx-build": ("```{literalinclude} snippets/NAME\n:language: cuda\n```",
                     "-q -b html . html", "html/index.html"),
    "mkdocs": ('```cuda\n--8<-- "NAME"\n```', "build -q --strict",
               "site/index.html"),
    "pandoc": ("```{.cpp include=snippets/NAME}\n```",
               "--lua-filter x.lua docs/index.md -o page.html", "page.html")}


@pytest.mark.parametrize("tool", SHOWN)
def test_generator(tool, regions, tmp_path):
    shown, arguments, made = SHOWN[tool]
    assert shown.replace("NAME", "day24-reduction/v3-sequential.cu") in README
    path = shutil.which(tool)
    if tool == "pandoc" and not path:
        path = pytest.importorskip("pypandoc").get_pandoc_path()
    wanted = {f"{name}.cu": text for name, text in regions.items()}
    page = "# Page\n" + "".join(
        f"\nat {name}\n\n{shown.replace('NAME', name)}\n" for name in wanted)
    yaml, lua = (re.search(rf"```{kind}\n(.*?)```", README, re.S)[1]
                 for kind in ("yaml", "lua"))
    for name, text in {
            **{f"snippets/{name}": code for name, code in wanted.items()},
            "index.md": page, "docs/index.md": page, "x.lua": lua,
            "mkdocs.yml": "site_name: x\nuse_directory_urls: false\n" + yaml,
            "conf.py": 'extensions = ["myst_parser"]\n'
                       'exclude_patterns = ["docs"]\n'}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    status, said = sh([path or missing(f"no {tool}"), *arguments.split()],
                      cwd=tmp_path)
    assert status == 0, said
    html_page = (tmp_path / made).read_text()
    for name, code in wanted.items():
        found = re.search(rf"at {re.escape(name)}</p>.*?<pre\b[^>]*>(.*?)"
                          "</pre>", html_page, re.S)
        got = html.unescape(re.sub(r"<[^>]*>", "", found[1]))
        assert got.rstrip("\n") == code.rstrip("\n"), name
    assert len(wanted) > 30
