"""The build itself: what people configure, lack or break. No GPU needed.

Most of it on a small copy of the build with two lessons: `first` for sm_75,
`second` for sm_90. Both end with the exit code that CODE names.
"""
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import evidence
import pytest
from conftest import CUBINS, NVCC, judge, missing

CMAKE = os.environ.get("CMAKE", "cmake")
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


class Result:
    def __init__(self, *command, cwd=None, **env):
        env = {**os.environ, "CODE": "77", **env}
        done = subprocess.run(
            [str(word) for word in command], cwd=cwd, env=env, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
        self.code, self.lines = done.returncode, done.stdout
        self.text = " ".join(done.stdout.split())  # CMake wraps messages

    def says(self, *texts):
        for text in texts:
            assert text in self.text, self.lines
        return self

    def ok(self):
        assert self.code == 0, self.lines
        return self

    def fails(self):
        assert self.code != 0, self.lines
        return self


class Tree:
    """A copy of the build with the two lessons, and a build folder in it."""

    def __init__(self, root):
        self.root, self.build = root, root / "build"
        root.mkdir(parents=True)
        shutil.copy(evidence.ROOT / "CMakePresets.json", root)
        shutil.copytree(evidence.ROOT / "cmake", root / "cmake")
        text = (evidence.ROOT / "CMakeLists.txt").read_text()
        text = re.sub(r"^lesson\(.*\n", "", text, flags=re.M)
        self.write("CMakeLists.txt", text.replace(
            "if(PROJECT_IS_TOP_LEVEL)\n  include",
            "lesson(day01-first/first.cu 75)\n"
            "lesson(day02-second/second.cu 90 DRAFT)\n"
            "if(PROJECT_IS_TOP_LEVEL)\n  include"))
        self.write("day01-first/first.cu", LESSON)
        self.write("day02-second/second.cu", LESSON)

    def write(self, path, text):
        (self.root / path).parent.mkdir(exist_ok=True)
        (self.root / path).write_text(text)

    def configure(self, *options, **env):
        """What earlier calls set is forgotten; the compilers are known."""
        env = {"CUDAARCHS": "", "CUDACXX": NVCC, **env}
        return Result(CMAKE, "-S", self.root, "-B", self.build,
                      "-UCMAKE_CUDA_ARCHITECTURES", "-UCMAKE_CUDA_STANDARD",
                      "-ULESSONS_*", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
                      *options, **env)

    def make(self, *options, **env):
        return Result(CMAKE, "--build", self.build, *options, **env)

    def ctest(self, *options, **env):
        return Result(Path(CMAKE).with_name("ctest"), "--test-dir",
                      self.build, *options, **env)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """One for all tests of a process, configured once: that takes seconds."""
    tree = Tree(tmp_path_factory.mktemp("small") / "tree")
    tree.configure().ok()
    return tree


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path / "tree")


@pytest.fixture
def nvcc(tmp_path):
    """nvcc behind a script; `nvcc.words` says what the script does first."""
    path = tmp_path / "bin" / "nvcc"
    path.parent.mkdir()

    def script(words):
        path.write_text(f'#!/bin/sh\n{words}\nexec "{NVCC}" "$@"\n')
        path.chmod(0o755)
        return path
    return script


# ---- architectures and standards

@pytest.mark.parametrize("option, env, wanted", [
    ("", "", {"first": "75", "second": "90"}),
    ("=", "", {"first": "75", "second": "90"}),
    ("=80", "", {"first": "80"}),
    ("=75;90", "", {"first": "75 90", "second": "90"}),
    ("=90-real", "75", {"first": "90", "second": "90"}),
    ("", "90", {"first": "90", "second": "90"}),
    ("=all", "", {"second": "90", "first": "75"})])
def test_architectures(small, option, env, wanted):
    options = [f"-DCMAKE_CUDA_ARCHITECTURES{option}"] if option else []
    said = small.configure(*options, CUDAARCHS=env).ok()
    commands = json.loads((small.build / "compile_commands.json").read_text())
    found = {Path(one["file"]).stem: set(
        re.findall(r"(?:compute|sm)_(\d+)", one["command"]))
        for one in commands}
    assert found.keys() == wanted.keys()
    for name, archs in wanted.items():
        if option == "=all":
            least = min(map(int, found[name]))
            assert least == int(archs)
            assert name == "second" or len(found[name]) > 2
        else:
            assert found[name] == set(archs.split())
    if "second" not in wanted:
        said.says("lesson second left out: it needs sm_90 or newer, and "
                  "CMAKE_CUDA_ARCHITECTURES is 80")


@pytest.mark.parametrize("option, said", [
    ("ARCHITECTURES=hopper", "cannot compile for 'hopper'"),
    ("ARCHITECTURES=35", "cannot compile for '35'. It knows native"),
    ("ARCHITECTURES=native", "native needs a GPU on the machine that"),
    ("STANDARD=14", "CMAKE_CUDA_STANDARD=14: the lessons need 17")])
