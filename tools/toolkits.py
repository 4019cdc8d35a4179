"""Rehearses the jobs of .github/workflows/ci.yml on this machine and compiles
the lessons in other ways; the results become research/BUILD-MATRIX.md.

    python tools/toolkits.py [--work DIR] [--only REGEX]

For a maintainer on Debian with CUDA 13.0 in /usr/local/cuda; Ninja, clang++,
Python 3.10 and 3.12 on PATH; about four minutes per row. CUDA 12.4 is Debian's
(trixie, non-free), the newest that of .github/toolkit; both are unpacked into
DIR. A row that is there for this commit is not made again.
"""
import argparse
import concurrent.futures
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections import namedtuple
from functools import partial
from pathlib import Path

from ruamel.yaml import YAML

import evidence

ROOT = evidence.ROOT
PACKAGES = """nvidia-cuda-toolkit nvidia-cuda-dev libcudart12 libcub-dev
libcu++-dev libthrust-dev""".split()
PROFILE = """TOP = $(_HERE_)/..
NVVMIR_LIBRARY_DIR = $(TOP)/nvvm/libdevice
PATH += $(_HERE_):
INCLUDES += "-I$(TOP)/include" $(_SPACE_)
LIBRARIES =+ $(_SPACE_) "-L$(TOP)/lib64"
"""
VARIANTS = {"C++20": "-std=c++20 -O3 -lineinfo",
            "C++17, for the debugger": "-std=c++17 -g -G",
            "C++17, sm_100": "-std=c++17 -O3 -arch=sm_100",
            "C++17, sm_120": "-std=c++17 -O3 -arch=sm_120"}
FLAGS = "-Werror=all-warnings -Xcompiler=-Wall,-Wextra,-Wshadow"
PASSED = ", 0 failed, "
README = " && ".join(f"cmake --workflow --preset {name}"
                     for name in ("lessons", "check"))
Row = namedtuple("Row", "how hide python cmake nvcc env run wanted", defaults=(
    "-", "3.12", None, None, {}, README, PASSED))


def sh(*command, **options):
    return subprocess.run([str(word) for word in command], check=True,
                          text=True, stdout=subprocess.PIPE, **options).stdout


def debian_toolkit(folder):
    """CUDA 12.4 from Debian's packages, laid out as NVIDIA lays it out."""
    if (folder / "bin/nvcc.profile").exists():
        return folder / "bin"
    apt = folder.parent / "apt"
    for path in ("lists/partial", "cache/archives/partial", "deb"):
        (apt / path).mkdir(parents=True, exist_ok=True)
    site = sh("apt-get", "indextargets", "--format", "$(SITE)",
              "Origin: Debian", "Created-By: Packages").split()[0]
    (apt / "list").write_text(
        "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] "
        f"{site} trixie main contrib non-free\n")
    (apt / "status").touch()
    get = ["apt-get", "-qq", *(f"-oDir::{key}={apt}/{name}" for key, name in (
        ("State", ""), ("State::status", "status"), ("Cache", "cache"),
        ("Etc::sourcelist", "list"), ("Etc::sourceparts", "none")))]
    sh(*get, "update")
    sh(*get, "download", *PACKAGES, cwd=apt / "deb")
    (folder / "root").mkdir(parents=True, exist_ok=True)
    for package in (apt / "deb").glob("*.deb"):
        sh("dpkg", "-x", package, folder / "root")
    shutil.rmtree(apt)
    usr = folder / "root/usr"
    own = usr / "lib/nvidia-cuda-toolkit"
    for path, target in {
            "include": usr / "include", "nvvm/libdevice": own / "libdevice",
            "lib64": usr / "lib/x86_64-linux-gnu",
            **{f"bin/{tool.name}": tool for tool in (
                *(usr / "bin").glob("*[!c]"), own / "bin/cicc",
                own / "bin/crt")}}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).symlink_to(target)
    shutil.copy(own / "bin/nvcc", folder / "bin")  # finds all that by itself
    (folder / "bin/nvcc.profile").write_text(PROFILE)
    return folder / "bin"


def venv(folder, *requirements):
    if not (folder / "made").exists():
        sh(sys.executable, "-m", "venv", "--clear", folder)
        sh(folder / "bin/pip", "install", "-q", *requirements)
        (folder / "made").touch()
    return folder


def rehearsals(toolkits, cmake):
    """{name: Row} of ci.yml's Linux jobs and of what people have."""
    jobs = YAML(typ="safe").load(ROOT / ".github/workflows/ci.yml")["jobs"]
    if set(jobs) != {"linux", "windows", "workflows"}:
        sys.exit(f"ci.yml has other jobs than this script knows: {set(jobs)}")
    bare = "git|cmake|ctest|ninja"
    how = {"12.4": Row("Python 3.10; no git, no CMake", bare, "3.10"),
           "13.0": Row("no git, no CMake, nvcc not on PATH", bare),
           "newest": Row("newest CMake", cmake=cmake)}
    matrix = jobs["linux"]["strategy"]["matrix"]
    rows = {f"CUDA {cuda}, {cxx}": how[cuda]._replace(
        nvcc=toolkits[cuda], env={"CXX": cxx, "CUDAHOSTCXX": cxx},
        run=jobs["linux"]["steps"][-1]["run"])
        for cuda in matrix["cuda"] for cxx in matrix["cxx"]}
    return {
        **rows,
        "no package index": Row(
            "", env={"PIP_NO_INDEX": "1"}, run="bash .ci/run",
            wanted="no Python packages for the tests: is there a package"),
        "README, Ninja Multi-Config": Row(
            "newest CMake; Debug too", "git", cmake=cmake,
            env={"CMAKE_GENERATOR": "Ninja Multi-Config"},
            run=README + " && cmake --build build --config Debug && "
            "ctest --test-dir build -C Debug --no-tests=error"),
        "README, Unix Makefiles": Row("CMake of Debian", "git")}


