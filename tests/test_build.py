"""The build itself: what people configure, lack or break. No GPU needed.

Most of it on a small copy of the build with two lessons: `first` for sm_75,
`second` for sm_90. Both end with the exit code that CODE names.
"""
import json
import os
import re
import shutil
from pathlib import Path

import evidence
import pytest
from conftest import NVCC, built, judge, missing, nvcc_version
from programs import sh

CMAKE = os.environ.get("CMAKE", "cmake")
os.environ.pop("CMAKE_GENERATOR", None)  # a test names its own
NVCC = shutil.which(NVCC) or "/usr/local/cuda/bin/nvcc"
LESSON = r"""#include <cstdio>
#include <cstdlib>
__global__ void kernel(float* out) { *out = 1; }
int main() {
  const int code = std::atoi(std::getenv("CODE"));
  std::printf("%s\n", code == 77 ? "SKIPPED: it has no [GPU]; \"$x\"" : "ran");
  return code;
}
"""


def run(*command, says=(), fails=False, cwd=None, **env):
    """What a command prints, in one line since CMake wraps messages."""
    status, text = sh(command, 300, {"CODE": "77", **env}, cwd)
    said = " ".join(text.split())
    assert fails is None or fails == (status != 0), text
    assert all(one in said for one in says), text
    return said


class Tree:
    """A copy of the build with the two lessons, and a build folder in it."""

    def __init__(self, root):
        self.root, self.build = root, root / "build"
        shutil.copytree(evidence.ROOT / "cmake", root / "cmake")
        shutil.copy(evidence.ROOT / "CMakePresets.json", root)
        lists = (evidence.ROOT / "CMakeLists.txt").read_text()
        self.write("CMakeLists.txt", re.sub(
            r"(^lesson\(.*\n)+", "lesson(day01-first/first.cu 75)\n"
            "lesson(day02-second/second.cu 90 DRAFT)\n", lists, flags=re.M))
        self.write("day01-first/first.cu", LESSON)
        self.write("day02-second/second.cu", LESSON)

    def write(self, path, text):
        (self.root / path).parent.mkdir(exist_ok=True)
        (self.root / path).write_text(text)

    def configure(self, *options, **more):
        """What earlier calls set is forgotten; the compilers are known."""
        return run(CMAKE, "-S", self.root, "-B", self.build,
                   "-UCMAKE_CUDA_ARCHITECTURES", "-UCMAKE_CUDA_STANDARD",
                   "-ULESSONS_*", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
                   *options, **{"CUDAARCHS": "", "CUDACXX": NVCC, **more})

    def make(self, *options, **more):
        return run(CMAKE, "--build", self.build, *options, **more)

    def ctest(self, *options, **more):
        return run(Path(CMAKE).with_name("ctest"), "--test-dir", self.build,
                   *options, **more)

    def lessons(self, **more):
        """What the README tells students to do."""
        return run(CMAKE, "--workflow", "--preset", "lessons", cwd=self.root,
                   CUDACXX=NVCC, **more)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """One for all tests of a process, configured once: that takes seconds."""
    tree = Tree(tmp_path_factory.mktemp("small") / "tree")
    tree.configure()
    return tree


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path / "tree")


@pytest.fixture
def nvcc(tmp_path):
    """Makes a script that first does what it is told, then is nvcc."""
    path = tmp_path / "bin" / "nvcc"
    path.parent.mkdir()

    def script(words):
        path.write_text(f'#!/bin/sh\n{words}\nexec "{NVCC}" "$@"\n')
        path.chmod(0o755)
        return str(path)
    return script


# ---- architectures and standards

@pytest.mark.parametrize("option, env, wanted", [
    ("", "", {"first": "75", "second": "90"}),
    ("=", "", {"first": "75", "second": "90"}),
    ("=80", "", {"first": "80"}),
    ("=75;90", "", {"first": "75 90", "second": "90"}),
    ("=90-real", "75", {"first": "90", "second": "90"}),
    ("", "90", {"first": "90", "second": "90"}),
    ("=all", "", {"first": r"75( \d+){2,}", "second": r"90( \d+)*"})])
def test_architectures(small, option, env, wanted):
    said = small.configure(
        *[f"-DCMAKE_CUDA_ARCHITECTURES{option}"] * bool(option), CUDAARCHS=env)
    commands = json.loads((small.build / "compile_commands.json").read_text())
    found = {Path(one["file"]).stem: " ".join(sorted(set(
        re.findall(r"(?:compute|sm)_(\d+)", one["command"])), key=int))
        for one in commands}
    assert found.keys() == wanted.keys()
    for name, archs in found.items():
        assert re.fullmatch(wanted[name], archs)
    assert "second" in wanted or (
        "lesson second left out: it needs sm_90 or newer, and "
        "CMAKE_CUDA_ARCHITECTURES is 80") in said


