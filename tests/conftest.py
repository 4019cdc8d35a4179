"""What the tests of the lessons share: records and machine code.

CUBINS: a folder with NAME.sm_XX.cubin; what it lacks is compiled into
CUBINS/more. NVCC: the compiler. LESSON_RUN, LESSON_PROFILE, LESSON_ARCH: this
run, this profile, this architecture only, for planted faults.
"""
import os
import re
import shutil
import sys
from functools import lru_cache
from pathlib import Path

import pytest

import sass

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
import evidence  # noqa: E402
import programs  # noqa: E402
from programs import NVCC  # noqa: E402, F401

CUBINS = Path(os.environ.get("CUBINS", evidence.ROOT / "build/cubins"))
RECORDS = {"run": evidence.Record,
           "profile": evidence.Profile,  # checked launches
           "timed": evidence.Profile}  # caches left alone


def missing(tool):
    """A test that needs a tool is skipped, or fails where tools must be."""
    if os.environ.get("LESSONS_REQUIRE_TOOLS", "OFF") in ("", "OFF", "0"):
        pytest.skip(tool)
    pytest.fail(tool)


def judge(lesson, wrong):
    """Fails with what is wrong; a draft lists what it lacks."""
    text = "\n".join([lesson.folder, *wrong])
    if wrong and lesson.draft:
        pytest.skip("a draft, and lacks: " + text.replace("\n", "; "))
    if wrong:
        pytest.fail(text, pytrace=False)


def edit(path, old, new):
    """Plants an error in a file."""
    text = path.read_text()
    assert old in text, f"no {old} to edit in {path}"
    path.write_text(text.replace(old, new))


def committed(root):
    """The commit that now holds all of a folder."""
    if not shutil.which("git"):
        pytest.skip("no git")
    status, said = programs.sh(["sh", "-ec", """git init -q; git add .
        git -c user.name=a -c user.email=b -c commit.gpgsign=false commit -qmx
        git rev-parse HEAD"""], cwd=root)
    assert status == 0, said
    return said.strip()


def anchors(path):
    """Of a page's headings, as GitHub makes them."""
    text = re.sub(r"^(```+).*?^\1", "", path.read_text(), flags=re.M | re.S)
    heads = re.findall(r"^#+ +(.*)$", text, re.M)
    return {re.sub(r"[^\w -]", "", re.sub(r"\]\([^)]*\)", "", head)).strip()
            .lower().replace(" ", "-") for head in heads}


def lesson_of(module):
    """tests/test_day24.py tests the lesson of day 24."""
    day = re.search(r"test_(day\d+)$", module.__name__)
    return next(iter(evidence.lessons(days=[day[1]]) if day else []), None)


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "archs(75, ...): architectures to test machine code for")


def pytest_generate_tests(metafunc):
    """A test of a lesson gets each record, or each architecture's kernels."""
    lesson = lesson_of(metafunc.module)
    for name in metafunc.fixturenames if lesson else ():
        if name == "kernels":
            marker = metafunc.definition.get_closest_marker("archs")
            archs = marker.args if marker else sorted({*lesson.builds, 90})
            only = os.environ.get("LESSON_ARCH")
            found = {f"sm_{arch}": (lesson, arch) for arch in archs
                     if only in (None, str(arch))}
        elif name in RECORDS:
            given = os.environ.get(f"LESSON_{name.upper()}")
            found = {path.stem: path for path in (
                [Path(given)] if given else
                sorted(lesson.evidence.glob(f"{name}-*")))}
        else:
            continue
        metafunc.parametrize(name, found.values(), ids=found, indirect=True,
                             scope="module")


@lru_cache(maxsize=None)
def nvcc_version():
    """(13, 0, 88)"""
    found = programs.toolkit() or missing("no nvcc")
    return tuple(map(int, found.split(".")))


@lru_cache(maxsize=None)
def known_archs():
    status, said = programs.sh([NVCC, "--list-gpu-code"])
    if status:
        missing(f"no nvcc: {said}")
    return set(map(int, re.findall(r"sm_(\d+)$", said, re.M)))


def built(name):
    """A program of this build, in whatever configuration, or None."""
    return next((CUBINS.parent / "bin").rglob(name), None)


def compiled(lesson, arch, *flags):
    """What nvcc makes of a lesson, kept for as long as both are the same."""
    status, said, program = programs.build(
        CUBINS / "more", lesson.name, lesson.text, arch, "-DLESSON_NO_CUB",
        *flags)
    assert status == 0, said
    return program


def cubin(lesson, arch):
    """The machine code of a lesson, compiled where it is not at hand."""
    path = CUBINS / f"{lesson.name}.sm_{arch}.cubin"
    if path.exists():
        return path
    if arch not in known_archs():
        pytest.skip(f"this nvcc does not know sm_{arch}")
    return compiled(lesson, arch, "-cubin")


@pytest.fixture(params=evidence.lessons(), ids=lambda one: one.folder)
def any_lesson(request):
    return request.param


@pytest.fixture(scope="module")
def lesson(request):
    return lesson_of(request.module)


@pytest.fixture(scope="module")
def kernels(request):
    """{name: [a Kernel for each set of template arguments]} of one cubin."""
    lesson, arch = request.param
    for name in ("cuobjdump", "nvdisasm"):
        sass.tool(name) or missing(f"{name} not found")
    return sass.read(cubin(lesson, arch))


@pytest.fixture
def kernel(kernels):
    """The only instance of a kernel."""
    def only(name):
        [one] = kernels[name]
        return one
    return only


@pytest.fixture
def every_kernel(kernels):
    return [kernel for same in kernels.values() for kernel in same]


def recorded(kind):
    @pytest.fixture(scope="module", name=kind)
    def record(request):
        """What was recorded; `.run` is the run of the same build."""
        found = RECORDS[kind](request.param)
        run = os.environ.get("LESSON_RUN") or found.path.with_name(
            found.path.name.replace(f"{kind}-", "run-")).with_suffix(".txt")
        found.run = found if kind == "run" else evidence.Record(run)
        return found
    return record


run, profile, timed = map(recorded, RECORDS)
