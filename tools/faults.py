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
import concurrent.futures
import os
import re
import shlex
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import evidence
import programs

LEAST, MOST_EXPLAINED = 25, 5  # faults per lesson; per cent of them
FLAGS = "-DLESSON_QUICK -DLESSON_NO_CUB"
TOOLS = {"memcheck": ["--leak-check", "full"], "racecheck": [],
         "synccheck": [], "initcheck": []}
CAUGHT = re.compile(r"(compiler|exit 1|machine code|figures|profile|explained)"
                    r": (\S.*)|(" + "|".join(TOOLS) + ")")
FAULT = re.compile(r"(\S+)\n(.*?)^--- find\n(.*?)^--- replace\n(.*)",
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


def read(lesson):
    """(the faults of a lesson, what is wrong with the list)"""
    path, faults, wrong = path_of(lesson), [], []
    text = path.read_text() if path.exists() else ""
    original = lesson.text
    first, *parts = re.split(r"^=== ", text, flags=re.M)
    if first.strip():
        wrong.append("text before the first ===")
    for part in parts:
        name = part.split("\n", 1)[0]
        found = FAULT.fullmatch(part)
        if not found or not re.fullmatch(r"[a-z0-9-]+", name):
            wrong.append(f"{name}: not a name of a-z, 0-9 and -, sentences, "
                         "`caught:`, --- find and --- replace")
            continue
        _, head, find, new = found.groups()
        keys = dict(HEAD.findall(head))
        caught = CAUGHT.fullmatch(keys.pop("caught", ""))
        find, new = find.rstrip("\n"), new.rstrip("\n")
        if len(keys) < len(HEAD.findall(head)) - 1 or \
                keys.keys() - {"flags", "args", "arch"}:
            wrong.append(f"{name}: a key twice, or none of flags, args, arch")
        if not caught:
            wrong.append(f"{name}: no `caught: ...` of those that "
                         "tools/faults.py lists")
        elif not HEAD.sub("", head).strip():
            wrong.append(f"{name}: no sentence says what the fault is")
        elif name in [fault.name for fault in faults]:
            wrong.append(f"{name}: twice")
        elif not find or find == new:
            wrong.append(f"{name}: nothing to find, or nothing changed")
        elif original.count(find) != 1:
            wrong.append(f"{name}: the text to find is in the lesson "
                         f"{original.count(find)} times, not once")
        else:
            how, what = caught[1] or caught[3], caught[2] or ""
            flags = "-DLESSON_NO_CUB" if how == "machine code" else FLAGS
            faults.append(Fault(
                name, how, what, tuple(keys.get("flags", flags).split()),
                tuple(shlex.split(keys.get("args", ""))),
                int(keys.get("arch", lesson.arch)),
                original.replace(find, new)))
    explained = sum(fault.how == "explained" for fault in faults)
    if not lesson.draft and len(parts) < LEAST:
        wrong.append(f"{len(parts)} faults; write at least {LEAST}")
    if 100 * explained > MOST_EXPLAINED * len(parts):
        wrong.append(f"{explained} of {len(parts)} faults are explained; at "
                     f"most {MOST_EXPLAINED} per cent may be")
    return faults, [f"{path.relative_to(lesson.root)}: {one}" for one in wrong]


class Trial:
    """Tries the faults of one lesson in folder `work`."""
    timeout = 60  # seconds of a run

    def __init__(self, lesson, work, gpus=None):
        self.lesson, self.work, self.gpus = lesson, Path(work), gpus
        self.compiled = programs.Once(self.compile)
        self.ran = programs.Once(self.run)
        self.tested = programs.Once(self.test)

    def folder(self, *key):
        folder = self.work / evidence.sha256(repr(key))[:16]
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def compile(self, source, arch, flags, cubin):
        """(status, messages, program)"""
        folder = self.folder(source, arch, flags)
        text = folder / f"{self.lesson.name}.cu"
        text.write_text(source)
        out = folder / (f"{self.lesson.name}.sm_{arch}.cubin" if cubin
                        else self.lesson.name)
        return *programs.nvcc(out, text, arch, *flags), out

    def build(self, fault):
        return self.compiled(
            fault.source, fault.arch, fault.flags,
            fault.how in ("compiler", "machine code"))

    def run(self, program, args):
        with self.gpus.one() as env:
            return programs.sh([program, *args], self.timeout, env)

    def test(self, name, fault):
        """(whether the test fails, what it says)"""
        arch, env = fault.arch, {"LESSON_ARCH": str(fault.arch)}
        status, said, program = self.build(fault)
        if status:
            return None, "it does not compile: " + line(said, "error")
        folder = program.parent
        if fault.how == "machine code":
            env["CUBINS"] = str(folder)
        else:
            status, said = self.ran(program, fault.args)
            if status:
                return None, f"status {status}: " + line(said, "FAILED")
            run = self.folder(program, fault.args) / f"run-sm_{arch}.txt"
            run.write_text(said)
            env["LESSON_RUN"] = str(run)
        if fault.how == "profile":
            with self.gpus.one(counters=True) as gpu:
                fine, said = programs.profile(
                    program, folder, gpu, arguments=fault.args,
                    timeout=10 * self.timeout)
            if not fine:
                return None, line(said, "error")
            (folder / f"profile-sm_{arch}.csv").write_text(said)
            env["LESSON_PROFILE"] = str(folder / f"profile-sm_{arch}.csv")
        test = f"tests/test_day{self.lesson.day}.py::{name}"
        status, said = programs.sh(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
             self.lesson.root / test],
            env={**env, "PYTHONDONTWRITEBYTECODE": "1"}, cwd=self.lesson.root)
        if status == 0 and " passed" in said:
            return False, "passes"
        if status == 1 and re.search(rf"^FAILED \S*::{name}\b", said, re.M):
            return True, f"{name}: " + line(said, r"^E  ")[1:].strip()
        return None, f"pytest {test}: " + line(said, "^ERROR|error")

    def verdict(self, fault):
        """(whether it was caught as it says, how or why not)"""
        if fault.how == "explained":
            return True, fault.what
        if self.gpus is None and fault.how not in ("compiler", "machine code"):
            return True, "on a GPU only: not run here"
        if fault.how in ("machine code", "figures", "profile"):
            failed, said = self.tested(fault.what, fault)
            return failed is True, said
        status, said, program = self.build(fault)
        if fault.how == "compiler":
            plain = re.sub(r"\s+", " ", said)
            return status != 0 and fault.what in plain, \
                line(said, "error") if status else "it compiles"
        if status:
            return False, "it does not compile: " + line(said, "error")
        if fault.how == "exit 1":
            status, said = self.ran(program, fault.args)
            gate = f"FAILED {fault.what}:"
            return status == 1 and gate in said, \
                line(said, re.escape(gate) if gate in said else "FAILED") \
                if status == 1 else f"exit status {status}"
        with self.gpus.one() as env:
            status, said = programs.sh(
                [programs.SANITIZER, "--tool", fault.how, *TOOLS[fault.how],
                 "--error-exitcode", "99", "--print-limit", "1", program,
                 *fault.args], 10 * self.timeout, env)
        return status == 99, f"status {status}: " + line(said, "SUMMARY")

    def controls(self, faults):
        """The lesson as it is, in each of their ways: nothing may catch it."""
        seen = {}
        for fault in faults:
            same = Fault("unchanged", fault.how, "", fault.flags, fault.args,
                         fault.arch, self.lesson.text)
            if fault.how in ("machine code", "figures", "profile"):
                seen[(same, fault.what)] = None
            elif fault.how == "exit 1":
                seen[(same, None)] = None
        return [key for key in seen
                if self.gpus is not None or key[0].how == "machine code"]

    def control(self, key):
        """What is wrong with the unchanged lesson, or nothing."""
        fault, test = key
        if test:
            failed, said = self.tested(test, fault)
            return "" if failed is False else f"{test}: {said}"
        status, said, program = self.build(fault)
        if status == 0:
            status, said = self.ran(program, fault.args)
        return "" if status == 0 else \
            f"status {status}: " + line(said, "FAILED|error")


