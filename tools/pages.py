"""Weaves regions, recorded output and figures into the pages, and makes the
notebooks from them.

    python tools/pages.py [--check]

Pages are README.md and day*/README.md. What is between one of these marks and
`<!-- end -->` is written by this tool:

    <!-- snippet: NAME -->   a region of the page's lesson, or FOLDER/NAME
    <!-- output: sm_75 -->   what the lesson printed, built for sm_75
    <!-- figure: sm_75 | TABLE | ROW | COLUMN -->   one cell of that output
    <!-- figure: sm_75 | /peak (\\d+) GB/ -->   what is in no table

TABLE is the title of a table or its beginning. After COLUMN may follow
`| / ROW`, which divides by the same column of another row, and a format such
as `| %.0f`; in a Markdown table write :: for |. On README.md the day comes
first: `day24 sm_75`. Where nothing has been recorded a figure is n/a. --check
writes nothing, and fails where a page or a notebook is not what this tool
writes, or a figure is typed by hand; of a draft's it only says so.
"""
import base64
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import evidence
from nbformat import v4, writes

MARK = re.compile(r"<!-- (snippet|output|figure): ([^\n]+?) -->"
                  r"((?:(?!<!--).)*)<!-- end -->", re.S)

# A number in prose is a figure, unless it names or counts one of these, or is
# small or a power of two with no word after it that could be a unit.
NAMED = ("block|capability|CUDA|day|exercise|glibc|line|nvcc|part|returns|step"
         "|table|version|(?:clusters|those) of")
COUNTED = "|".join(r"""additions? arrays? atomics? banks? bits? blocks? bytes?
    cards? clusters? columns? copies elements? exercises? floats? instructions?
    items? KiB MiB lanes? launches lengths? lessons? lines? loads? partials?
    parts? passes registers? rows? slices? SMs? stages? steps? stores? sums?
    tables? terms? threads? values? vectors? versions? warps? words?
    """.split())
NUMBER = r"(?<![\w^])\d+(?:,\d{3})*(?:\.\d+)*(?![\d^])"
NUMBERS, WHOLE = (rf"{one}(?:(?:,| and| or| to| x) {one})*" for one in (
    NUMBER, r"(?<![\w^.,])\d+(?:,\d{3})*"))
GIVEN = re.compile(
    rf"2\^\d+(?: [-+] {NUMBER})?|^\| \d+ \|"
    rf"|{NUMBER}(?:/\d+\b|\sor\s(?:newer|older))|(?i:{NAMED})s? {NUMBERS}"
    rf"|{WHOLE}[ -](?:\w+[ -])?(?:{COUNTED})\b"
    r"|\b(?<![.,])(?:[12]?\d|3[0-2]|64|128|256|512|1024)"
    r"(?= ?(?:[.,;:!?)|]+(?!\d)|$)| (?:and|or|to|for)\b)", re.M)
WORDS = (r"(?:two|three|four|five|six|seven|eight|nine|ten|twelve|twenty|fifty"
         r"|dozens?|hundreds?|thousands?|many)")
FIGURE = re.compile(
    rf"\b{WORDS}(?: of)?[ -]times\b|\b{WORDS}(?:fold| per ?cent)\b"
    rf"|\bfactor of (?:{WORDS}|\d+)|\b(?:twice|half|double|triple|a third"
    r"|a quarter) (?:as (?:fast|slow|long|much time)|(?:of )?the (?:speed|time"
    rf"|rate|bandwidth|throughput|peak))\b|{NUMBER}[^\n]{{0,9}}", re.I)
UNITS = re.compile(r"\d ?(?:[GMK]B/s|[mun\u00b5]?s|%|x)`")
CODE = (r"(?ms)^(```+|~~~+)(\w*)\n.*?^\1", r"`(?:[^`\n]|\n(?!\n))*`",
        r"<[^>]*>", r"\]\([^)]*\)")


def typed(text):
    """(line, figure) of what is typed by hand in a page."""
    def blank(match):
        if UNITS.search(match[0]) or match[0].startswith("```text"):
            return match[0].replace("`", " ").replace("text", "  0 ")
        return re.sub(r"[^\n]", " ", match[0])
    for pattern in (MARK, *CODE):
        text = re.sub(pattern, blank, text)
    text = re.sub(r" *\n(?=[^\n])", "\n", text)
    prose = re.sub(r"(?<=\d)\n(?=\w)|(?<=\w)\n(?=\d)", " ", text)
    return [(text.count("\n", 0, match.start()) + 1, match[0].strip())
            for match in FIGURE.finditer(GIVEN.sub(blank, prose))]


