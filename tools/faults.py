"""Plants one fault at a time in a lesson, and says what catches it.

    python tools/faults.py [day24 ...] [--only NAME] [--run] [--kept DIR]

Without --run, and so without a GPU: every edit must match once, and those that
the compiler or the machine code must show are compiled. With it all are tried.
What is as it should be is kept in DIR, and not tried again; tools/record.py
uses the same. tests/faults/dayNN.txt holds the faults:

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
import ast
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
from programs import line, sh

LEAST, MOST_EXPLAINED = 25, 5  # faults per lesson; per cent of them
FLAGS = "-DLESSON_QUICK -DLESSON_NO_CUB"
TOOLS = {"memcheck": ["--leak-check", "full"], "racecheck": [],
         "synccheck": [], "initcheck": []}
BARRIERS = {"77": ["--num-cuda-barriers", "65536"]}  # of synccheck
NO_GPU = ("compiler", "machine code")
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


def options(tool, lesson):
    """What compute-sanitizer is told."""
    return ["--tool", tool, *TOOLS[tool], *(
        BARRIERS.get(lesson.day, []) if tool == "synccheck" else [])]


def listed(lesson):
    path = lesson.root / f"tests/faults/day{lesson.day}.txt"
    return path.read_text() if path.exists() else ""


def signature(lesson):
    """Says which list was tried."""
    return (f"tests/faults/day{lesson.day}.txt: "
            + evidence.sha256(listed(lesson)))


def read(lesson):
    """(the faults of a lesson, what is wrong with the list)"""
    faults, wrong, text = {}, [], lesson.text
    first, *parts = re.split(r"^=== ", listed(lesson), flags=re.M)
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
        bad = [f"{name}: {why}" for is_so, why in (
            (len(keys) < len(heads) or
             keys.keys() - {"caught", "flags", "args", "arch"},
             "a key twice, or none of caught, flags, args, arch"),
            (not caught, "no `caught: ...` of those in tools/faults.py"),
            (not HEAD.sub("", head).strip(), "no sentence about it"),
            (name in faults, "twice"),
            (find == new, "nothing is changed"),
            (count != 1, f"the text is in the lesson {count} times")) if is_so]
        wrong += bad
        if not bad:
            flags = "-DLESSON_NO_CUB" if caught[1] == "machine code" else FLAGS
            faults[name] = Fault(
                name, caught[1] or caught[3], caught[2] or "",
                tuple(keys.get("flags", flags).split()),
                tuple(shlex.split(keys.get("args", ""))),
                int(keys.get("arch", lesson.arch)), text.replace(find, new))
    explained = sum(fault.how == "explained" for fault in faults.values())
    if len(parts) < LEAST:
        wrong.append(f"{len(parts)} faults; write at least {LEAST}")
    if 100 * explained > MOST_EXPLAINED * len(parts):
        wrong.append(f"{explained} of {len(parts)} faults are explained; at "
                     f"most {MOST_EXPLAINED} per cent may be")
    return list(faults.values()), [f"day{lesson.day}.txt: {one}"
                                   for one in wrong]


class Trial:
    """Tries the faults of one lesson in folder `work`; without `gpus` only
    what needs none. `kept` is told what is settled, and asked first; `where`
    says on what it runs."""
    timeout = 60

    def __init__(self, lesson, work, gpus=None, kept=None, where=""):
        self.lesson, self.work, self.gpus = lesson, Path(work), gpus
        self.kept = kept or programs.Kept(self.work / "kept")
        self.where, self.toolkit = where, programs.toolkit()
        self.compiled = programs.Once(programs.build)
        self.ran = programs.Once(self.run)
        self.tests = lesson.root / "tests" / f"test_day{lesson.day}.py"
        self.tree = ast.parse(self.tests.read_text()  # not in threads: 3.11
                              if self.tests.exists() else "")

    def build(self, fault):
        cubin = ("-cubin",) * (fault.how in NO_GPU)
        return self.compiled(self.work, self.lesson.name, fault.source,
                             fault.arch, *fault.flags, *cubin)

    def run(self, program, args):
        with self.gpus.one() as env:
            return sh([program, *args], self.timeout, env)

    def test(self, fault, program):
        """Whether pytest finds the fault."""
        env = {"LESSON_ARCH": str(fault.arch), "PYTHONDONTWRITEBYTECODE": "1",
               "CUBINS": str(program.parent)}
        if fault.how != "machine code":
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
        status, said = sh([sys.executable, "-m", "pytest", "-q", "-p",
                           "no:cacheprovider", f"{self.tests}::{fault.what}"],
                          env=env, cwd=self.lesson.root)
        why = line(said, "^E  ")[1:].strip()
        if f"{evidence.Unreadable.__name__}: " in why:  # a disturbed run
            return None, why
        if status == 1 and re.search(rf"^FAILED \S*::{fault.what}\b", said,
                                     re.M):
            return True, f"{fault.what}: {why}"
        if status == 0 and not self.gpus and re.search(r"^\d+ skipped", said,
                                                       re.M):
            return True, "not with this toolkit: its test is skipped"
        return (False if status == 0 and " passed" in said else None,
                f"pytest, {fault.what}: " + line(said, "^ERROR|error|passed"))

    def observe(self, fault):
        """(True: it is caught as it says, False: nothing is wrong, None:
        something else is, what was seen)"""
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
            if status == 1 and gate in said:
                return True, line(said, re.escape(gate))
            return (None if status else False,
                    f"status {status}: {line(said, 'FAILED')}")
        with self.gpus.one() as env:
            status, said = sh(
                [programs.SANITIZER, *options(fault.how, self.lesson),
                 "--error-exitcode", "99", "--print-limit", "1", program,
                 *fault.args], 10 * self.timeout, env)
        return status == 99, f"status {status}: " + line(said, "SUMMARY")

    def key(self, fault):
        """All that a verdict depends on, comments of the lesson aside."""
        test, where = "", "" if fault.how in NO_GPU else self.where
        if fault.how in BY_TEST:  # this test, and what is no test
            test = ast.unparse(ast.Module([
                node for node in self.tree.body if re.fullmatch(
                    f"{fault.what}|(?!test_).*", getattr(node, "name", ""))],
                []))
        return (evidence.code(fault.source), fault.how, fault.what,
                fault.flags, fault.args, fault.arch, test, self.toolkit, where)

    def known(self, fault):
        """What was seen of it already, or None."""
        if fault.how == "explained":
            return True, fault.what
        if not self.gpus and fault.how not in NO_GPU:
            return True, "on a GPU only: not run here"
        return self.kept.get(self.key(fault))

    def verdict(self, fault):
        """(whether it is as it should be, a line for the record): a fault is
        caught as it says, of the lesson itself nothing is."""
        lesson, known = fault.source == self.lesson.text, self.known(fault)
        caught, said = known or self.observe(fault)
        fine = caught is (not lesson)
        said = re.sub(rf"{re.escape(str(self.work))}\S*/", "", said)
        if fine and not known:
            self.kept.put(self.key(fault), (caught, said))
        if lesson:
            return fine, f"the lesson itself, {fault.how}: {said}"
        if not fine:
            return False, (f"{fault.name}: NOT CAUGHT by {fault.how} "
                           f"{fault.what}: {said}")
        how = "" if fault.how == "explained" else "caught by "
        return True, f"{fault.name}: {how}{fault.how}: {said}"

    def jobs(self, faults):
        """What is to be tried: first the lesson as it is in each of their
        ways. (The record of the sanitizers shows that of them; without a GPU,
        the tests of the machine code do of theirs.)"""
        ways = ("exit 1", *BY_TEST) * bool(self.gpus)
        return list(dict.fromkeys(
            replace(fault, name="unchanged", source=self.lesson.text,
                    what=fault.what if fault.how in BY_TEST else "any")
            for fault in faults if fault.how in ways)) + faults

    def settled(self, jobs, results):
        """The results; what was not as it should be is tried again, alone on
        a GPU, since other programs may have disturbed it."""
        quiet = Trial(self.lesson, self.work, self.gpus and programs.Gpus(
            self.gpus.ids, 1), self.kept, self.where)
        return [result if result[0] else quiet.verdict(job)
                for job, result in zip(jobs, results)]


def tried(lesson, work, pool, gpus=None, only=".*", kept=None):
    """(a line for each fault, what is wrong)"""
    faults, wrong = read(lesson)
    faults = [one for one in faults if re.fullmatch(only, one.name)]
    trial = Trial(lesson, work, gpus, kept)
    jobs = trial.jobs(faults)
    results = trial.settled(jobs, list(pool.map(trial.verdict, jobs)))
    return ([text for _, text in results[len(jobs) - len(faults):]],
            wrong + [text for fine, text in results if not fine])


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add = parser.add_argument
    add("lessons", nargs="*", help="day24 ...; none: all")
    add("--run", action="store_true", help="on a GPU: all")
    add("--only", default=".*", help="a name, or a regular expression")
    add("--kept", type=Path, help="folder of what is settled already")
    args, wrong = parser.parse_args(), []
    with tempfile.TemporaryDirectory() as work, \
            ThreadPoolExecutor(os.cpu_count()) as pool:
        for lesson in evidence.lessons(days=args.lessons):
            lines, bad = tried(lesson, Path(work) / lesson.folder, pool,
                               programs.Gpus() if args.run else None,
                               args.only, args.kept and programs.Kept(
                                   args.kept))
            print(f"day {lesson.day}", *lines, sep="\n  ")
            wrong += bad
    print(*(wrong or ["all as expected"]), sep="\n")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