@pytest.mark.parametrize("option, said", [
    ("ARCHITECTURES=hopper", "cannot compile for 'hopper'"),
    ("ARCHITECTURES=35", "cannot compile for '35'. It knows native"),
    ("ARCHITECTURES=native", "native needs a GPU on the machine that"),
    ("STANDARD=14", "CMAKE_CUDA_STANDARD=14: the lessons need 17")])
def test_refused(small, option, said):
    small.configure(f"-DCMAKE_CUDA_{option}", CUDA_VISIBLE_DEVICES="",
                    fails=True, says=[said])


def test_standard(small):
    """CMake 3.25 knows none of nvcc 13."""
    said = small.configure("-DCMAKE_CUDA_STANDARD=20", fails=None)
    assert 'requires the language dialect "CUDA20"' in said or "c++20" in (
        small.build / "compile_commands.json").read_text()


def test_toolkit_lacks_architecture(tree, nvcc):
    old = nvcc('[ "$1" = --list-gpu-arch ] && echo compute_75 && exit')
    tree.configure(CUDACXX=old, says=["lesson second left out: CUDA",
                                      "cannot compile for sm_90"])
    assert [path.name for path in tree.build.glob("*/lesson.*.dir")] == [
        "lesson.first.dir"]


# ---- compilers

def test_compiler_errors(tree, nvcc):
    """They are shown, and not remembered."""
    tree.configure(CUDACXX=nvcc("echo unsupported GNU version! >&2; exit 1"),
                   fails=True, says=["cannot compile an empty file",
                                     "unsupported GNU version!"])
    tree.configure(CUDACXX=nvcc(""))


def test_no_nvcc(tree, nvcc, tmp_path):
    """Neither on PATH nor where it is usually; nor is that remembered."""
    lists = tree.root / "CMakeLists.txt"
    lists.write_text(lists.read_text().replace("/usr/local/cuda", "/nowhere"))
    folder = tmp_path / "path"
    folder.mkdir()
    for path in filter(os.path.isdir, os.environ["PATH"].split(os.pathsep)):
        for tool in set(os.listdir(path)) - {"nvcc", *os.listdir(folder)}:
            (folder / tool).symlink_to(Path(path) / tool)
    env = {"CUDACXX": "", "PATH": str(folder)}
    tree.configure(**env, fails=True,
                   says=["no CUDA compiler found. Install"])
    shutil.copy(nvcc(""), folder)
    tree.configure(**env)
    lists.write_text(lists.read_text().replace("VERSION_LESS 12", "LESS 99"))
    tree.configure(**env, fails=True,
                   says=["the lessons need nvcc 12.4 or newer"])


# ---- generators and folders

def test_multi_config(tree):
    if not shutil.which("ninja"):
        missing("no ninja")
    tree.lessons(CMAKE_GENERATOR="Ninja Multi-Config", says=["2 skipped"])
    tree.make("--config", "Debug")
    tree.ctest("-C", "Debug", "--no-tests=error", CODE="0", says=["2 ran"])
    tree.ctest(fails=True, says=["0 passed, 2 failed"])  # without -C
    for config in ("Debug", "Release"):
        assert (tree.build / "bin" / config / "first").exists()


def test_subdirectory(tree):
    """In another project: neither its targets nor its build type suffer."""
    names = set(re.findall(r"add_custom_target\((\w+)", "".join(
        path.read_text() for path in tree.root.glob("cmake/*.cmake"))))
    assert {"cubins", "venv"} <= names
    parent = Tree(tree.root / "parent")
    parent.write("CMakeLists.txt", "\n".join([
        "cmake_minimum_required(VERSION 3.25)", "project(parent CXX)",
        *(f"add_custom_target({name})" for name in (
            *names, "first", "record", "charts", "faults", "pages")),
        f"add_subdirectory({tree.root} inner)",
        'message("type is [${CMAKE_BUILD_TYPE}]")']))
    parent.configure("-DLESSONS_CHECKS=ON", says=["type is []"])
    parent.make("--target", "lesson.first")
    assert (parent.build / "inner/bin/first").exists()


@pytest.mark.parametrize("name", ["a$b", "a[b", "a#b", "a;b", "a:b"])
def test_folders_refused(tmp_path, name):
    Tree(tmp_path / name).configure(
        fails=True, says=[f"/{name}", "Use another folder"])


def test_folder_with_odd_letters(tmp_path):
    tree = Tree(tmp_path / "the lessons, é (it's 100% & fine)")
    tree.lessons(says=["2 skipped"])
    tree.make("--target", "cubins")
    assert len(list(tree.build.glob("cubin/*.cubin"))) == 3


# ---- what is shown at the end

