"""Plants one fault at a time in a lesson, and says what catches it.

    python tools/faults.py [day24 ...] [--only NAME] [--run] [--jobs N]

Without --run, and so without a GPU: every edit must match once, and those that
the compiler or the machine code must show are compiled. With it all are tried.
tests/faults/dayNN.txt holds the faults:

    === name
    One or two sentences.
    caught: compiler: TEXT | exit 1: GATE | machine code: TEST |
            figures: TEST | profile: TEST | memcheck | racecheck | synccheck |
            initcheck | explained: WHY
    flags: ...     (optional; of the compiler)
    args: ROW ...  (optional; what to run)
    arch: 90       (optional; the lesson's own where there is none)
    --- find
    lines that are in the lesson exactly once
    --- replace
    what replaces them
"""
import argparse
import os
import re
import shlex
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import evidence
import programs
from programs import sh

LEAST, MOST_EXPLAINED = 25, 5  # faults per lesson; per cent of them
FLAGS = "-DLESSON_QUICK -DLESSON_NO_CUB"
TOOLS = {"memcheck": ["--leak-check", "full"], "racecheck": [],
         "synccheck": ["--num-cuda-barriers", "65536"], "initcheck": []}
BY_TEST = ("machine code", "figures", "profile")
CAUGHT = re.compile(r"(compiler|exit 1|machine code|figures|profile|explained)"
                    r": (\S.*)|(" + "|".join(TOOLS) + ")")
FAULT = re.compile(r"([a-z0-9-]+)\n(.*?)^--- find\n(.*?)^--- replace\n(.*)",
                   re.M | re.S)
HEAD = re.compile(r"^(\w+): +(\S.*)$", re.M)


@dataclass(frozen=True)
class Fault:
    name: str
    how: str     # compiler, exit 1, ... as in `caught:`
    what: str    # the text, gate or test behind it
    flags: tuple
    args: tuple
    arch: int
    source: str  # the lesson with the fault in it


def path_of(lesson):
    return lesson.root / "tests" / "faults" / f"day{lesson.day}.txt"


def signature(lesson):
    """Says which list was tried."""
    path = path_of(lesson)
    return (f"{path.relative_to(lesson.root).as_posix()}: "
            + evidence.sha256(path.read_bytes() if path.exists() else b""))


def read(lesson):
    """(the faults of a lesson, what is wrong with the list)"""
    path, faults, wrong, text = path_of(lesson), {}, [], lesson.text
    listed = path.read_text() if path.exists() else ""
    first, *parts = re.split(r"^=== ", listed, flags=re.M)
    for part in ["", *parts] if first.strip() else parts:
        found = FAULT.fullmatch(part)
        if not found:
            wrong.append(f"{part.splitlines()[:1]}: not === and a name of a-z,"
                         " 0-9 and -, a head, --- find and --- replace")
            continue
        name, head, find, new = (one.rstrip("\n") for one in found.groups())
        heads = HEAD.findall(head)
        keys = dict(heads)
        caught = CAUGHT.fullmatch(keys.get("caught", ""))
        count = text.count(find) if find else 0
        for bad, why in (
                (len(keys) < len(heads) or
                 keys.keys() - {"caught", "flags", "args", "arch"},
                 "a key twice, or none of caught, flags, args, arch"),
                (not caught, "no `caught: ...` of those in tools/faults.py"),
                (not HEAD.sub("", head).strip(), "no sentence about it"),
                (name in faults, "twice"),
                (find == new, "nothing is changed"),
                (count != 1, f"the text is in the lesson {count} times")):
            if bad:
                wrong.append(f"{name}: {why}")
                break
        else:
            flags = "-DLESSON_NO_CUB" if caught[1] == "machine code" else FLAGS
            faults[name] = Fault(
                name, caught[1] or caught[3], caught[2] or "",
                tuple(keys.get("flags", flags).split()),
                tuple(shlex.split(keys.get("args", ""))),
                int(keys.get("arch", lesson.arch)), text.replace(find, new))
    explained = sum(fault.how == "explained" for fault in faults.values())
    if not lesson.draft and len(parts) < LEAST:
        wrong.append(f"{len(parts)} faults; write at least {LEAST}")
    if 100 * explained > MOST_EXPLAINED * len(parts):
        wrong.append(f"{explained} of {len(parts)} faults are explained; at "
                     f"most {MOST_EXPLAINED} per cent may be")
    return list(faults.values()), [f"{path.name}: {one}" for one in wrong]