def test_refused(small, option, said):
    small.configure(f"-DCMAKE_CUDA_{option}",
                    CUDA_VISIBLE_DEVICES="").fails().says(said)


def test_standard(small):
    said = small.configure("-DCMAKE_CUDA_STANDARD=20")
    commands = (small.build / "compile_commands.json").read_text()
    assert said.code or "c++20" in commands
    if said.code:  # CMake 3.25 knows none of nvcc 13
        said.says('requires the language dialect "CUDA20"')


def test_toolkit_lacks_architecture(tree, nvcc):
    old = nvcc('[ "$1" = --list-gpu-arch ] && echo compute_75 && exit')
    tree.configure(CUDACXX=str(old)).ok().says(
        "lesson second left out: CUDA", "cannot compile for sm_90")
    assert [path.name for path in tree.build.glob("*/lesson.*.dir")] == [
        "lesson.first.dir"]


# ---- compilers

def test_compiler_errors(tree, nvcc):
    """They are shown, and not remembered."""
    wrapper = nvcc("echo unsupported GNU version! >&2; exit 1")
    tree.configure(CUDACXX=str(wrapper)).fails().says(
        "cannot compile an empty file", "unsupported GNU version!")
    nvcc("")
    tree.configure(CUDACXX=str(wrapper)).ok()


def test_no_nvcc(tree, nvcc, tmp_path):
    """Neither on PATH nor where it is usually; nor is that remembered."""
    lists = tree.root / "CMakeLists.txt"
    lists.write_text(lists.read_text().replace("/usr/local/cuda", "/nowhere"))
    folder = tmp_path / "path"
    folder.mkdir()
    for path in os.environ["PATH"].split(os.pathsep):
        for tool in set(os.listdir(path)) - {"nvcc", *os.listdir(folder)}:
            (folder / tool).symlink_to(Path(path) / tool)
    env = {"CUDACXX": "", "PATH": str(folder)}
    tree.configure(**env).fails().says("no CUDA compiler found. Install")
    shutil.copy(nvcc(""), folder)
    tree.configure(**env).ok()
    lists.write_text(lists.read_text().replace("VERSION_LESS 12", "LESS 99"))
    tree.configure(**env).fails().says("the lessons need nvcc 12.4 or newer")


# ---- generators and folders

def test_multi_config(tree):
    if not shutil.which("ninja"):
        missing("no ninja")
    Result(CMAKE, "--workflow", "--preset", "lessons", cwd=tree.root,
           CMAKE_GENERATOR="Ninja Multi-Config", CUDACXX=NVCC).ok().says(
               "2 skipped")
    tree.make("--config", "Debug").ok()
    tree.ctest("-C", "Debug", "--no-tests=error", CODE="0").ok().says("2 ran")
    for config in ("Debug", "Release"):
        assert (tree.build / "bin" / config / "first").exists()


def test_subdirectory(tree):
    """In another project: neither its targets nor its build type suffer."""
    names = set(re.findall(r"add_custom_target\((\w+)", "".join(
        path.read_text() for path in tree.root.glob("cmake/*.cmake"))))
    assert "cubins" in names and "venv" in names
    parent = Tree(tree.root / "parent")
    parent.write("CMakeLists.txt", "\n".join([
        "cmake_minimum_required(VERSION 3.25)", "project(parent CXX)",
        *(f"add_custom_target({name})" for name in (
            *names, "first", "record", "charts", "faults", "pages")),
        f"add_subdirectory({tree.root} inner)",
        'message("type is [${CMAKE_BUILD_TYPE}]")']))
    parent.configure("-DLESSONS_CHECKS=ON").ok().says("type is []")
    parent.make("--target", "lesson.first").ok()
    assert (parent.build / "inner/bin/first").exists()


@pytest.mark.parametrize("name", ["the lessons, é (it's 100% & fine)",
                                  "a$b", "a[b", "a#b", "a;b", "a:b"])
def test_folders(tmp_path, name):
    tree = Tree(tmp_path / name)
    if len(name) < 5:
        tree.configure().fails().says(f"/{name}", "Use another folder")
    else:
        Result(CMAKE, "--workflow", "--preset", "lessons", cwd=tree.root,
               CUDACXX=NVCC).ok().says("2 skipped")
        tree.make("--target", "cubins").ok()
        assert len(list(tree.build.glob("cubin/*.cubin"))) == 3


# ---- what is shown at the end

def test_closing(small):
    small.configure().ok()
    small.make().ok()
    end = ("Lessons: {} ran without a failed check, {} failed, {} skipped. ",
           "Tests: {} passed, {} failed, {} skipped")
    for code, counts in ("0", (2, 0, 0)), ("1", (0, 2, 0)), ("77", (0, 0, 2)):
        said = small.ctest("--no-tests=error", CODE=code)
        assert (said.code == 0) == (code != "1")
        said.says(*(line.format(*counts) for line in end))
    said.says("***Skipped", "No lesson ran here",
              "Skipped: lesson.first, lesson.second: it has no")
    small.configure("-DLESSONS_REQUIRE_GPU=ON").ok()
    small.ctest().fails().says("***Failed", "2 failed, 0 skipped")


