"""Records what the lessons do on this machine's GPU; see evidence/README.md.

    python tools/record.py [day24 ...] [--steps run,profile,...] [--out DIR]

First come the steps that need a GPU for themselves (run, profile, timed,
hostile, library, soak), after all is compiled; then the others, many programs
at a time, the long ones first (sanitizer, faults, crowd). A step that fails is
not recorded, and fails no other. What is recorded of the same code is not done
again; nor is what --kept holds: the verdict on each fault, and what each tool
of the sanitizer said. Afterwards, without a GPU, --verified brings the
lessons' `Verified:` lines up to date.
"""
import argparse
import os
import platform
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import evidence
import faults
import programs
from programs import line, sh

ALONE = ("run", "profile", "timed", "hostile", "library", "soak")
STEPS = (*ALONE, "sanitizer", "faults", "crowd")
SLOW = "racecheck initcheck memcheck synccheck profile".split()  # first
FULL_RUNS = {"25": 35}  # of other days 8
QUICK = faults.FLAGS.split()
FLAGS = {"quick": QUICK, "later": QUICK,
         "cubin": ["-DLESSON_NO_CUB", "-cubin"],
         "lines": ["-DLESSON_QUICK", "-lineinfo"],
         # Of the barriers of 16 blocks synccheck reports what is not there.
         "lines8": ["-DLESSON_QUICK", "-lineinfo", "-DLESSON_MAX_CLUSTER=8"]}
EDITS = {
    "later": {r"openDevice\(\d+,": "openDevice(990,"},  # there is no such card
    # A launch per batch, and few: the profiler is to see what is timed.
    "timed": {r"\bkBatches = [^;,]+": "kBatches = 8",
              r"warm < \w+ \|\| took < \w+": "warm < 0"},
    # A sanitizer slows the host down more than the GPU.
    "lines": {r'gate\("clock",': 'gate("clock", true ||'}}
EDITS["lines8"] = EDITS["lines"]
SMI = os.environ.get("NVIDIA_SMI", "nvidia-smi")
SMI_FIELDS = ("name compute_cap driver_version ecc.mode.current "
              "mig.mode.current power.limit clocks.current.sm clocks.max.sm "
              "clocks.current.memory clocks.max.memory").split()


class Failed(Exception):
    """Why something cannot be recorded."""


def want(found, why):
    if not found:
        raise Failed(why)
    return found


def edited(lesson, variant):
    """The source of what is to be tried of a lesson."""
    text = lesson.text
    if variant == "timed":  # what is outside
        other = {"Start": "Stop", "Stop": "Start"}
        text = re.sub(r"\bcudaProfiler(Start|Stop)\b",
                      lambda m: "cudaProfiler" + other[m[1]], text)
    for old, new in EDITS.get(variant, {}).items():
        text, count = re.subn(old, new, text)
        want(count == 1, f"{count} times {old} in {lesson.source}")
    return text


def command(lesson, arch, variant):
    """How it is compiled, for the record."""
    return evidence.compile_command(lesson, arch, "".join(
        f" {flag}" for flag in FLAGS[variant]))


def surroundings(args):
    """What the toolkit, the system and the repository say of themselves."""
    want(programs.toolkit(), "no nvcc")
    (args.work / "host.cu").write_text("__VERSION__\n")
    host = sh([programs.NVCC, "-E", args.work / "host.cu"])[1].split('"')[-2:]
    git = ["git", "-C", evidence.ROOT]
    status, head = sh([*git, "rev-parse", "HEAD"])
    commit = args.commit or (status == 0) * head.strip()
    want(re.fullmatch("[0-9a-f]{40}", commit),
         "no repository here: say --commit with its 40 digits")
    dirty = not args.commit and sh([*git, "status", "--porcelain", "-uno"])[1]
    return {"nvcc-version": programs.toolkit(), "git-commit": commit,
            "git-dirty": "yes" if dirty else "no",
            "os": platform.freedesktop_os_release()["PRETTY_NAME"],
            "host-compiler": re.sub(r"^(?=\d)", "gcc ", host[0])}


