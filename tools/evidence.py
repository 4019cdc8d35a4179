"""Lessons and what was recorded of them; see evidence/README.md."""
import csv
import hashlib
import math
import re
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DONE = "\nAll checks passed.\n"  # the last line of a run
CARD = "h200"  # of the records that lessons and pages speak of
PER_BUILD = ("run", "profile", "timed", "sanitizer")  # others: one per lesson
KEYS = """schema lesson code-sha256 cubin-sha256 compile-command run-command
    nvcc-version host-compiler os driver cuda-driver-version gpu
    compute-capability ecc mig clocks power-limit git-commit git-dirty
    date-utc body-sha256""".split()
VERIFIED = re.compile(r"^// Verified:.*\n(?://   evidence.*\n)*", re.M)

# What must not be taken for a comment comes first, comments last.
TOKEN = re.compile(r"""
    (?P<keep> R"(?P<end>[^\s()\\]*)\(.*?\)(?P=end)"
            | "(?:\\.|[^"\\\n])*" | (?<!\w)'(?:\\.|[^'\\\n])+' )
    | //(?:\\\n|[^\n])* | /\*.*?\*/""", re.S | re.X)


KERNEL = re.compile(r"__global__\s+void\s+(?:__\w+__\([^{;]*?\)\s*)?"
                    r"(\w+)\(")


def code(text):
    """A source without comments, blank lines and blanks at line ends."""
    text = TOKEN.sub(lambda token: token["keep"] or " ", text)
    lines = (line.rstrip() for line in text.splitlines())
    return "".join(line + "\n" for line in lines if line)


def sha256(data):
    data = data.encode() if isinstance(data, str) else data
    return hashlib.sha256(data).hexdigest()


def cubin_sha256(cubin):
    """Of machine code. A header's names of its own begin with digits that
    differ from folder to folder."""
    return sha256(re.sub(rb"_INTERNAL_[0-9a-f]{8}_", b"_INTERNAL_",
                         Path(cubin).read_bytes()))


@dataclass(unsafe_hash=True)
class Lesson:
    root: Path
    source: str  # day24-reduction/reduction_1.cu
    arch: int    # its own, of CMakeLists.txt
    draft: bool = False

    def __post_init__(self):
        self.path = self.root / self.source
        self.folder, self.name = self.path.parent.name, self.path.stem
        self.day = re.match(r"day(\d+)", self.folder)[1]
        self.evidence = self.root / "evidence" / self.folder

    @property
    def text(self):
        return self.path.read_text(encoding="utf-8")

    @property
    def builds(self):
        """The architectures of its `// Build:` lines; the first is its own."""
        found = re.findall(r"^// (?:Build:)? +nvcc .*-arch=sm_(\d+)",
                           self.text, re.M)
        return [int(arch) for arch in dict.fromkeys(found)] or [self.arch]

    def run(self, arch):
        """Where its run for an architecture is recorded."""
        return self.evidence / f"run-{CARD}-sm_{arch}.txt"

    @property
    def code_sha256(self):
        return sha256(code(self.text))

    @property
    def cub(self):
        return "#include <cub/" in self.text


def lessons(root=ROOT, days=()):
    """Those of these days, or all, that CMakeLists.txt lists, in its order."""
    listed = re.findall(r"^lesson\((\S+\.cu) (\d+)( DRAFT)?\)",
                        (root / "CMakeLists.txt").read_text(), re.M)
    return [Lesson(root, source, int(arch), bool(draft))
            for source, arch, draft in listed
            if not days or source[:source.find("-")] in days]


def cells(line):
    return re.split(r" {2,}", line.strip())


@dataclass
class Table:
    title: str
    columns: list
    rows: list = field(default_factory=list)   # {column: cell} of each
    notes: dict = field(default_factory=dict)  # {label: why it has no cells}

    def row(self, label):
        [one] = [row for row in self.rows if row[self.columns[0]] == label]
        return one


class Unreadable(ValueError):
    """A line of a table does not have the cells of its headings."""


def tables(text):
    """A title, headings, a line per row, an empty line. Headings are three or
    more, none a number; two blanks or more separate cells. Of a table whose
    first heading is `row` every line must be one."""
    found = []
    for part in re.split(r"\n\s*\n", text):
        title, table = "", None
        for line in part.splitlines():
            row = cells(line)
            if table and len(row) == len(table.columns):
                table.rows.append(dict(zip(table.columns, row)))
            elif table and len(row) == 2:
                table.notes[row[0]] = row[1]
            elif table and table.columns[0] == "row":
                raise Unreadable(f"{len(row)} cells, not "
                                 f"{len(table.columns)}, in: {line}")
            elif not table and len(row) > 2 and not any(
                    number(cell) is not None for cell in row):
                if len(set(row)) < len(row):
                    raise ValueError(f"a heading twice: {line}")
                table = Table(title, row)
                found.append(table)
            title = line
    return found


