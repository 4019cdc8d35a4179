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
BY_TEST = ("machine code", "figures", "profile")
NO_GPU = ("compiler", "machine code")
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
    what needs none. `kept` is told what is settled, and asked first; `where`
    says on what it runs."""
    timeout = 60

    def __init__(self, lesson, work, gpus=None, kept=None, where=""):
        self.lesson, self.work, self.gpus = lesson, Path(work), gpus
        self.kept = kept or programs.Kept(self.work / "kept")
        self.where, self.toolkit = where, programs.toolkit()
        self.compiled = programs.Once(self.compile)
        self.ran = programs.Once(self.run)
        self.tests = lesson.root / "tests" / f"test_day{lesson.day}.py"

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
                             fault.how in NO_GPU)

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
        status, said = sh([sys.executable, "-m", "pytest", "-q", "-p",
                           "no:cacheprovider", f"{self.tests}::{fault.what}"],
                          env=env, cwd=self.lesson.root)
        if status == 1 and re.search(rf"^FAILED \S*::{fault.what}\b", said,
                                     re.M):
            return True, f"{fault.what}: " + line(said, "^E  ")[1:].strip()
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
            caught = status == 1 and gate in said
            text = line(said, re.escape(gate) if caught else "FAILED")
            return caught or (None if status else False), \
                text if caught else f"status {status}: {text}"
        with self.gpus.one() as env:
            status, said = sh(
                [programs.SANITIZER, *options(fault.how, self.lesson),
                 "--error-exitcode", "99", "--print-limit", "1", program,
                 *fault.args], 10 * self.timeout, env)
        return status == 99, f"status {status}: " + line(said, "SUMMARY")

    def key(self, fault):
        """All that a verdict depends on, comments of the lesson aside."""
        test, where = "", "" if fault.how in NO_GPU else self.where
        if fault.how in BY_TEST:
            tree = ast.parse(self.tests.read_text())
            tree.body = [node for node in tree.body if getattr(
                node, "name", fault.what) == fault.what or not
                node.name.startswith("test_")]
            test = ast.unparse(tree)
        return (evidence.code(fault.source), fault.how, fault.what,
                fault.flags, fault.args, fault.arch, test, self.toolkit, where)

    def known(self, fault):
        """What need not be tried: what is seen of it, or None."""
        if fault.how == "explained":
            return True, fault.what
        if not self.gpus and fault.how not in NO_GPU:
            return True, "on a GPU only: not run here"
        return self.kept.get(self.key(fault))

    def verdict(self, fault):
        """(whether it is as it should be, a line for the record): a fault is
        caught as it says, of the lesson itself nothing is."""
        lesson = fault.source == self.lesson.text
        caught, said = self.known(fault) or self.observe(fault)
        said = re.sub(rf"{re.escape(str(self.work))}\S*/", "", said)
        fine = caught is False if lesson else caught is True
        if fine and not self.known(fault):
            self.kept.put(self.key(fault), (caught, said))
        if lesson:
            return fine, f"the lesson itself, {fault.how}: {said}"
        if fine:
            how = "" if fault.how == "explained" else "caught by "
            return True, f"{fault.name}: {how}{fault.how}: {said}"
        return False, (f"{fault.name}: NOT CAUGHT by {fault.how} "
                       f"{fault.what}: {said}")

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
        ids = self.gpus.ids if self.gpus else ()
        quiet = Trial(self.lesson, self.work, self.gpus and programs.Gpus(
            ids, 1), self.kept, self.where)
        with ThreadPoolExecutor(len(ids) or 1) as pool:
            return list(pool.map(lambda job, result: result if result[0]
                                 else quiet.verdict(job), jobs, results))


def tried(lesson, work, pool, gpus=None, only=".*", kept=None):
    """(a line for each fault, what is wrong)"""
    faults, wrong = read(lesson)
    faults = [one for one in faults if re.fullmatch(only, one.name)]
    trial = Trial(lesson, work, gpus, kept)
    jobs = trial.jobs(faults)
    results = trial.settled(jobs, list(pool.map(trial.verdict, jobs)))
    wrong += [text for fine, text in results if not fine]
    return [text for _, text in results[len(jobs) - len(faults):]], wrong


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
        for lesson in evidence.lessons():
            if not args.lessons or f"day{lesson.day}" in args.lessons:
                lines, bad = tried(
                    lesson, Path(work) / lesson.folder, pool,
                    programs.Gpus() if args.run else None, args.only,
                    args.kept and programs.Kept(args.kept))
                print(f"day {lesson.day}", *lines, sep="\n  ")
                wrong += bad
    print(*(wrong or ["all as expected"]), sep="\n")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