class Weaver:
    """One repository: its regions, its lessons, what is wrong on its pages."""

    def __init__(self, root):
        self.root, self.wrong = root, []
        self.lessons = {f"day{one.day}": one for one in evidence.lessons(root)}
        with tempfile.TemporaryDirectory() as out:
            cmake = os.environ.get("CMAKE", "cmake")
            if subprocess.run([cmake, f"-DOUT={out}", "-P",
                               root / "cmake/snippets.cmake"],
                              stdout=subprocess.DEVNULL).returncode:
                sys.exit(1)  # it has said why
            self.regions = {
                f"{path.parent.name}/{path.stem}": path.read_text("utf-8")
                for path in Path(out).glob("*/*.cu")}

    def woven(self, kind, what, lesson):
        """What belongs into a mark."""
        if kind == "snippet":
            if lesson and "/" not in what:
                what = f"{lesson.folder}/{what}"
            if what not in self.regions:
                raise ValueError(f"no region '{what}'")
            return f"\n```cuda\n{self.regions[what]}```\n"
        build, *cell = re.split(r" +(?:\||::) +", what)
        if not lesson and " " in build:
            day, build = build.split()
            lesson = self.lessons.get(day)
        if not lesson or build not in [f"sm_{arch}" for arch in lesson.builds]:
            raise ValueError(f"no build '{build}' of such a lesson")
        path = lesson.run(build[3:])
        if not path.exists():
            if lesson.draft:
                return "\n```text\nnot recorded yet\n```\n" if (
                    kind == "output") else "n/a"
            raise ValueError(f"no record {path.relative_to(self.root)}")
        run = evidence.Record(path)
        if kind == "figure":
            return figure(run, *cell)
        return f"\n```text\n$ {run.header['run-command']}\n{run.body}```\n"

    def page(self, path):
        """The page as it should be."""
        lesson = self.lessons.get(path.parent.name.partition("-")[0])
        name, text = path.relative_to(self.root).as_posix(), path.read_text(
            encoding="utf-8")

        def block(match):
            kind, what, _ = match.groups()
            try:
                new = self.woven(kind, what, lesson)
            except (ValueError, LookupError, TypeError) as error:
                line = text.count("\n", 0, match.start()) + 1
                self.wrong.append(f"{name}:{line}: {kind}: {what}: {error}")
                return match[0]
            return f"<!-- {kind}: {what} -->{new}<!-- end -->"
        self.wrong += [
            f"{name}: not closed, or not a mark: {stray[0]}" for stray in
            re.finditer(r"<!--\s*(snippet|output|figure|end)\b.*",
                        MARK.sub("", text))]
        self.wrong += [f"{name}:{line}: typed by hand: {what}"
                       for line, what in typed(text)]
        return MARK.sub(block, text)


def figure(run, table, row=None, column=None, *steps):
    """One cell of a run, as printed or as the steps say."""
    if not column:
        found = set(re.findall(table.strip("/"), run.body, re.M))
        if len(found) != 1:
            raise ValueError(f"{len(found)} matches")
        return found.pop()
    tables = [one for one in run.tables if one.title.startswith(table)]
    if len(tables) != 1:
        raise ValueError(f"{len(tables)} tables begin with '{table}'")
    rows = {one[tables[0].columns[0]]: one[column] for one in tables[0].rows}
    cell = rows[row]
    for step in steps:
        value = evidence.number(str(cell))
        if value is None:
            raise ValueError(f"'{cell}' is no number")
        cell = (value / evidence.number(rows[step[2:]])
                if step.startswith("/ ") else step % value)
    return str(cell)


GET = """REPOSITORY = ""  # https://...; left empty, you are asked for {file}
import pathlib
if not pathlib.Path("{file}").exists() and REPOSITORY:
    !git clone --depth 1 {{REPOSITORY}} lessons && cp lessons/{folder}/{file} .
elif not pathlib.Path("{file}").exists():
    print("Choose {file}, from the folder of this notebook.")
    from google.colab import files
    files.upload()"""