def rehearse(work, name, row):
    """How it ended, in a few words, and whether that is right."""
    slug = re.sub(r"\W+", "-", name)
    tree, path = work / "tree" / slug, work / "path" / slug
    for folder in (tree, path):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    subprocess.run(f"git archive HEAD | tar x -C '{tree}'", shell=True,
                   check=True, cwd=ROOT)
    (path / "python3").symlink_to(shutil.which(f"python{row.python}"))
    for tool in ("cmake", "ctest") if row.cmake else ():
        (path / tool).symlink_to(row.cmake / tool)
    hide = row.hide + "|nvcc|pip.*|python.*"
    for tool in itertools.chain.from_iterable(
            Path(one).glob("*") for one in os.environ["PATH"].split(":")):
        if not (re.fullmatch(hide, tool.name)
                or (path / tool.name).is_symlink()):
            (path / tool.name).symlink_to(tool)
    clean = {key: value for key, value in os.environ.items() if not re.match(
        "CUDA|NVCC|PIP_FIND|CXX|CC|VIRTUAL|LESSON|CMAKE", key)}
    env = {**clean, **row.env,
           "PATH": f"{row.nvcc}:{path}" if row.nvcc else str(path)}
    start = time.monotonic()
    with open(work / f"{slug}.log", "w+") as log:
        code = subprocess.run(row.run, shell=True, cwd=tree, env=env,
                              stdout=log, stderr=log).returncode
        log.seek(0)
        said = log.read()
    shutil.rmtree(tree)
    if row.wanted != PASSED:
        return f'says "{row.wanted}"', code != 0 and row.wanted in said
    counts = re.findall(r"^Tests: (.*)$", said, re.M) or ["not built"]
    return (f"{counts[-1]}; {time.monotonic() - start:.0f} s",
            code == 0 and PASSED in counts[-1])


def compile_all(nvcc, host, variant):
    """'N of N' lessons without a warning."""
    arch = re.search(r"sm_(\d+)", VARIANTS[variant])
    if arch and f"compute_{arch[1]}\n" not in sh(nvcc, "--list-gpu-arch"):
        return "this nvcc does not know it", True
    flags = f"{VARIANTS[variant]} {FLAGS} -ccbin={host} -DLESSON_NO_CUB"
    if "clang" in host:  # cooperative_groups.h has such functions
        flags += " -Xcompiler=-Wno-unused-function"

    def one(lesson):
        own = [] if arch else [f"-arch=sm_{lesson.arch}"]
        done = subprocess.run(
            [nvcc, *flags.split(), *own, "-c", "-o", "/dev/null", lesson.path],
            text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        print(done.stdout, end="")
        return done.returncode == 0 and not done.stdout
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        ends = list(pool.map(one, evidence.lessons()))
    return f"{sum(ends)} of {len(ends)}", all(ends)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--work", type=Path, default=ROOT / "build/toolkits")
    parser.add_argument("--only", default="", help="rows that match this")
    options = parser.parse_args()
    work = options.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    commit = sh("git", "-C", ROOT, "rev-parse", "--short=12", "HEAD").strip()
    if sh("git", "-C", ROOT, "status", "--porcelain", "--", "day*/*.cu"):
        sys.exit("commit the lessons first")
    toolkits = {"12.4": debian_toolkit(work / "cuda-12.4"), "13.0": None}
    [toolkits["newest"]] = venv(
        work / "newest", "--require-hashes", "-r",
        ROOT / ".github/toolkit/requirements.txt").glob(
            "lib/python3*/site-packages/nvidia/cu13/bin")
    rows = rehearsals(toolkits, venv(work / "cmake", "cmake") / "bin")
    nvccs = {cuda: f"{folder or '/usr/local/cuda/bin'}/nvcc"
             for cuda, folder in toolkits.items()}
    todo = {name: partial(rehearse, work, name, rows[name]) for name in rows}
    for (cuda, nvcc), host, variant in itertools.product(
            nvccs.items(), ("g++", "clang++"), VARIANTS):
        todo[f"CUDA {cuda}, {host}, {variant}"] = partial(
            compile_all, nvcc, host, variant)
    store = work / f"{commit}.json"
    done = json.loads(store.read_text()) if store.exists() else {}
    left = [name for name in todo
            if name not in done and re.search(options.only, name)]
    for k, name in enumerate(left, 1):
        print(f"{k}/{len(left)} {name}", flush=True)
        text, ok = todo[name]()
        print("   ", text, flush=True)
        if ok:
            done[name] = text
            store.write_text(json.dumps(done))
    if wrong := [name for name in left if name not in done]:
        sys.exit(f"not as they must be (logs in {work}): {'; '.join(wrong)}")
    if set(todo) - set(done):
        return
    versions = ", ".join(re.search(r"V[\d.]+", sh(nvcc, "--version"))[0][1:]
                         for nvcc in nvccs.values())
    text = "\n".join([
        f"\nCommit {commit}, nvcc {versions}.", "",
        "| job | how it was rehearsed | result |", "|---|---|---|",
        *(f"| {name} | {rows[name].how} | {done[name]} |" for name in rows),
        "", "| toolkit, host compiler, build | lessons compiled |", "|---|---|",
        *(f"| {name} | {done[name]} |" for name in todo if name not in rows),
        "", ""])
    page = ROOT / "research/BUILD-MATRIX.md"
    page.write_text(re.sub("(?s)(?<=<!-- tables -->).*(?=<!-- end -->)",
                           lambda _: text, page.read_text()))


if __name__ == "__main__":
    main()
