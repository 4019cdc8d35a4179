"""Rehearses the jobs of .github/workflows/ci.yml on this machine and compiles
the lessons in other ways; the results become research/BUILD-MATRIX.md.

    python tools/toolkits.py [--work DIR] [--only REGEX]

For a maintainer on Debian with CUDA 13.0 in /usr/local/cuda; Ninja, clang++,
Python 3.10 and 3.12 on PATH; about four minutes per row. CUDA 12.4 is Debian's
(trixie, non-free), the newest that of .github/toolkit; both are unpacked into
DIR. A row that is there for this commit is not made again.
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections import namedtuple
from itertools import product
from pathlib import Path

from ruamel.yaml import YAML

import evidence

ROOT = evidence.ROOT
# CUDA 12.4 from Debian's packages, laid out as NVIDIA lays it out.
DEBIAN = r"""set -eu
mkdir -p etc/apt var/lib/dpkg var/lib/apt var/cache/apt nvvm
touch var/lib/dpkg/status
site=$(apt-get indextargets --format '$(SITE)' 'Origin: Debian' | head -1)
key=/usr/share/keyrings/debian-archive-keyring.gpg
echo "deb [signed-by=$key] $site trixie main non-free" >etc/apt/sources.list
apt-get -qq -oDir="$PWD" update
apt-get -qq -oDir="$PWD" download nvidia-cuda-toolkit nvidia-cuda-dev \
  libcudart12 libcub-dev libcu++-dev libthrust-dev
for package in *.deb; do dpkg -x "$package" .; rm "$package"; done
own=usr/lib/nvidia-cuda-toolkit
mv usr/bin usr/include .
mv usr/lib/x86_64-linux-gnu lib64
mv $own/libdevice nvvm
rm bin/nvcc
mv $own/bin/cicc $own/bin/crt $own/bin/nvcc bin
cat >bin/nvcc.profile <<'END'
TOP = $(_HERE_)/..
NVVMIR_LIBRARY_DIR = $(TOP)/nvvm/libdevice
PATH += $(_HERE_):
INCLUDES += "-I$(TOP)/include" $(_SPACE_)
LIBRARIES =+ $(_SPACE_) "-L$(TOP)/lib64"
END
"""
VARIANTS = {  # flags and the architecture, None: each lesson's own
    "C++20": ("-std=c++20 -O3 -lineinfo", None),
    "C++17, for the debugger": ("-std=c++17 -g -G", None),
    "C++17, sm_100": ("-std=c++17 -O3", 100),
    "C++17, sm_120": ("-std=c++17 -O3", 120)}
HOSTS = {"g++": "", "clang++": ",-Wno-unused-function"}  # as in CMake
NVCC = ("nvcc {} -arch=sm_{} -ccbin={} -DLESSON_NO_CUB -Werror=all-warnings "
        "-Xcompiler=-Wall,-Wextra,-Wshadow{} -c -o /dev/null {}")
README = ("cmake --workflow --preset lessons && "
          "cmake --workflow --preset check")
# Run by a shell in a copy of the commit, with `nvcc` in front of PATH and the
# programs that match `hide` not on it. It must end with 0 and print `wanted`;
# the group is the result.
Row = namedtuple("Row", "how hide run nvcc env python cmake wanted", defaults=(
    "", "", README, None, {}, "3.12", None, "^Tests: (.*, 0 failed, .*)"))


def sh(*command, **options):
    return subprocess.run([str(word) for word in command], check=True,
                          text=True, stdout=subprocess.PIPE, **options).stdout


def installed(folder, *requirements):
    sh(sys.executable, "-m", "venv", folder)
    sh(folder / "bin/pip", "install", "-q", *requirements)
    return folder


def rehearsals(toolkits, cmake):
    """{name: Row} of ci.yml's Linux jobs and of what people have."""
    jobs = YAML(typ="safe").load(ROOT / ".github/workflows/ci.yml")["jobs"]
    if set(jobs) != {"linux", "windows", "workflows"}:
        sys.exit(f"ci.yml has other jobs than this script knows: {set(jobs)}")
    bare = "git|cmake|ctest|ninja"
    how = {"12.4": Row("Python 3.10; no git, no CMake", bare, python="3.10"),
           "13.0": Row("no git, no CMake, nvcc not on PATH", bare),
           "newest": Row("newest CMake", cmake=cmake)}
    matrix = jobs["linux"]["strategy"]["matrix"]
    return {
        **{f"CUDA {cuda}, {cxx}": how[cuda]._replace(
            nvcc=toolkits[cuda] if cuda != "13.0" else None,
            env={"CXX": cxx, "CUDAHOSTCXX": cxx},
            run=jobs["linux"]["steps"][-1]["run"])
            for cuda, cxx in product(matrix["cuda"], matrix["cxx"])},
        "no package index": Row(
            "it says so", run="! bash .ci/run", env={"PIP_NO_INDEX": "1"},
            wanted="(no Python packages for the tests): is there a package"),
        "README, Ninja Multi-Config": Row(
            "newest CMake; Debug too", "git", cmake=cmake,
            env={"CMAKE_GENERATOR": "Ninja Multi-Config"},
            run=README + " && cmake --build build --config Debug && "
            "ctest --test-dir build -C Debug --no-tests=error"),
        "README, Unix Makefiles": Row("CMake of Debian", "git")}