def card(gpu):
    """What nvidia-smi says of one GPU."""
    status, said = sh([SMI, "-i", gpu, "--format=csv,noheader",
                       "--query-gpu=" + ",".join(SMI_FIELDS)])
    cells = [re.sub(".*(N/A|Not Supported|Unknown).*", "n/a", cell.strip())
             for cell in said.split(",")]
    want(status == 0 and len(cells) == len(SMI_FIELDS),
         f"nvidia-smi does not describe GPU {gpu}: {said}")
    cuda = want(re.search(r"CUDA Version *: *([\d.]+)", sh([SMI])[1]),
                "nvidia-smi does not tell its CUDA version")[1]
    keys = "gpu compute-capability driver ecc mig power-limit".split()
    return {**dict(zip(keys, cells)), "cuda-driver-version": cuda,
            "clocks": "SM {} now, {} at most; memory {} now, {} at most"
            .format(*cells[6:])}


def cases(lesson, capability):
    """What, how it must end, a word of what it must say, the command."""
    run, done = f"./{lesson.name}", evidence.DONE
    ptx = (77, "-arch=") if lesson.arch < capability else (0, done)
    return [
        ("no device visible", 77, "GPU", f"CUDA_VISIBLE_DEVICES= {run}"),
        ("a device that does not exist", 77, "GPU",
         f"CUDA_VISIBLE_DEVICES=99 {run}"),
        (f"built for sm_{lesson.arch}, PTX switched off", *ptx,
         f"CUDA_DISABLE_PTX_JIT=1 CUDA_CACHE_DISABLE=1 {run}-quick"),
        ("a lesson for compute capability 99.0", 77, "or newer",
         f"{run}-later"),
        *((f"a card with {size} MB free", 77, said,
           f"./fill_card {size} {run}")
          for size, said in ((800, "memory"), (100, "SKIPPED"))),
        ("a full disk", 1, "FAILED", f"{run}-quick >/dev/full"),
        ("twice at once", 0, done,
         f"{run}-quick >1 2>&1 & {run}-quick >2 2>&1; a=$?; wait $!; "
         "b=$?; cat 1 2; exit $((a + b))")]


@dataclass(eq=False)
class Step:
    lesson: evidence.Lesson
    arch: int
    kind: str
    jobs: list              # alone on a GPU, each gets its environment
    facts: dict = field(default_factory=dict)
    programs: tuple = ("full",)
    body: object = "".join  # of what the jobs return
    builds: tuple = ()      # what else is to be compiled
    hows: tuple = ()        # of each job, where it is not the kind
    gpu: str = ""           # on this one
    second: str = ""
    times: list = field(default_factory=list)  # (begin, end) of each job