CARD = """!nvidia-smi --query-gpu=name,compute_cap,driver_version --format=csv
!nvcc --version | grep release"""
COMPILE = """ARCH = "sm_{arch}"  # 9.0 is sm_90; "native" is the card of \
this machine
!nvcc -std=c++17 -O3 -arch={{ARCH}} -o {name} {file} && ./{name} --list"""
RUN = '!./{name}; echo "exit code $?"'
ROW = """ROW = "copy"  # any row of the list above, or its beginning
!./{name} "{{ROW}}"; echo "exit code $?\""""
SPLICE = """before, _, rest = pathlib.Path("{file}").read_text().partition(
    "// snippet: yours\\n")
after = rest.partition("// end snippet\\n")[2]
pathlib.Path("mine.cu").write_text(
    before + pathlib.Path("yours.cu").read_text() + "\\n" + after)
!nvcc -std=c++17 -O3 -arch={{ARCH}} -DLESSON_YOURS -o mine mine.cu \
&& ./mine copy yours; echo "exit code $?\""""
NO_CARD = """> The cards that Colab offers for free (a T4, compute capability \
7.5) cannot
> run this lesson: it compiles, says why, and ends with exit code 77."""
CARDS = """## The file and the card

In Colab choose a GPU first: *Runtime*, *Change runtime type*."""
YOURS = """## Your turn

The next cell is the region `yours` of the file: change it, then run both
cells. Your row goes through every check before it is timed. For the exercises
after that, open `mine.cu` from the list of files on the left, and put `!` before
a command that you run in a cell."""


def notebook(lesson, page, yours):
    """The page with cells that run, as text; the same input, the same text."""
    def code(text):
        return [text.format(file=lesson.path.name, name=lesson.name,
                            folder=lesson.folder, arch=lesson.arch)]
    text = MARK.sub(r"\3", page).replace("[No GPU?](../README.md#no-gpu)", "")
    text = re.sub(r"\[glossary\]\(\.\./README[^)]+\)",
                  "glossary of the collection's README", text)
    text = re.sub(r"\[([^]]+)\]\(\.\./[^)]+\)", r"\1", text)
    head, *sections = re.split("^(?=## )", text, flags=re.M)
    cells = [head, *[NO_CARD] * (lesson.arch > 80),
             CARDS, code(GET), code(CARD)]
    for section in sections:
        title = section.partition("\n")[0].lower()
        if "exercise" in title and yours:
            cells += [YOURS, ["%%writefile yours.cu\n" + yours.strip()],
                      code(SPLICE)]
        cells.append(section)
        if "run" in title:
            cells += [code(COMPILE), code(RUN), code(ROW)]
    made = v4.new_notebook(metadata={
        "accelerator": "GPU", "language_info": {"name": "python"},
        "kernelspec": {"display_name": "Python 3", "name": "python3",
                       "language": "python"}})
    for k, cell in enumerate(cells):
        if isinstance(cell, list):
            made.cells.append(v4.new_code_cell(*cell, id=f"cell-{k}"))
            continue
        pictures = {}
        for name in re.findall(r"\]\(([\w-]+\.svg)\)", cell):
            if (path := lesson.path.with_name(name)).exists():
                pictures[name] = {"image/svg+xml": base64.b64encode(
                    path.read_bytes()).decode()}
                cell = cell.replace(f"]({name})", f"](attachment:{name})")
        made.cells.append(v4.new_markdown_cell(
            cell.strip(), id=f"cell-{k}",
            **{"attachments": pictures} if pictures else {}))
    return writes(made) + "\n"


def finish(tool, made, wrong, check, root):
    """Writes what differs from `made`, {path: text}, or says so with --check;
    returns whether something is wrong, drafts apart."""
    stale = [path for path, text in made.items() if not path.exists()
             or path.read_text(encoding="utf-8") != text]
    if check:
        wrong += [f"{path.relative_to(root).as_posix()}: not what {tool} makes"
                  for path in stale]
    else:
        for path in stale:
            path.write_text(made[path], encoding="utf-8", newline="\n")
    print("\n".join(wrong) or f"{tool}: {len(stale)} written", file=sys.stderr)
    drafts = tuple(f"{one.folder}/" for one in evidence.lessons(root)
                   if one.draft)
    return any(not one.startswith(drafts) for one in wrong)


def main(check, root=evidence.ROOT):
    weaver = Weaver(root)
    made = {page: weaver.page(page) for page in
            [root / "README.md", *sorted(root.glob("day*/README.md"))]}
    for lesson in weaver.lessons.values():
        page = lesson.path.with_name("README.md")
        if page in made:
            yours = weaver.regions.get(f"{lesson.folder}/yours")
            made[lesson.path.with_suffix(".ipynb")] = notebook(
                lesson, made[page], yours)
    return finish("tools/pages.py", made, weaver.wrong, check, root)


if __name__ == "__main__":
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:] == ["--check"]))
