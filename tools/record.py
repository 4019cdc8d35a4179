"""Records what the lessons do on this machine's GPU; see evidence/README.md.

    python tools/record.py [day24 ...] [--steps run,profile,...] [--out DIR]

Compiles everything, then does what needs a GPU for itself (run, profile,
timed, hostile, library), then the rest many at a time (sanitizer, faults,
soak). A step that fails is not recorded, and fails no other; one whose record
is there for the same code is not done again. Afterwards, without a GPU,
--verified brings the `Verified:` lines of the lessons up to date.
"""
import argparse
import concurrent.futures
import os
import platform
import re
import shutil
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

import evidence
import faults
import programs
from programs import sh

STEPS = ("run", "profile", "timed", "hostile", "library",  # alone on a GPU
         "sanitizer", "faults", "soak")
ALONE = STEPS[:5]
FULL_RUNS = {"25": 35}  # of other days 8
SMI = os.environ.get("NVIDIA_SMI", "nvidia-smi")
SMI_FIELDS = {
    "gpu": "name", "compute-capability": "compute_cap",
    "driver": "driver_version", "ecc": "ecc.mode.current",
    "mig": "mig.mode.current", "sm now": "clocks.current.sm",
    "sm most": "clocks.max.sm", "memory now": "clocks.current.memory",
    "memory most": "clocks.max.memory", "power-limit": "power.limit"}
HOST = """#if defined(__clang__)
host_compiler "clang" __clang_version__
#elif defined(__GNUC__)
host_compiler "gcc" __VERSION__
#endif
"""
# A launch per batch, and few: what the profiler then sees is what is timed.
TIMED = {"kBatches": "12", "kBatchMs": "0.0", "kWarmUpMs": "0.0"}


class Failed(Exception):
    """A step that cannot be recorded, and why."""


def want(found, why):
    if not found:
        raise Failed(why)
    return found


def tree(root, commit):
    """What the repository says of itself, or who called."""
    git = ["git", "-C", root]
    status, head = sh([*git, "rev-parse", "HEAD"])
    if not commit and status == 0:
        changed = sh([*git, "status", "--porcelain", "-uno"])[1]
        return {"git-commit": head.strip(),
                "git-dirty": "yes" if changed.strip() else "no"}
    want(re.fullmatch("[0-9a-f]{40}", commit or ""),
         "no repository here: say --commit with its 40 digits")
    return {"git-commit": commit, "git-dirty": "no"}


def toolkit(work):
    status, said = sh([programs.NVCC, "--version"])
    version = want(re.search(r"V(\d+\.\d+\.\d+)", said), f"no nvcc: {said}")[1]
    (work / "host.cu").write_text(HOST)
    said = sh([programs.NVCC, "-E", work / "host.cu"])[1]
    host = want(re.search(r"^host_compiler (.*)", said, re.M),
                f"nvcc -E does not tell the host compiler: {said}")[1]
    name = platform.system()
    if Path("/etc/os-release").exists():
        text = Path("/etc/os-release").read_text()
        name = re.search(r'^PRETTY_NAME="?([^"\n]*)', text, re.M)[1]
    return {"nvcc-version": version, "host-compiler": host.replace('"', ""),
            "os": name}


def card(gpu):
    """What nvidia-smi says of one GPU."""
    status, said = sh([SMI, "-i", gpu, "--format=csv,noheader",
                       "--query-gpu=" + ",".join(SMI_FIELDS.values())])
    values = [value.strip() for value in said.split(",")]
    want(status == 0 and len(values) == len(SMI_FIELDS),
         f"nvidia-smi does not describe GPU {gpu}: {said}")
    facts = {key: "n/a" if re.search(r"N/A|Not Supported|Unknown", value)
             else value for key, value in zip(SMI_FIELDS, values)}
    clocks = [facts.pop(key) for key in list(facts) if " " in key]
    facts["clocks"] = ("SM {} now, {} at most; memory {} now, {} at most"
                       .format(*clocks))
    cuda = want(re.search(r"CUDA Version *: *([\d.]+)", sh([SMI])[1]),
                "nvidia-smi does not tell its CUDA version")[1]
    return {**facts, "cuda-driver-version": cuda}