class Trial:
    """Tries the faults of one lesson in folder `work`; without `gpus` only
    those that need none."""
    timeout = 60  # seconds of a run

    def __init__(self, lesson, work, gpus=None):
        self.lesson, self.work, self.gpus = lesson, Path(work), gpus
        self.compiled = programs.Once(self.compile)
        self.ran = programs.Once(self.run)

    def compile(self, source, arch, flags, cubin):
        """(status, messages, program)"""
        key = evidence.sha256(f"{source}{arch}{flags}{cubin}")[:16]
        folder = self.work / key
        folder.mkdir(parents=True, exist_ok=True)
        text = folder / f"{self.lesson.name}.cu"
        text.write_text(source)
        out = text.with_suffix(f".sm_{arch}.cubin" if cubin else "")
        return *programs.nvcc(out, text, arch, *flags), out

    def build(self, fault):
        return self.compiled(fault.source, fault.arch, fault.flags,
                             fault.how in ("compiler", "machine code"))

    def run(self, program, args):
        with self.gpus.one() as env:
            return sh([program, *args], self.timeout, env)

    def test(self, fault, program):
        """Whether pytest finds the fault."""
        env = {"LESSON_ARCH": str(fault.arch), "PYTHONDONTWRITEBYTECODE": "1"}
        if fault.how == "machine code":
            env["CUBINS"] = str(program.parent)
        else:
            status, said = self.ran(program, fault.args)
            if status:
                return None, f"status {status}: " + line(said, "FAILED")
            name = "-".join(re.findall(r"\w+", " ".join(fault.args)))
            run = program.with_name(f"run-{name}-sm_{fault.arch}.txt")
            run.write_text(said)
            env["LESSON_RUN"] = str(run)
        if fault.how == "profile":
            with self.gpus.one() as gpu:
                fine, said = programs.profile(program, gpu,
                                              arguments=fault.args)
            if not fine:
                return None, line(said, "error")
            profile = run.with_name(run.name.replace("run-", "profile-"))
            profile.write_text(said)
            env["LESSON_PROFILE"] = str(profile)
        path = self.lesson.root / "tests" / f"test_day{self.lesson.day}.py"
        status, said = sh([sys.executable, "-m", "pytest", "-q", "-p",
                           "no:cacheprovider", f"{path}::{fault.what}"],
                          env=env, cwd=self.lesson.root)
        if status == 1 and re.search(rf"^FAILED \S*::{fault.what}\b", said,
                                     re.M):
            return True, f"{fault.what}: " + line(said, "^E  ")[1:].strip()
        return (False if status == 0 and " passed" in said else None,
                f"pytest, {fault.what}: " + line(said, "^ERROR|error|passed"))

    def observe(self, fault):
        """(True: it is caught as it says, False: nothing is wrong, None:
        something else is, what was seen)"""
        if fault.how == "explained":
            return True, fault.what
        if not self.gpus and fault.how not in ("compiler", "machine code"):
            return True, "on a GPU only: not run here"
        status, said, program = self.build(fault)
        if fault.how == "compiler":
            caught = fault.what in re.sub(r"\s+", " ", said)
            return (caught or None, line(said, "error")) if status \
                else (False, "it compiles")
        if status:
            return None, "it does not compile: " + line(said, "error")
        if fault.how in BY_TEST:
            return self.test(fault, program)
        if fault.how == "exit 1":
            status, said = self.ran(program, fault.args)
            gate = f"FAILED {fault.what}:"
            caught = status == 1 and gate in said
            text = line(said, re.escape(gate) if caught else "FAILED")
            return caught or (None if status else False), \
                text if caught else f"status {status}: {text}"
        with self.gpus.one() as env:
            status, said = sh(
                [programs.SANITIZER, "--tool", fault.how, *TOOLS[fault.how],
                 "--error-exitcode", "99", "--print-limit", "1", program,
                 *fault.args], 10 * self.timeout, env)
        return status == 99, f"status {status}: " + line(said, "SUMMARY")

    def verdict(self, fault):
        """(whether it is caught as it says, a line for the record)"""
        caught, said = self.observe(fault)
        said = re.sub(rf"{re.escape(str(self.work))}\S*/", "", said)
        if not caught:
            return False, (f"{fault.name}: NOT CAUGHT by {fault.how} "
                           f"{fault.what}: {said}")
        how = "" if fault.how == "explained" else "caught by "
        return True, f"{fault.name}: {how}{fault.how}: {said}"

    def jobs(self, faults):
        """What is to be done, as (function, fault): first the lesson as it is
        in each of their ways, and nothing may catch it. (The record of the
        sanitizers shows that of them; without a GPU, the tests of the machine
        code do of theirs.)"""
        ways = ("exit 1", *BY_TEST) * bool(self.gpus)
        controls = dict.fromkeys(
            replace(fault, name="unchanged", source=self.lesson.text,
                    what=fault.what if fault.how in BY_TEST else "any")
            for fault in faults if fault.how in ways)
        return [(Trial.control, one) for one in controls] + [
            (Trial.verdict, one) for one in faults]

    def settled(self, jobs, results):
        """The results; what was not as it should be is tried again, alone on
        a GPU, since other programs may have disturbed it."""
        quiet = self
        if self.gpus:
            quiet = Trial(self.lesson, self.work,
                          programs.Gpus(self.gpus.ids[:1], 1))
        return [(fine, text) if fine else function(quiet, fault)
                for (function, fault), (fine, text) in zip(jobs, results)]

    def control(self, fault):
        """(whether nothing is wrong, what is)"""
        caught, said = self.observe(fault)
        return caught is False, f"the lesson itself, {fault.how}: {said}"