def number(cell):
    """'1,234.5', '80.3%', '~1.01': the number; of anything else None."""
    found = re.fullmatch(r"~?(-?[\d,]*\.?\d+(?:e[-+]?\d+)?) ?%?", cell)
    return float(found[1].replace(",", "")) if found else None


def slug(gpu):
    """'NVIDIA H200' is 'h200'."""
    return re.sub("[^a-z0-9]+", "-", gpu.lower().replace("nvidia ", ""))


def capability(facts):
    """'9.0' is 90, as architectures are numbered."""
    return int(facts["compute-capability"].replace(".", ""))


def compile_command(lesson, arch, flags=""):
    return (f"nvcc -std=c++17 -O3{flags} -arch=sm_{arch} -o {lesson.name} "
            f"{lesson.name}.cu")


def write(path, lesson, arch, body, facts):
    """A record, whole or not at all."""
    now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    facts = {"schema": "2", "lesson": f"{lesson.folder}/{lesson.name}",
             "code-sha256": lesson.code_sha256,
             "compile-command": compile_command(lesson, arch),
             "date-utc": now, "body-sha256": sha256(body), **facts}
    keys = KEYS + [key for key in facts if key not in KEYS]
    head = "".join(f"# {key}: {facts[key]}\n" for key in keys)
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(path.name + ".new")
    new.write_bytes(f"{head}\n{body}".encode())
    new.replace(path)


def verified(lesson):
    """The `Verified:` lines of a lesson, as its records have them."""
    runs = [lesson.run(arch) for arch in lesson.builds]
    if not all(run.exists() for run in runs):
        return "// Verified: UNVERIFIED\n"
    facts = [Record(runs[0]).header.get(key, "n/a") for key in
             ("gpu", "compute-capability", "driver", "nvcc-version")]
    facts[-1] = ".".join(facts[-1].split(".")[:2])
    return "\n".join([
        "// Verified: {}, compute capability {}, driver {}, CUDA {},"
        .format(*facts),
        ",\n".join(f"//   {run.relative_to(lesson.root).as_posix()}"
                   for run in runs)]) + "\n"


class Record:
    """A recorded file, or what a program printed (it has no header)."""

    def __init__(self, path):
        self.path = Path(path)
        text = self.path.read_bytes().decode(errors="replace")
        head, _, body = text.partition("\n\n")
        if not text.startswith("# "):
            head, body = "", text
        self.body = body
        self.header = dict(line[2:].partition(": ")[::2]
                           for line in head.splitlines())
        found = re.search(r"sm_(\d+)", self.path.name + str(self.header))
        self.arch = int(found[1]) if found else None
        self.quick = "LESSON_QUICK" in body

    @property
    def tables(self):
        return tables(self.body)


@dataclass
class Launch:
    kernel: str       # its name alone
    arguments: tuple  # the integers among its template arguments
    grid: int         # blocks
    block: int        # threads per block
    cluster: int      # blocks per cluster, 0 where the launch names none
    shared: int       # bytes per block, dynamic and static
    metrics: dict     # {name: number}


class Profile(Record):
    """The table of ncu --csv --page raw."""

    @property
    def launches(self):
        return [launch(row) for row in
                csv.DictReader(self.body[self.body.find('"ID"'):].splitlines())
                if row["ID"]]


def launch(row):
    metrics = {name: value for name, cell in row.items() if "__" in name
               and (value := number(cell)) is not None}
    grid, block, cluster, dynamic, static = (
        int(metrics.get(f"launch__{key}", 0)) for key in (
            "grid_size", "block_size", "cluster_size",
            "shared_mem_per_block_dynamic", "shared_mem_per_block_static"))
    return Launch(*kernel_name(row["Kernel Name"]), grid, block, cluster,
                  dynamic + static, metrics)


def kernel_name(text):
    """'void sum<(int)256>(const float *)' is ('sum', (256,))."""
    text, inner = re.sub(r"\(\w+\)(?=-?\d)", "", text), ""
    while inner != text:  # templates among the arguments go
        inner, text = text, re.sub("(<[^<>]*)<[^<>]*>", r"\1", text)
    found = re.match(r"(?:[^<(]*[ :])?(\w+)(?:<([^<>]*)>)?\(", text)
    return found[1], tuple(int(one) for one in (found[2] or "").split(",")
                           if re.fullmatch(r" *-?\d+", one))


def close(value, other, percent):
    """Whether two numbers differ by at most so many per cent of `other`."""
    return math.isclose(value, other, rel_tol=0,
                        abs_tol=abs(other) * percent / 100)