@dataclass
class Step:
    kind: str
    lesson: evidence.Lesson
    arch: int
    path: Path
    jobs: list      # what is done, each with the environment of its GPU
    body: object    # makes the record of what the jobs returned
    run: str        # what was run
    facts: dict = field(default_factory=dict)
    gpu: str = ""   # on this one alone
    done: list = field(default_factory=list)

    def __str__(self):
        return f"{self.lesson.folder} {self.path.stem}"


class Recorder:
    def __init__(self, args):
        self.args = args
        self.work = args.work.resolve()
        self.work.mkdir(parents=True, exist_ok=True)
        self.facts = {**toolkit(self.work), **tree(args.root, args.commit)}
        self.ids = args.gpus.split(",")
        self.cards = {gpu: card(gpu) for gpu in self.ids}
        first = self.cards[self.ids[0]]
        self.capability = int(first["compute-capability"].replace(".", ""))
        self.slug = evidence.slug(first["gpu"])
        self.gpus = programs.Gpus(self.ids, args.each)
        self.end = time.monotonic() + 60 * args.minutes
        self.lock, self.left = threading.Lock(), 0
        self.failed, self.skipped = [], 0
        self.compiled = programs.Once(self.compile)

    # ---- programs

    def compile(self, lesson, arch, variant):
        """The program of a lesson in one of several variants."""
        flags, text = [], lesson.text
        if variant == "cubin":
            flags = ["-DLESSON_NO_CUB"]
        elif variant in ("quick", "later"):
            flags = ["-DLESSON_QUICK", "-DLESSON_NO_CUB"]
        elif variant == "lines":
            flags = ["-DLESSON_QUICK", "-lineinfo"]
        elif variant == "library":
            flags = ["-I", self.args.cccl.resolve()]
        if variant == "later":
            text, count = re.subn(r"openDevice\(\d+,", "openDevice(990,", text)
            want(count == 1, "not one openDevice(NUMBER, ...)")
        elif variant == "timed":
            for name, value in TIMED.items():
                text, count = re.subn(rf"\b{name} = [^;,]+",
                                      f"{name} = {value}", text)
                want(count == 1, f"not one `{name} = ...`")
            other = {"Start": "Stop", "Stop": "Start"}  # what is outside
            text = re.sub(r"\bcudaProfiler(Start|Stop)\b",
                          lambda m: "cudaProfiler" + other[m[1]], text)
        key = evidence.sha256(text + f"{flags}{arch}")[:12]
        folder = self.work / f"{lesson.folder}-{variant}-{key}"
        folder.mkdir(exist_ok=True)
        source = folder / f"{lesson.name}.cu"
        source.write_text(text)
        out = folder / (f"{lesson.name}.sm_{arch}.cubin"
                        if variant == "cubin" else lesson.name)
        status, said = programs.nvcc(out, source, arch, *flags)
        want(status == 0, f"{variant} does not compile: {said}")
        return out

    def fill_card(self):
        out = self.work / "fill_card"
        status, said = programs.nvcc(
            out, Path(__file__).with_name("fill_card.cu"), self.capability)
        want(status == 0, f"fill_card does not compile: {said}")
        return out

    # ---- steps

    def step(self, kind, lesson, arch, jobs, body, run, facts=None, gpu="",
             second=""):
        end = f"-sm_{arch}" if kind in evidence.PER_BUILD else ""
        suffix = "csv" if kind in ("profile", "timed") else "txt"
        path = (self.args.out / lesson.folder /
                f"{kind}-{self.slug}{second}{end}.{suffix}")
        return Step(kind, lesson, arch, path, jobs, body, run, facts or {},
                    gpu)

    def passes(self, lesson, arch, variant, env):
        """What a program says that must end as it should."""
        status, said = sh([self.compiled(lesson, arch, variant)], 300, env)
        want(status == 0 and said.endswith(evidence.DONE),
             f"exit status {status}:\n{said}")
        return said

    def run_steps(self, lesson, arch):
        def job(env):
            said = self.passes(lesson, arch, "full", env)
            card = self.cards[env["CUDA_VISIBLE_DEVICES"]]
            want(said.startswith(f"{card['gpu']}, compute capability "
                                 f"{card['compute-capability']},"),
                 f"nvidia-smi describes another GPU, {card['gpu']}: {said}")
            return said
        pinned = self.ids[:2] if self.args.second else [""]
        for gpu, second in zip(pinned, ("", "-b")):
            yield self.step("run", lesson, arch, [job], "".join,
                            f"./{lesson.name}", gpu=gpu, second=second)

    def library_steps(self, lesson, arch):
        if arch != lesson.arch or not lesson.cub or not self.args.cccl:
            return
        arch = lesson.builds[-1]

        def job(env):
            return self.passes(lesson, arch, "library", env)
        text = (self.args.cccl / "cub/version.cuh").read_text()
        number = int(re.search(r"define CUB_VERSION (\d+)", text)[1])
        version = (f"{number // 100000}.{number // 100 % 1000}."
                   f"{number % 100}")
        yield self.step(
            "library", lesson, arch, [job], "".join, f"./{lesson.name}",
            {"compile-command": evidence.compile_command(
                lesson, arch, " -I CCCL"), "cccl": version})

    def profile_steps(self, lesson, arch, kind="profile"):
        def job(env):
            program = self.compiled(
                lesson, arch, "timed" if timed else "full")
            fine, said = programs.profile(
                program, program.parent, env, metrics, options, timeout=400,
                statuses=(0, 1) if timed else (0,))  # the clock's gate
            return want(fine, said) and said
        timed = kind == "timed"
        metrics = programs.LAUNCH if timed else programs.METRICS
        options = ["--cache-control", "none"] if timed else []
        version = re.search(r"Version ([\d.]+)",
                            sh([programs.NCU, "--version"])[1])
        yield self.step(
            kind, lesson, arch, [job], "".join,
            " ".join([f"ncu ({version[1] if version else 'n/a'})",
                      "--clock-control none --profile-from-start off",
                      *options, "--metrics ...", f"./{lesson.name}"]))

    def timed_steps(self, lesson, arch):
        return self.profile_steps(lesson, arch, "timed")

    def sanitizer_steps(self, lesson, arch):
        def job(tool, env):
            words = ["--tool", tool, *faults.TOOLS[tool]]
            status, said = sh(
                [programs.SANITIZER, *words, "--error-exitcode", "1",
                 self.compiled(lesson, arch, "lines")], 500, env)
            want(status == 0, f"{tool}: exit status {status}:\n{said}")
            lines = re.findall(r"^=+.*SUMMARY.*\n", said, re.M)
            return (f"compute-sanitizer {' '.join(words)} ./{lesson.name}\n"
                    f"{''.join(want(lines, f'{tool}: no summary: {said}'))}"
                    f"exit status {status}\n")
        yield self.step(
            "sanitizer", lesson, arch,
            [partial(job, tool) for tool in faults.TOOLS], "\n".join,
            f"compute-sanitizer --tool ... ./{lesson.name}",
            {"compile-command": evidence.compile_command(
                lesson, arch, " -DLESSON_QUICK -lineinfo")})

    def faults_steps(self, lesson, arch):
        if arch != lesson.arch:
            return
        listed, wrong = faults.read(lesson)
        trial = faults.Trial(lesson, self.work / f"{lesson.folder}-faults",
                             self.gpus)
        def control(key):
            want(not (said := trial.control(key)), f"unchanged: {said}")
            return ""
        def verdict(fault):
            caught, said = trial.verdict(fault)
            return caught, faults.said(fault, caught, said, self.work)
        def body(results):
            want(not wrong, "\n".join(wrong))
            lines = [result for result in results if result]
            want(all(caught for caught, _ in lines), "\n".join(
                text for caught, text in lines if not caught))
            path = faults.path_of(lesson)
            return "".join(f"{text}\n" for text in [
                f"{path.relative_to(lesson.root)}: "
                f"{evidence.sha256(path.read_bytes())}",
                *(text for _, text in lines), f"{len(lines)} faults"])
        keys = trial.controls(listed)
        step = self.step(
            "faults", lesson, arch, [partial(control, key) for key in keys] +
            [partial(verdict, fault) for fault in listed], body,
            f"python tools/faults.py --run day{lesson.day}")
        step.builds = [partial(trial.build, fault) for fault in
                       [key[0] for key in keys] + listed
                       if fault.how != "explained"]
        yield step

    def hostile_steps(self, lesson, arch):
        if arch != lesson.arch:
            return
        name = lesson.name
        folder = self.work / f"{lesson.folder}-hostile"
        no_ptx = "CUDA_DISABLE_PTX_JIT=1 CUDA_CACHE_DISABLE=1"
        quick = f"./{name}-quick"
        cases = [
            ("no device visible", 77, "GPU",
             f"CUDA_VISIBLE_DEVICES= ./{name}"),
            ("a device that does not exist", 77, "GPU",
             f"CUDA_VISIBLE_DEVICES=99 ./{name}"),
            (f"built for sm_{arch}, PTX switched off", 77, "-arch=",
             f"{no_ptx} ./{name}") if arch < self.capability else
            (f"built for sm_{arch}, PTX switched off", 0, evidence.DONE,
             f"{no_ptx} {quick}"),
            ("a lesson for compute capability 99.0", 77, "99.0",
             f"./{name}-later"),
            ("a card with 800 MB free", 77, "memory",
             f"./fill_card 800 ./{name}"),
            ("a card with 100 MB free", 77, "SKIPPED",
             f"./fill_card 100 ./{name}"),
            ("a full disk", 1, "FAILED", f"{quick} >/dev/full"),
            ("twice at once", 0, evidence.DONE,
             f"{quick} >1 2>&1 & {quick} >2 2>&1; a=$?; wait $!; b=$?; "
             "cat 1 2; exit $((a + b))")]

        def job(case, env):
            folder.mkdir(exist_ok=True)
            for end, variant in (("", "full"), ("-quick", "quick"),
                                 ("-later", "later")):
                shutil.copy(self.compiled(lesson, arch, variant),
                            folder / (name + end))
            shutil.copy(self.compiled_fill_card(), folder)
            what, wanted, text, command = case
            status, said = sh(["sh", "-c", command], 200, env, folder)
            want(status == wanted and text in said,
                 f"{what}: {command}: exit status {status}, wanted {wanted} "
                 f"and {text!r}:\n{said}")
            return (f"{what}\n  {command}\n  exit status {status}: "
                    f"{faults.line(said, 'SKIPPED|FAILED|All checks')}\n")
        yield self.step("hostile", lesson, arch,
                        [partial(job, case) for case in cases], "".join,
                        "see each run")

    def soak_steps(self, lesson, arch):
        if arch != lesson.arch:
            return
        full = self.args.full_runs
        if full is None:
            full = FULL_RUNS.get(lesson.day, 8)
        plan = [("full", full), ("quick", self.args.quick_runs)]

        def job(variant, env):
            self.passes(lesson, arch, variant, env)
        yield self.step(
            "soak", lesson, arch,
            [partial(job, variant) for variant, count in plan
             for _ in range(count)],
            lambda _: "".join(
                f"{count} runs of the {variant} program, {self.args.each} at "
                "a time: 0 failures\n" for variant, count in plan),
            f"./{lesson.name}")

    # ---- doing them

    def fresh(self, step):
        """Whether there is such a record already."""
        if self.args.again or not step.path.exists():
            return False
        record = evidence.Record(step.path)
        return record.header.get("code-sha256") == step.lesson.code_sha256 \
            and (step.kind != "faults" or evidence.sha256(
                faults.path_of(step.lesson).read_bytes()) in record.body)

    def say(self, text):
        seconds = time.monotonic() - self.begin
        print(f"{seconds:4.0f} s  {text}", flush=True)

    def finish(self, step, error=None):
        """Writes the record of a step, or says why there is none."""
        try:
            if error:
                raise error
            body = step.body(step.done)
            facts = {**self.facts, **self.cards[step.gpu or self.ids[0]],
                     **step.facts}
            evidence.write(step.path, step.lesson, step.arch, body, {
                "run-command": step.run, **facts,
                "cubin-sha256": evidence.cubin_sha256(
                    self.compiled(step.lesson, step.arch, "cubin"))})
        except Exception as problem:
            error = problem
        with self.lock:
            self.left -= 1
            if error:
                what = str(error) if isinstance(error, Failed) else repr(error)
                self.failed.append((step, what))
            self.say(f"{step}: {'FAILED' if error else 'recorded'}, "
                     f"{self.left} left")

    def in_time(self):
        want(time.monotonic() < self.end, "out of time (--minutes)")

    def alone(self, gpu, steps):
        """Does steps one after the other on one GPU."""
        while True:
            with self.lock:
                step = next((one for one in steps if one.gpu in ("", gpu)),
                            None)
                if step is None:
                    return
                steps.remove(step)
            error, step.gpu = None, gpu
            try:
                for job in step.jobs:
                    self.in_time()
                    step.done.append(job(programs.visible(gpu)))
            except Exception as problem:
                error = problem
            self.finish(step, error)

    def shared(self, step, job):
        self.in_time()
        if step.kind == "faults":  # takes a GPU where it needs one
            return job()
        with self.gpus.one() as env:
            return job(env)

    def record(self):
        self.begin = time.monotonic()
        wanted = self.args.steps.split(",")
        want(set(wanted) <= set(STEPS), f"--steps: of {','.join(STEPS)}")
        every = [step for kind in STEPS if kind in wanted
                 for lesson in evidence.lessons(self.args.root)
                 if not self.args.lessons
                 or f"day{lesson.day}" in self.args.lessons
                 for arch in lesson.builds if arch <= self.capability
                 for step in getattr(self, f"{kind}_steps")(lesson, arch)]
        steps = [step for step in every if not self.fresh(step)]
        self.left = len(steps)
        self.say(f"{len(every)} steps, {self.left} to do; compiling")
        cores = concurrent.futures.ThreadPoolExecutor(os.cpu_count())
        self.compiled_fill_card = programs.Once(self.fill_card)
        variants = {"run": ["full", "cubin"], "profile": ["full"],
                    "timed": ["timed"], "hostile": ["full", "quick", "later"],
                    "library": ["library"], "sanitizer": ["lines"],
                    "faults": [], "soak": ["full", "quick"]}
        builds = [cores.submit(self.compiled, step.lesson, step.arch, variant)
                  for step in steps for variant in
                  [*variants[step.kind], "cubin"]]
        builds += [cores.submit(build) for step in steps
                   for build in getattr(step, "builds", [])]
        concurrent.futures.wait(builds)  # who needs one sees how it ended
        self.say("compiled")
        alone = [step for step in steps if step.kind in ALONE]
        with concurrent.futures.ThreadPoolExecutor(len(self.ids)) as pool:
            for gpu in self.ids:
                pool.submit(self.alone, gpu, alone)
        together = [step for step in steps if step.kind not in ALONE]
        with concurrent.futures.ThreadPoolExecutor(
                2 * len(self.ids) * self.args.each) as pool, \
                concurrent.futures.ThreadPoolExecutor(
                    len(together) or 1) as waiters:
            for step in together:
                waiters.submit(self.wait, step, [
                    pool.submit(self.shared, step, job) for job in step.jobs])

    def wait(self, step, futures):
        try:
            step.done = [future.result() for future in futures]
        except Exception as problem:
            for future in futures:
                future.cancel()
            return self.finish(step, problem)
        self.finish(step)

    def summary(self):
        self.say(f"{len(self.failed)} steps failed")
        for step, why in self.failed:
            print(f"\n{step}: {why[-3000:]}")
        return bool(self.failed)