def test_without_python(tree):
    """No package index, then no Python: said, skipped or failed, and a failed
    installation is tried again."""
    tree.write("tests/test_one.py", "")
    tree.write("tests/requirements.txt", "pytest==9.9.9 --hash=sha256:00\n")
    on, require = "-DLESSONS_CHECKS=ON", "-DLESSONS_REQUIRE_TOOLS=ON"
    none = "-DCMAKE_DISABLE_FIND_PACKAGE_Python3=ON"
    tree.configure(on).ok()
    tree.make("--target", "venv", PIP_NO_INDEX="1").ok().says(
        "could not be installed")
    tree.ctest("-R", "test_one").ok().says(
        "***Skipped", "Skipped: test_one: no virtual environment")
    tree.configure(on, require).ok()
    tree.make("--target", "venv", PIP_NO_INDEX="1").fails().says(
        "the packages of tests/requirements.txt could not be installed")
    tree.ctest("-R", "test_one").fails()
    tree.write("tests/requirements.txt", "")
    tree.make("--target", "venv").ok()
    assert (tree.build / "venv/made").exists()
    tree.configure(on, none).ok()
    tree.ctest("-R", "test_one").ok().says("Python 3.10 or newer was not")
    tree.configure(on, none, require).fails().says("LESSONS_REQUIRE_TOOLS")


# ---- the lessons, as they are

REFUSALS = {"none": "no NVIDIA driver found", "old": "driver is too old",
            "empty": "no GPU found", "broken": "driver does not work"}


def test_alone(any_lesson, tmp_path):
    """The Build lines of its header, in a folder that holds nothing else; the
    file has CRLF line ends and is read-only. Nothing is printed."""
    name = any_lesson.name
    lines = re.findall(r"^//[ a-zA-Z0-9.:]* (nvcc -std=c\+\+17 .*)$",
                       any_lesson.text, re.M)
    assert lines
    source = tmp_path / f"{name}.cu"
    source.write_bytes(any_lesson.text.encode().replace(b"\n", b"\r\n"))
    source.chmod(0o444)
    for line in lines:
        said = Result(NVCC, *line.split()[1:], cwd=tmp_path,
                      NVCC_APPEND_FLAGS="-DLESSON_NO_CUB").ok()
        judge(any_lesson, said.lines.splitlines())
        assert {path.name for path in tmp_path.iterdir()} == {
            name, f"{name}.cu"}
        (tmp_path / name).unlink()


@pytest.fixture(scope="module")
def drivers(tmp_path_factory):
    """Folders with a driver that cannot be used, by what is wrong with it."""
    root = tmp_path_factory.mktemp("drivers")
    major, minor = map(int, re.search(r"release (\d+)\.(\d+)", Result(
        NVCC, "--version").lines).groups())
    toolkit = major * 1000 + minor * 10
    for name in REFUSALS:
        (root / name).mkdir()
        (root / name / "libcuda.so.1").write_text("")
    for name, version, error in (
            ("old", toolkit - 1000, 100), ("empty", toolkit, 100),
            ("broken", toolkit, 999)):
        Result("c++", "-shared", "-fPIC", f"-DDRIVER_VERSION={version}",
               f"-DDRIVER_ERROR={error}", "-o", root / name / "libcuda.so.1",
               evidence.ROOT / "tests/driver.cpp").ok()
    return root


def program(lesson):
    path = CUBINS.parent / "bin" / lesson.name
    if not path.exists():
        pytest.skip(f"{path} is not built")
    return path


@pytest.mark.parametrize("driver", REFUSALS)
def test_refusals(any_lesson, drivers, driver):
    """Each driver has its own refusal, and no other one's text."""
    said = Result(program(any_lesson), LD_LIBRARY_PATH=str(drivers / driver))
    judge(any_lesson, [
        f"{driver} driver: exit code {said.code}, '{text}' is said "
        f"{text in said.text}" for name, text in REFUSALS.items()
        if said.code != 77 or (text in said.text) != (name == driver)])


@pytest.mark.parametrize("stdout", [">/dev/full", ">&-"])
def test_lost_output(any_lesson, stdout):
    """Output that nobody gets is a failure."""
    said = Result("sh", "-c", f'"$0" --list {stdout}', program(any_lesson))
    judge(any_lesson, [f"exit code {said.code}"] if said.code != 1 else [])


def test_format(any_lesson):
    tool = shutil.which("clang-format")
    if not tool or " 14." not in Result(tool, "--version").text:
        missing("clang-format 14 not found")
    said = Result(tool, "--style=file", "--dry-run", any_lesson.path)
    judge(any_lesson, said.lines.splitlines())