def test_closing(small):
    small.configure()
    small.make()
    for code, ran, failed, skipped in ("0", 2, 0, 0), ("1", 0, 2, 0), (
            "77", 0, 0, 2):
        said = small.ctest("--no-tests=error", CODE=code, fails=code == "1",
                           says=[f"Lessons: {ran} ran without a failed check, "
                                 f"{failed} failed, {skipped} skipped. ",
                                 f"Tests: {ran} passed, {failed} failed, "
                                 f"{skipped} skipped"])
    for text in ("***Skipped", "No lesson ran here",
                 "Skipped: lesson.first, lesson.second: it has no"):
        assert text in said
    small.configure("-DLESSONS_REQUIRE_GPU=ON")
    small.ctest(fails=True, says=["***Failed", "2 failed, 0 skipped"])


def test_without_python(tree):
    """No package index, then no Python: said, skipped or failed, and a failed
    installation is tried again."""
    tree.write("tests/test_one.py", "")
    tree.write("tests/requirements.txt", "pytest==9.9.9 --hash=sha256:00\n")
    on, require = "-DLESSONS_CHECKS=ON", "-DLESSONS_REQUIRE_TOOLS=ON"
    none = "-DCMAKE_DISABLE_FIND_PACKAGE_Python3=ON"
    tree.configure(on)
    tree.make("--target", "venv", PIP_NO_INDEX="1",
              says=["could not be installed"])
    tree.ctest("-R", "test_one", says=[
        "***Skipped", "Skipped: test_one: no virtual environment"])
    tree.configure(on, require)
    tree.make("--target", "venv", PIP_NO_INDEX="1", fails=True, says=[
        "the packages of tests/requirements.txt could not be installed"])
    tree.ctest("-R", "test_one", fails=True)
    tree.write("tests/requirements.txt", "")
    tree.make("--target", "venv")
    assert (tree.build / "venv/made").exists()
    tree.configure(on, none)
    tree.ctest("-R", "test_one", says=["Python 3.10 or newer was not"])
    tree.configure(on, none, require, fails=True,
                   says=["LESSONS_REQUIRE_TOOLS"])


# ---- the lessons, as they are

def test_alone(any_lesson, tmp_path):
    """The Build lines of its header, in a folder that holds nothing else; the
    file has CRLF line ends and is read-only. Nothing is printed."""
    name = any_lesson.name
    source = tmp_path / f"{name}.cu"
    source.write_bytes(any_lesson.text.encode().replace(b"\n", b"\r\n"))
    source.chmod(0o444)
    lines = re.findall(r"^//[ a-zA-Z0-9.:]* nvcc (-std=c\+\+17 .*)$",
                       any_lesson.text, re.M)
    assert lines
    for line in lines:
        said = run(NVCC, *line.split(), cwd=tmp_path,
                   NVCC_APPEND_FLAGS="-DLESSON_NO_CUB")
        judge(any_lesson, [said] * bool(said))
        assert {*tmp_path.iterdir()} == {tmp_path / name, source}
        (tmp_path / name).unlink()


REFUSALS = {  # what is said of a driver: CUDA versions behind, its answer
    "no NVIDIA driver found": None, "driver is too old": (1, 100),
    "no GPU found": (0, 100), "driver does not work": (0, 999)}


@pytest.fixture(scope="module", params=REFUSALS)
def refusal(request, tmp_path_factory):
    """What is said of a driver that cannot be used, and its folder."""
    library = tmp_path_factory.mktemp("driver") / "libcuda.so.1"
    library.write_text("")
    major, minor, _ = nvcc_version()
    if driver := REFUSALS[request.param]:
        version = 1000 * (major - driver[0]) + 10 * minor
        run("c++", "-shared", "-fPIC", f"-DDRIVER_VERSION={version}",
            f"-DDRIVER_ERROR={driver[1]}", "-o", library,
            evidence.ROOT / "tests/driver.cpp")
    return request.param, str(library.parent)


def program(lesson):
    return built(lesson.name) or pytest.skip(f"{lesson.name} is not built")


def test_refusals(any_lesson, refusal):
    """Each driver has its own refusal, and no other one's text."""
    wanted, folder = refusal
    status, said = sh([program(any_lesson)], env={"LD_LIBRARY_PATH": folder})
    found = [text for text in REFUSALS if text in said]
    if (status, found) != (77, [wanted]):
        judge(any_lesson, [f"{wanted}: exit code {status}, says {found}"])


@pytest.mark.parametrize("stdout", [">/dev/full", ">&-"])
def test_lost_output(any_lesson, stdout):
    """Output that nobody gets is a failure."""
    status, _ = sh(["sh", "-c", f'"$0" --list {stdout}', program(any_lesson)])
    judge(any_lesson, [f"exit code {status}"] * (status != 1))


def test_format(any_lesson):
    tool = shutil.which("clang-format")
    if not tool or " 14." not in run(tool, "--version"):
        missing("clang-format 14 not found")
    _, said = sh([tool, "--style=file", "--dry-run", any_lesson.path])
    judge(any_lesson, said.splitlines())