class Recorder:
    def __init__(self, args):
        self.args, self.ids = args, args.gpus.split(",")
        args.work.mkdir(parents=True, exist_ok=True)
        self.facts = surroundings(args)
        self.cards = {gpu: card(gpu) for gpu in self.ids}
        first = self.cards[self.ids[0]]
        self.slug = evidence.slug(first["gpu"])
        self.capability = evidence.capability(first)
        self.where = f"{first['gpu']}, driver {first['driver']}"
        self.gpus = programs.Gpus(self.ids, args.each)
        self.kept = programs.Kept(args.kept or args.work / "kept")
        self.compiled = programs.Once(self.compile)
        self.lock, self.failed = threading.Lock(), []
        self.begin = time.monotonic()

    def compile(self, lesson, arch, variant):
        flags = FLAGS.get(variant, [])
        if variant == "library":
            flags = ["-I", self.args.cccl.resolve()]
        status, said, program = programs.build(
            self.args.work / f"{lesson.folder}-{variant}", lesson.name,
            edited(lesson, variant), arch, *flags)
        return want(status == 0, f"{variant} does not compile: {said}") \
            and program

    # ---- what the steps do

    def passes(self, lesson, arch, variant, env):
        """The output of a program that must end as it should."""
        status, said = sh([self.compiled(lesson, arch, variant)], 300, env)
        want(status == 0 and said.endswith(evidence.DONE),
             f"{variant}: exit status {status}:\n{said}")
        gpu = self.cards[env["CUDA_VISIBLE_DEVICES"]]["gpu"]
        want(f"\n{gpu}, " in f"\n{said}",  # some print what needs none first
             f"nvidia-smi describes another GPU, {gpu}:\n{said}")
        return said

    def crowd(self, lesson):
        with self.gpus.one() as env:
            self.passes(lesson, lesson.arch, "quick", env)

    def profile(self, lesson, arch, variant, metrics, options, env):
        """A profiler disturbs the clock: checks of times may fail in it."""
        fine, said = programs.profile(self.compiled(lesson, arch, variant),
                                      env, metrics, options)
        return want(fine, said) and said

    def sanitizer(self, lesson, arch, tool):
        """(what compiles, the key of what the tool says)"""
        variant = "lines8" if tool in ("racecheck", "synccheck") else "lines"
        return variant, (
            evidence.code(edited(lesson, variant)), FLAGS[variant], arch,
            faults.options(tool, lesson), self.where,
            self.facts["nvcc-version"])

    def sanitize(self, lesson, arch, tool):
        variant, key = self.sanitizer(lesson, arch, tool)
        if said := self.kept.get(key):
            return said
        words = faults.options(tool, lesson)
        program = self.compiled(lesson, arch, variant)
        with self.gpus.one() as env:
            begin = time.monotonic()
            status, said = sh([programs.SANITIZER, *words, "--error-exitcode",
                               "1", program], 500, env)
        self.say(f"{lesson.folder} sm_{arch} {tool}: exit status {status}, "
                 f"{time.monotonic() - begin:.0f} s")
        lines = "".join(re.findall(r"^=+.*SUMMARY.*\n", said, re.M))
        own = "".join(re.findall(r"^==(?!=* COMPUTE).*\w.*\n", said, re.M))
        want(status == 0 and lines, f"{tool}: exit status {status}: "
             f"{own[:1500]}\n{said[-1000:]}")
        return self.kept.put(key, f"compute-sanitizer {' '.join(words)} "
                             f"./{lesson.name}\n{lines}exit status 0\n")

    def hostile(self, lesson, case, env):
        folder = self.args.work / f"{lesson.folder}-hostile"
        folder.mkdir(exist_ok=True)
        for end, variant in (("", "full"), ("-quick", "quick"),
                             ("-later", "later")):
            shutil.copy(self.compiled(lesson, lesson.arch, variant),
                        folder / f"{lesson.name}{end}")
        filler = Path(__file__).with_name("fill_card.cu").read_text()
        status, said, program = programs.build(
            self.args.work / "fill", "fill_card", filler, self.capability)
        want(status == 0, f"fill_card does not compile: {said}")
        shutil.copy(program, folder)
        what, wanted, text, command = case
        status, said = sh(["sh", "-c", command], 200, env, folder)
        want(status == wanted and text in said,
             f"{what}: {command}: exit status {status}, wanted {wanted} and "
             f"{text!r}:\n{said}")
        return (f"{what}\n  {command}\n  exit status {status}: "
                f"{line(said, 'SKIPPED|FAILED|All checks')}\n")

    def steps(self, lesson):
        own, args = lesson.arch, self.args
        ncu = re.search(r"Version ([\d.]+)|$", sh([programs.NCU,
                                                  "--version"])[1])[1]

        def passing(kind, arch, variant="full", flags="", times=1, **more):
            return Step(lesson, arch, kind, times * [
                partial(self.passes, lesson, arch, variant)],
                {"compile-command": evidence.compile_command(
                    lesson, arch, flags), **more.pop("facts", {})},
                (variant,), **more)
        for arch in lesson.builds:
            yield passing("run", arch, gpu=self.ids[0] * args.second)
            if args.second:
                yield passing("run", arch, gpu=self.ids[1], second="-b")
            for kind, variant, metrics, options in (
                    ("profile", "full", programs.METRICS, []),
                    ("timed", "timed", programs.LAUNCH,
                     ["--cache-control", "none", "--launch-count", "800"])):
                yield Step(lesson, arch, kind, [
                    partial(self.profile, lesson, arch, variant, metrics,
                            options)], {"run-command": " ".join([
                                f"ncu ({ncu})", *programs.NCU_OPTIONS,
                                *options, f"--metrics ... ./{lesson.name}"])},
                    (variant,))
            new = [self.sanitizer(lesson, arch, tool) for tool in faults.TOOLS]
            yield Step(lesson, arch, "sanitizer", [
                partial(self.sanitize, lesson, arch, tool)
                for tool in faults.TOOLS], {
                "run-command": f"compute-sanitizer ... ./{lesson.name}",
                "compile-command": command(lesson, arch, "lines") +
                "; with -DLESSON_MAX_CLUSTER=8 for racecheck and synccheck"},
                {variant for variant, key in new if not self.kept.get(key)},
                "\n".join, hows=list(faults.TOOLS))
        if args.cccl and lesson.cub:
            text = (args.cccl / "cub/version.cuh").read_text()
            version = int(re.search(r"define CUB_VERSION (\d+)", text)[1])
            yield passing(
                "library", lesson.builds[-1], "library", " -I CCCL", facts={
                    "cccl": f"{version // 100000}.{version // 100 % 1000}"})
        yield Step(lesson, own, "hostile", [
            partial(self.hostile, lesson, case)
            for case in cases(lesson, self.capability)],
            {"run-command": "see each run"}, ("full", "quick", "later"))
        listed, wrong = faults.read(lesson)
        trial = faults.Trial(lesson, args.work / f"{lesson.folder}-faults",
                             self.gpus, self.kept, self.where)
        jobs = trial.jobs(listed)

        def body(done):
            done = trial.settled(jobs, done)
            bad = wrong + [text for fine, text in done if not fine]
            want(not bad, "\n".join(bad))
            return "\n".join([
                faults.signature(lesson),
                *(text for _, text in done[len(jobs) - len(listed):]),
                f"{len(listed)} faults", ""])
        yield Step(lesson, own, "faults", [
            partial(trial.verdict, one) for one in jobs],
            {"run-command": f"python tools/faults.py --run day{lesson.day}"},
            (), body, [partial(trial.build, one) for one in jobs
                       if not trial.known(one)], [one.how for one in jobs])
        yield passing(
            "soak", own, times=args.full_runs or FULL_RUNS.get(lesson.day, 8),
            body=lambda done: f"{len(done)} runs, one at a time: 0 failures\n")
        yield Step(lesson, own, "crowd", args.quick_runs * [
            partial(self.crowd, lesson)],
            {"compile-command": command(lesson, own, "quick")},
            ("quick",), lambda done: f"{len(done)} runs, {args.each} at a "
            "time: 0 failures\n")

    # ---- doing them

    def path(self, step):
        arch = f"-sm_{step.arch}" * (step.kind in evidence.PER_BUILD)
        end = "csv" if step.kind in ("profile", "timed") else "txt"
        return (self.args.out / step.lesson.folder /
                f"{step.kind}-{self.slug}{step.second}{arch}.{end}")

    def done(self, step):
        """Whether there is such a record of this code already."""
        record = self.path(step).exists() and evidence.Record(self.path(step))
        return record and step.lesson.code_sha256 == record.header.get(
            "code-sha256") and (step.kind != "faults" or faults.signature(
                step.lesson) in record.body)

    def say(self, text):
        print(f"{time.monotonic() - self.begin:4.0f} s  {text}", flush=True)

    def job(self, step, job, *env):
        begin = time.monotonic()
        want(begin < self.begin + 60 * self.args.minutes,
             "out of time (--minutes)")
        try:
            return job(*env)
        finally:
            step.times.append((begin, time.monotonic()))

    def finish(self, step, results):
        """Writes the record of what `results()` returns, or says why not."""
        why = ""
        try:
            evidence.write(
                self.path(step), step.lesson, step.arch,
                step.body(results()),
                {"run-command": f"./{step.lesson.name}", **self.facts,
                 **self.cards[step.gpu or self.ids[0]], **step.facts,
                 "cubin-sha256": evidence.cubin_sha256(self.compiled(
                     step.lesson, step.arch, "cubin"))})
        except Exception as error:
            why = str(error) if isinstance(error, Failed) else repr(error)
        begins, ends = zip(*step.times or [(0, 0)])
        with self.lock:
            self.left -= 1
            name = f"{step.lesson.folder}/{self.path(step).name}"
            self.failed += [f"{name}: {why[-3000:]}"] * bool(why)
            self.say(f"{name}: {'FAILED' if why else 'recorded'} in "
                     f"{max(ends) - min(begins):.0f} s, "
                     f"{sum(ends) - sum(begins):.0f} s of work; {self.left} "
                     "left " + line(why, "^FAILED|^==ERR|error:|exit status"))

    def alone(self, gpu, steps):
        """Does steps one after the other on one GPU: runs first, then what is
        long. The profiler serves one program at a time: the first GPU's."""
        def rank(step):
            profiles = step.kind in ("profile", "timed")
            return (step.kind != "run", profiles == (gpu != self.ids[0]),
                    -len(step.jobs))
        while True:
            with self.lock:
                mine = [step for step in steps if step.gpu in ("", gpu)]
                if not mine:
                    return
                step = min(mine, key=rank)
                steps.remove(step)
                step.gpu = gpu
            self.finish(step, lambda: [
                self.job(step, job, programs.on_gpu(gpu))
                for job in step.jobs])

    def together(self, steps):
        """Does steps at the same time: first what needs no GPU, and what is
        slow."""
        def rank(one):
            how = one[0].hows[one[1]] if one[0].hows else one[0].kind
            return (how not in faults.NO_GPU,
                    SLOW.index(how) if how in SLOW else len(SLOW),
                    how == "crowd", -int(one[0].lesson.day))

        def results(step):
            mine = [futures[step, k] for k in range(len(step.jobs))]
            bad = [str(one.exception()) for one in mine if one.exception()]
            want(not bad, "\n".join(dict.fromkeys(bad)))
            return [one.result() for one in mine]
        with ThreadPoolExecutor(2 * self.gpus.qsize()) as pool, \
                ThreadPoolExecutor(len(steps) or 1) as waiting:
            futures = {(step, k): pool.submit(self.job, step, step.jobs[k])
                       for step, k in sorted(
                           ((step, k) for step in steps
                            for k in range(len(step.jobs))), key=rank)}
            for step in steps:
                if step.kind != "faults":
                    waiting.submit(self.finish, step, partial(results, step))
        for step in steps:
            if step.kind == "faults":  # tries some again, undisturbed
                self.finish(step, partial(results, step))

    def record(self):
        args, wanted = self.args, self.args.steps.split(",")
        want(set(wanted) <= set(STEPS), f"--steps: of {','.join(STEPS)}")
        every = sorted(
            (step for lesson in evidence.lessons(days=args.lessons)
             for step in self.steps(lesson)
             if step.kind in wanted and step.arch <= self.capability),
            key=lambda step: STEPS.index(step.kind))
        steps = [step for step in every if not self.done(step)]
        alone = [step for step in steps if step.kind in ALONE]
        self.left = len(steps)
        self.say(f"{len(every)} steps, {self.left} to do; compiling")
        pool = ThreadPoolExecutor(os.cpu_count())  # errors come later
        for step in steps:
            for variant in (*step.programs, "cubin"):
                pool.submit(self.compiled, step.lesson, step.arch, variant)
            for build in step.builds:
                pool.submit(build)
        if alone:  # then nothing else goes on
            pool.shutdown()
            self.say("compiled")
            with ThreadPoolExecutor(len(self.ids)) as cards:
                for gpu in self.ids:
                    cards.submit(self.alone, gpu, alone)
        self.together([step for step in steps if step.kind not in ALONE])
        pool.shutdown(cancel_futures=True)
        self.say(f"{len(self.failed)} steps failed")
        print(*self.failed, sep="\n\n")
        return bool(self.failed)