def line(text, pattern):
    """The first line that matches, or else the last, 200 letters at most."""
    lines = [one for one in text.splitlines() if one.strip()] or [""]
    found = [one for one in lines if re.search(pattern, one)]
    return (found or lines[-1:])[0].strip()[:200]


def tried(lesson, work, pool, gpus=None, only=None):
    """(a line for each fault, what is wrong)"""
    faults, wrong = read(lesson)
    faults = [one for one in faults if re.fullmatch(only or ".*", one.name)]
    trial = Trial(lesson, work, gpus)
    jobs = trial.jobs(faults)
    results = trial.settled(jobs, list(pool.map(
        lambda job: job[0](trial, job[1]), jobs)))
    wrong += [text for fine, text in results if not fine]
    return [text for _, text in results[len(jobs) - len(faults):]], wrong


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("lessons", nargs="*", help="day24 ...; none: all")
    parser.add_argument("--run", action="store_true", help="on a GPU: all")
    parser.add_argument("--only", help="a name, or a regular expression")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    args = parser.parse_args()
    wrong = []
    with tempfile.TemporaryDirectory() as work, \
            ThreadPoolExecutor(args.jobs) as pool:
        for lesson in evidence.lessons():
            if not args.lessons or f"day{lesson.day}" in args.lessons:
                lines, bad = tried(lesson, Path(work) / lesson.folder, pool,
                                   programs.Gpus() if args.run else None,
                                   args.only)
                print(f"day {lesson.day}", *lines, sep="\n  ")
                wrong += bad
    print(*(wrong or ["all as expected"]), sep="\n")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