def verified(root):
    """Brings the `Verified:` lines up to date with the records."""
    for lesson in evidence.lessons(root):
        text, count = evidence.VERIFIED.subn(
            lambda _: evidence.verified(lesson), lesson.text, count=1)
        want(count, f"{lesson.source}: no line `// Verified:` in its header")
        if text != lesson.text:
            lesson.path.write_text(text, encoding="utf-8")
            print(f"{lesson.source}: {evidence.verified(lesson)}")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add = parser.add_argument
    add("lessons", nargs="*", help="day24 ...; none: all")
    add("--steps", default=",".join(STEPS), help="of %(default)s")
    add("--out", type=Path, help="folder of the records; evidence/")
    add("--work", type=Path, help="folder of programs, kept for a next call",
        default=Path(tempfile.gettempdir()) / "record")
    add("--gpus", default="0", help="their numbers, such as 0,1")
    add("--each", type=int, default=6, help="programs at a time on a GPU")
    add("--second", action="store_true", help="record runs on both of --gpus")
    add("--quick-runs", type=int, default=100)
    add("--full-runs", type=int, help="8; day 25: 35")
    add("--cccl", type=Path, help="folder with cub/, for the library's record")
    add("--commit", help="40 digits, where there is no repository")
    add("--minutes", type=float, default=60, help="begin nothing afterwards")
    add("--again", action="store_true", help="what is recorded too")
    add("--verified", action="store_true")
    add("--root", type=Path, default=evidence.ROOT)
    args = parser.parse_args()
    args.out = args.out or args.root / "evidence"
    try:
        if args.verified:
            return verified(args.root)
        recorder = Recorder(args)
        recorder.record()
    except Failed as why:
        sys.exit(f"record: {why}")
    sys.exit(recorder.summary())


if __name__ == "__main__":
    main()