def verified():
    """Brings the `Verified:` lines up to date with the records."""
    for lesson in evidence.lessons():
        new = evidence.verified(lesson)
        text, count = evidence.VERIFIED.subn(lambda _: new, lesson.text, 1)
        want(count, f"{lesson.source}: no line `// Verified:` in its header")
        lesson.path.write_text(text, encoding="utf-8")
        print(f"{lesson.source}:\n{new}", end="")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add = parser.add_argument
    add("lessons", nargs="*", help="day24 ...; none: all")
    add("--steps", default=",".join(STEPS), help="of %(default)s")
    add("--out", type=Path, help="folder of the records; %(default)s",
        default=evidence.ROOT / "evidence")
    add("--work", type=Path, help="folder of programs, kept for a next call",
        default=Path(tempfile.gettempdir()) / "record")
    add("--kept", type=Path, help="folder of what is settled; in --work")
    add("--gpus", default="0", help="their numbers, such as 0,1")
    add("--each", type=int, default=6, help="programs at a time on a GPU")
    add("--second", action="store_true", help="record runs on two of --gpus")
    add("--quick-runs", type=int, default=100)
    add("--full-runs", type=int, help="8; day 25: 35")
    add("--cccl", type=Path, help="folder with cub/, for the library's record")
    add("--commit", help="40 digits, where there is no repository")
    add("--minutes", type=float, default=60, help="begin nothing afterwards")
    add("--verified", action="store_true")
    args = parser.parse_args()
    args.work = args.work.resolve()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, programs.stop)
    try:
        sys.exit(verified() if args.verified else Recorder(args).record())
    except Failed as why:
        sys.exit(f"record: {why}")


if __name__ == "__main__":
    main()
