"""What was recorded is there, is of the code as it is, and says what it must;
see evidence/README.md."""
import re
from datetime import datetime, timezone

import pytest

import conftest
import evidence
import faults
import programs
import record as recording
from conftest import judge

NAME = re.compile(r"([a-z]+)-(.+?)(?:-sm_\d+)?\.(?:txt|csv)")  # kind, card


def needed(lesson):
    """The records that a lesson must have."""
    return [f"{kind}-{evidence.CARD}-sm_{arch}" for arch in lesson.builds
            for kind in evidence.PER_BUILD] + [
        f"{kind}-{evidence.CARD}" for kind in (
            "faults", "hostile", "soak", "crowd", *["library"] * lesson.cub)]


def header(record, lesson, named):
    """What is wrong with the header, with the name and with the binding."""
    facts = record.header
    lacks = [key for key in evidence.KEYS if not facts.get(key)]
    if lacks:
        return [f"no {', '.join(lacks)}"]
    card, date = evidence.slug(facts["gpu"]), facts["date-utc"]
    capability, code = evidence.capability(facts), facts["code-sha256"]
    commit, dirty = facts["git-commit"], facts["git-dirty"]
    status, was = programs.sh(["git", "show", f"{commit}:{lesson.source}"],
                              cwd=lesson.root)  # it need not be at hand
    return [why for bad, why in (
        ((facts["schema"], facts["lesson"]) !=
         ("2", f"{lesson.folder}/{lesson.name}"),
         f"schema {facts['schema']} of {facts['lesson']}"),
        (code != lesson.code_sha256,
         f"stale: the code of {lesson.source} has changed; record it"),
        (facts["body-sha256"] != evidence.sha256(record.body),
         "the output is not what was recorded (body-sha256)"),
        (not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", date)
         or date > f"{datetime.now(timezone.utc):%Y-%m-%dT%H:%M:%SZ}",
         f"date-utc {date} is no date, or in the future"),
        (named not in (card, card + "-b"),
         f"recorded on {facts['gpu']}, but not named {card}"),
        (capability < (record.arch or lesson.arch),
         f"compute capability {capability} cannot run it"),
        (not re.fullmatch("[0-9a-f]{40} (yes|no)", f"{commit} {dirty}"),
         f"git-commit {commit}, {dirty}"),
        ((dirty, status) == ("no", 0)
         and code != evidence.sha256(evidence.code(was)),
         "the commit that it names holds other code")) if bad]


def run(record, lesson):
    facts = record.header
    command = evidence.compile_command(lesson, record.arch)
    if facts["compile-command"] != command and "cccl" not in facts:
        yield f"compiled by {facts['compile-command']}, not by {command}"
    toolkit = facts["nvcc-version"].rpartition(".")[0]
    for text in (f"{facts['gpu']}, compute capability "
                 f"{facts['compute-capability']},",
                 f"driver CUDA {facts['cuda-driver-version']}, "
                 f"toolkit CUDA {toolkit},"):
        if f"\n{text}" not in f"\n{record.body}":
            yield f"no line of the output begins with: {text}"
    if record.quick or re.search("^FAILED|^SKIPPED", record.body, re.M) or \
            not record.body.endswith(evidence.DONE):
        yield "a quick or failed run, or not to its last line"


def profile(record, lesson):
    if not evidence.Profile(record.path).launches:
        yield "no launch"


def sanitizer(record, lesson):
    for tool in faults.TOOLS:
        part = re.search(rf"^compute-sanitizer --tool {tool}\b.*\n"
                         r"((?:=.*\n)+)exit status 0\n", record.body, re.M)
        clean = re.fullmatch(
            r"(=+ LEAK SUMMARY: 0 bytes leaked in 0 allocations\n"
            r"|=+ ERROR SUMMARY: 0 errors\n"
            r"|=+ RACECHECK SUMMARY: 0 hazards displayed \(0 errors, 0 "
            r"warnings\)\n)+", part[1] if part else "")
        if not clean or ("LEAK" in part[1]) != (tool == "memcheck"):
            yield f"{tool} did not end clean"


def planted(record, lesson):
    first, *lines, last = record.body.splitlines()
    want, wrong = faults.read(lesson)
    yield from wrong
    if first != faults.signature(lesson):
        yield "stale: the list of faults has changed; record it"
    for fault in want:
        said = f"caught by {fault.how}: ".replace("caught by expl", "expl")
        if f"\n{fault.name}: {said}" not in record.body:
            yield f"{fault.name} is not {said}..."
    if len(lines) != len(want) or last != f"{len(want)} faults":
        yield f"{len(lines)} lines for {len(want)} faults"


def hostile(record, lesson):
    capability = evidence.capability(record.header)
    for what, end, _, command in recording.cases(lesson, capability):
        said = {77: "77: SKIPPED", 1: "1: FAILED", 0: "0: All checks"}[end]
        if f"{what}\n  {command}\n  exit status {said}" not in record.body:
            yield f"{what}: not exit status {said}"


def many(record, lesson):
    least = {"soak": 8, "crowd": 100}[record.path.name.partition("-")[0]]
    found = re.fullmatch(r"(\d+) runs, .* at a time: 0 failures\n",
                         record.body)
    if not found or int(found[1]) < least:
        yield f"not {least} runs without a failure"


KINDS = {"run": run, "library": run, "profile": profile, "timed": profile,
         "sanitizer": sanitizer, "faults": planted, "hostile": hostile,
         "soak": many, "crowd": many}


def shortcomings(lesson):
    paths = {path.stem: path for path in sorted(lesson.evidence.glob("*"))}
    wrong = [f"evidence/{lesson.folder}/{name} is missing: record it with "
             "tools/record.py" for name in needed(lesson) if name not in paths]
    for path in paths.values():
        record, named = evidence.Record(path), NAME.fullmatch(path.name)
        said = ["of no known kind; remove it"]
        if named and named[1] in KINDS:
            said = header(record, lesson, named[2]) or KINDS[named[1]](
                record, lesson)
        wrong += [f"{path.name}: {one}" for one in said]
    if evidence.verified(lesson) not in lesson.text:
        wrong.append("its header must say (tools/record.py --verified):\n"
                     + evidence.verified(lesson))
    return wrong


def test_records(any_lesson):
    judge(any_lesson, shortcomings(any_lesson))


def test_machine_code(any_lesson):
    """The same nvcc makes of the code what it made for the records."""
    other, version = [], programs.toolkit()
    for path in sorted(any_lesson.evidence.glob("run-*.txt")):
        record = evidence.Record(path)
        if record.header.get("nvcc-version") != version:
            pytest.skip(f"not recorded with nvcc {version}")
        cubin = conftest.cubin(any_lesson, record.arch)
        if record.header["cubin-sha256"] != evidence.cubin_sha256(cubin):
            other.append(f"{path.name}: other machine code; record it")
    judge(any_lesson, other)


def test_edits(any_lesson):
    """What tools/record.py changes in a lesson is there, once."""
    for variant in recording.EDITS:
        recording.edited(any_lesson, variant)


def test_nothing_else():
    folders = {lesson.folder for lesson in evidence.lessons()}
    assert {path.name for path in (evidence.ROOT / "evidence").iterdir()} \
        <= folders | {"README.md"}