def line(text, pattern):
    """The first line that matches, or else the last, 200 letters at most."""
    lines = [one for one in text.splitlines() if one.strip()] or [""]
    found = [one for one in lines if re.search(pattern, one)]
    return (found or lines[-1:])[0].strip()[:200]


def said(fault, caught, text, work):
    """The line of a fault, without the folder of this one trial."""
    text = re.sub(rf"{re.escape(str(work))}\S*/", "", text)
    if fault.how == "explained":
        return f"{fault.name}: explained: {text}"
    if caught:
        return f"{fault.name}: caught by {fault.how}: {text}"
    return f"{fault.name}: NOT CAUGHT by {fault.how} {fault.what}: {text}"


def tried(lesson, work, pool, gpus=None, only=None, say=print):
    """(a line for each fault, what is wrong)"""
    faults, wrong = read(lesson)
    if only:
        faults = [fault for fault in faults if re.fullmatch(only, fault.name)]
    trial = Trial(lesson, work, gpus)
    controls = [pool.submit(trial.control, key)
                for key in trial.controls(faults)]
    verdicts = [pool.submit(trial.verdict, fault) for fault in faults]
    lines = []
    for fault, verdict in zip(faults, verdicts):
        caught, text = verdict.result()
        lines.append(said(fault, caught, text, work))
        if not caught:
            wrong.append(lines[-1])
        say(f"day {lesson.day}: {lines[-1]} "
            f"({len(faults) - len(lines)} left)")
    wrong += sorted({f"the lesson itself fails: {control.result()}"
                     for control in controls if control.result()})
    return lines, wrong


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("lessons", nargs="*", help="day24 ...; none: all")
    parser.add_argument("--run", action="store_true", help="on a GPU: all")
    parser.add_argument("--only", help="a name, or a regular expression")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--root", type=Path, default=evidence.ROOT)
    args = parser.parse_args()
    gpus = programs.Gpus() if args.run else None
    wrong = []
    with tempfile.TemporaryDirectory() as work, \
            concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for lesson in evidence.lessons(args.root):
            if not args.lessons or f"day{lesson.day}" in args.lessons:
                wrong += tried(lesson, Path(work) / lesson.folder, pool, gpus,
                               args.only)[1]
    print("\n".join(wrong or ["all as expected"]))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