def compilations(toolkits):
    """{name: Row} of each lesson compiled; nothing may be printed."""
    return {
        f"CUDA {cuda}, {host}, {name}": Row(
            nvcc=toolkits[cuda], wanted=r"\A()\Z", run=" && ".join(
                NVCC.format(flags, arch or one.arch, host, more, one.source)
                for one in evidence.lessons()))
        for cuda, (host, more), (name, (flags, arch)) in product(
            toolkits, HOSTS.items(), VARIANTS.items())
        if cuda != "12.4" or not arch}  # 12.4 knows neither


def rehearsed(work, name, row):
    """How it ended, in a few words; None where it is not as it must be."""
    tree, path, empty = work / "tree", work / "path", work / "empty"
    for folder in (tree, path, empty):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    sh("sh", "-c", 'git archive HEAD | tar x -C "$0"', tree, cwd=ROOT)
    (path / "python3").symlink_to(shutil.which(f"python{row.python}"))
    hide = "nvcc|pip.*|python.*|" + row.hide
    for folder in [row.cmake, *os.environ["PATH"].split(":")]:
        for tool in Path(folder).glob("*") if folder else ():
            if not (re.fullmatch(hide, tool.name)
                    or (path / tool.name).is_symlink()):
                (path / tool.name).symlink_to(tool)
    clean = {key: value for key, value in os.environ.items() if not re.match(
        "CUDA|NVCC|PIP_FIND|CXX|CC|VIRTUAL|LESSON|CMAKE", key)}
    env = {**clean, **row.env,
           "PATH": f"{row.nvcc}:{path}" if row.nvcc else str(path)}
    start, log = time.monotonic(), work / (re.sub(r"\W+", "-", name) + ".log")
    with log.open("w") as out:
        # Headers that lie where every compiler looks hide what a row lacks.
        code = subprocess.run(
            ["unshare", "-rm", "sh", "-c", 'mount --bind "$0" '
             f"/usr/local/include && {{ {row.run}\n}}", empty],
            cwd=tree, env=env, stdout=out, stderr=out).returncode
    found = re.findall(row.wanted, log.read_text(), re.M)
    if code == 0 and found:  # of each workflow
        return "; ".join([*found, f"{time.monotonic() - start:.0f} s"])


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--work", type=Path, default=ROOT / "build/toolkits")
    parser.add_argument("--only", default="", help="rows that match this")
    options = parser.parse_args()
    work = options.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    [newest] = installed(
        work / "newest", "--require-hashes", "-r",
        ROOT / ".github/toolkit/requirements.txt").glob(
            "lib/python3*/site-packages/nvidia/cu13/bin")
    oldest = work / "cuda-12.4"
    if not (oldest / "bin/nvcc.profile").exists():
        oldest.mkdir()
        sh("sh", "-c", DEBIAN, cwd=oldest)
    toolkits = {"12.4": oldest / "bin", "13.0": "/usr/local/cuda/bin",
                "newest": newest}
    jobs = rehearsals(toolkits, installed(work / "cmake", "cmake") / "bin")
    others = compilations(toolkits)
    commit = sh("git", "-C", ROOT, "rev-parse", "--short=12", "HEAD").strip()
    store, wrong = work / f"{commit}.json", []
    done = json.loads(store.read_text()) if store.exists() else {}
    for name, row in {**jobs, **others}.items():
        if name not in done and re.search(options.only, name):
            print(name, flush=True)
            if text := rehearsed(work, name, row):
                done[name] = text
                store.write_text(json.dumps(done))
            else:
                wrong.append(name)
            print("   ", text, flush=True)
    if wrong:
        sys.exit(f"not as they must be (logs in {work}): {'; '.join(wrong)}")
    if len(done) < len(jobs) + len(others):
        return
    versions = ", ".join(re.search(r"V([\d.]+)", sh(
        f"{folder}/nvcc", "--version"))[1] for folder in toolkits.values())
    text = "\n".join([
        f"\nCommit {commit}, nvcc {versions}.", "",
        "| job | how it was rehearsed | result |", "|---|---|---|",
        *(f"| {name} | {jobs[name].how} | {done[name]} |" for name in jobs),
        "", "Every lesson compiled, without a warning, with", "",
        *(f"- {name}" for name in others), "", ""])
    page = ROOT / "research/BUILD-MATRIX.md"
    page.write_text(re.sub("(?s)(?<=<!-- tables -->).*(?=<!-- end -->)",
                           lambda _: text, page.read_text()))


if __name__ == "__main__":
    main()
