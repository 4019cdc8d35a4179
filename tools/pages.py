"""Weaves regions, recorded output and figures into the pages, and makes the
notebooks from them.

    python tools/pages.py [--check]

Pages are README.md and day*/README.md. What is between one of these marks and
`<!-- end -->` is written by this tool:

    <!-- snippet: NAME -->   a region of the page's lesson, or FOLDER/NAME
    <!-- output: sm_75 -->   what the lesson printed, built for sm_75
    <!-- figure: sm_75 | TABLE | ROW | COLUMN -->   one cell of that output

TABLE is the title of a table or its beginning. After COLUMN may follow
`| / ROW`, which divides by the same column of another row, and `| FORMAT`,
such as %.0f; in a Markdown table write :: for |. What is in no table is found
by `<!-- figure: sm_75 | /peak (\\d+) GB/ -->`. On README.md the day comes first:
`day24 sm_75`. Where nothing has been recorded a figure is n/a. --check writes
nothing, and fails where a page or a notebook is not what this tool writes, or a
figure is typed by hand; of a draft's it only says so.
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

MARK = re.compile(r"<!-- (snippet|output|figure): ([^\n]+?) -->((?:(?!<!--).)*)"
                  r"<!-- end -->", re.S)
MISSING = "n/a"

# A number in prose is a figure, unless it counts one of these, or is a power,
# a name or a version.
COUNTED = "|".join("""additions? arrays? atomics? banks? bits? blocks? bytes?
    cards? clusters? columns? copies elements? exercises? floats? instructions?
    items? jobs? KiB MiB lanes? launches lengths? lessons? lines? loads?
    neighbours? ones partials? parts? partners? passes places? registers? rounds?
    rows? sectors? shuffles? slices? SMs? stages? steps? stores? sums? tables?
    terms? threads? values? vectors? versions? warps? words?""".split())
WHOLE = r"\d+(?:,\d{3})*"
NUMBER = r"\d+(?:,\d{3})*(?:\.\d+)*(?![\d^])"
GIVEN = re.compile(
    rf"2\^\d+(?: ?[-+] ?{NUMBER})?|\d+-bit|^ *\d+\. |^#.*|\bC\+\+\d+|^\| \d+ \|"
    rf"|{NUMBER} or (?:newer|older)|\b{WHOLE}/{WHOLE}\b"
    rf"|(?i:days?|table|part|exercises?|versions?|lines?|capability|code|CUDA|glibc"
    rf"|nvcc|gcc|clang|CMake|Python|step|returns|RTX|lengths? from) {NUMBER}"
    rf"(?:(?:,| and| or| to) {NUMBER})*|\b[A-Za-z_]+[-_.]?{NUMBER}\w*"
    rf"|\b(?<![.,]){WHOLE}(?:(?:,| to| and| or| x) {WHOLE})*[ -]"
    rf"(?:\w+[ -])?(?:{COUNTED})\b", re.M)
WORDS = (r"(?:two|three|four|five|six|seven|eight|nine|ten|twelve|twenty|fifty"
         r"|dozens?|hundreds?|thousands?|many)")
CLAIM = re.compile(
    rf"\b{WORDS}(?: of)?[ -]times\b|\b{WORDS}fold\b|\b{WORDS} per ?cent\b"
    rf"|\bfactor of (?:{WORDS}|{NUMBER})|\b(?:twice|half|double|triple|a third|a quarter)"
    r" (?:as (?:fast|slow|long|much time)"
    r"|(?:of )?the (?:speed|time|rate|bandwidth|throughput|peak))\b"
    rf"|{NUMBER} ?(?:x|times|-?fold|%|per cent)(?!\w)", re.I)
UNITS = re.compile(r"\d ?(?:[GMK]B/s|[mun\u00b5]?s|%|x)`")
# A bare number, 32 at most or a power of two, if no unit can follow.
AFTER = re.compile(r" ?(?:[.,;:!?)|]|$|(?:and|or|to|for|in|if|is|at|on|with|then"
                   r"|into|instead|each|all|as|but|where)\b)", re.M)
BEFORE = re.compile(r"(?i)\b(?:rank|copy|block|thread|lane|bank|stage|word|by|of|than|returns"
                    r"|with) $")
FENCE = re.compile(r"^(```+|~~~+)(\w*)\n.*?^\1", re.M | re.S)


def typed(text):
    """(line, figure) of what is typed by hand in a page."""
    def blank(match):
        if match[0][0] == "`" and (UNITS.search(match[0])
                                   or match[0].startswith("```text")):
            return match[0].replace("`", " ").replace("text", "  0 ")
        return re.sub(r"[^\n]", " ", match[0])
    for pattern in (MARK, FENCE, r"`(?:[^`\n]|\n(?!\n))*`", r"<[^>]*>", r"\]\([^)]*\)"):
        text = re.sub(pattern, blank, text)
    text = re.sub(r" *\n(?=[^\n])", "\n", text)
    found = [(match.start(), match[0]) for match in CLAIM.finditer(text)]
    text = CLAIM.sub(blank, text)
    joined = re.sub(r"(?<=\w)\n(?=\w)", " ", text)  # same length
    joined = GIVEN.sub(blank, joined)
    for match in re.finditer(rf"(?<![\w^]){NUMBER}", joined):
        before, after = joined[:match.start()], joined[match.end():]
        small = match[0].isdecimal() and (
            int(match[0]) <= 32 or int(match[0]).bit_count() == 1)
        if not small or not (AFTER.match(after) or BEFORE.search(before)):
            found.append((match.start(), match[0] + after[:9].split("\n")[0]))
    return [(text.count("\n", 0, at) + 1, figure.strip())
            for at, figure in sorted(found)]


class Weaver:
    """One repository: its regions, its records, its pages."""

    def __init__(self, root):
        self.root, self.wrong, self.records = root, [], {}
        self.lessons = {f"day{one.day}": one for one in evidence.lessons(root)}
        self.drafts = {one.folder for one in self.lessons.values() if one.draft}
        with tempfile.TemporaryDirectory() as out:
            if subprocess.run([os.environ.get("CMAKE", "cmake"), f"-DOUT={out}",
                               "-P", root / "cmake/snippets.cmake"],
                              stdout=subprocess.DEVNULL).returncode:
                sys.exit(1)  # it has said why
            self.regions = {path.relative_to(out).with_suffix("").as_posix():
                            path.read_text(encoding="utf-8")
                            for path in Path(out).glob("*/*.cu")}

    def record(self, lesson, build):
        """The run of a lesson, or None where a draft has none yet."""
        arch = re.fullmatch(r"sm_(\d+)", build)
        if lesson is None or not arch or int(arch[1]) not in lesson.builds:
            raise ValueError(f"no build '{build}' of such a lesson")
        path = lesson.run(arch[1])
        if path not in self.records:
            self.records[path] = evidence.Record(path) if path.exists() else None
        if self.records[path] is None and not lesson.draft:
            raise ValueError(f"no record {path.relative_to(self.root)}")
        return self.records[path]

    def woven(self, kind, what, lesson):
        """What belongs into a mark."""
        if kind == "snippet":
            name = what if "/" in what or not lesson else f"{lesson.folder}/{what}"
            if name not in self.regions:
                raise ValueError(f"no region '{name}'")
            return f"\n```cuda\n{self.regions[name]}```\n"
        build, *rest = [part.strip() for part in re.split(r" \| | :: ", what)]
        if lesson is None and " " in build:
            day, build = build.split()
            lesson = self.lessons.get(day)
        run = self.record(lesson, build)
        if kind == "output":
            text = "not recorded yet\n" if run is None else (
                f"$ {run.header['run-command']}\n{run.body}")
            return f"\n```text\n{text}```\n"
        return MISSING if run is None else figure(run, *rest)

    def page(self, path):
        """The page as it should be."""
        lesson = self.lessons.get(path.parent.name[:path.parent.name.find("-")])
        text = path.read_text(encoding="utf-8")

        def block(match):
            kind, what, _ = match.groups()
            try:
                new = self.woven(kind, what, lesson)
            except (ValueError, LookupError) as error:
                line = text.count("\n", 0, match.start()) + 1
                self.wrong.append(f"{self.show(path)}:{line}: {kind}: {what}: {error}")
                return match[0]
            return f"<!-- {kind}: {what} -->{new}<!-- end -->"
        left = MARK.sub("", text)
        for stray in re.finditer(r"<!--\s*(snippet|output|figure|end)\b.*", left):
            self.wrong.append(f"{self.show(path)}: not closed, or not a mark: {stray[0]}")
        self.wrong += [f"{self.show(path)}:{line}: typed by hand: {what}"
                       for line, what in typed(text)]
        return MARK.sub(block, text)

    def show(self, path):
        return path.relative_to(self.root).as_posix()


def figure(run, table, row=None, column=None, *more):
    """One cell of a run, as printed or as `more` says."""
    if row is None:
        found = set(re.findall(table.strip("/"), run.body, re.M))
        if len(found) != 1:
            raise ValueError(f"{len(found)} matches")
        return found.pop()
    named = [one for one in run.tables if one.title.startswith(table)]
    if len(named) != 1:
        raise ValueError(f"{len(named)} tables begin with '{table}'")
    rows = {one[named[0].columns[0]]: one for one in named[0].rows}
    cell = rows[row][column]
    for step in more:
        value = evidence.number(str(cell))
        if value is None:
            raise ValueError(f"'{cell}' is no number")
        if step.startswith("/ "):
            cell = value / evidence.number(rows[step[2:]][column])
        else:
            cell = step % value if step[0] == "%" else format(value, step)
    return str(cell)


GET = """REPOSITORY = ""  # its address; left empty, you are asked for the file
import pathlib
if not pathlib.Path("{file}").exists() and REPOSITORY:
    !git clone --depth 1 {{REPOSITORY}} lessons && cp lessons/{folder}/{file} .
elif not pathlib.Path("{file}").exists():
    from google.colab import files
    files.upload()"""
CARD = """!nvidia-smi --query-gpu=name,compute_cap,driver_version --format=csv
!nvcc --version | grep release"""
COMPILE = """ARCH = "sm_{arch}"  # 9.0 is sm_90; "native" is the card of this machine
!nvcc -std=c++17 -O3 -arch={{ARCH}} -o {name} {file} && ./{name} --list"""
RUN = """!./{name}; echo "exit code $?" """
ROW = """ROW = "copy"  # any row of the list above, or its beginning
!./{name} "{{ROW}}"; echo "exit code $?" """
SPLICE = """before, _, rest = pathlib.Path("{file}").read_text().partition(
    "// snippet: yours\\n")
after = rest.partition("// end snippet\\n")[2]
pathlib.Path("mine.cu").write_text(
    before + pathlib.Path("yours.cu").read_text() + after)
!nvcc -std=c++17 -O3 -arch={{ARCH}} -DLESSON_YOURS -o mine mine.cu && ./mine yours; echo "exit code $?" """
NO_CARD = """> The cards that Colab offers for free (a T4, compute capability 7.5) cannot
> run this lesson: it compiles, says why, and ends with exit code 77."""
YOURS = """## Your turn

The next cell is the region `yours` of the file: change it, then run both
cells. Your row goes through every check before it is timed."""


def notebook(lesson, page, yours):
    """The page with cells that run, as text; the same input, the same text."""
    facts = {"file": lesson.path.name, "name": lesson.name,
             "folder": lesson.folder, "arch": lesson.arch}
    page = MARK.sub(r"\3", page)
    head, *sections = re.split(r"^(?=## )", page, flags=re.M)
    cells = [head]
    if lesson.arch > 80:
        cells.append(NO_CARD)
    cells += ["## The file and the card", [GET], [CARD]]
    for section in sections:
        title = section.partition("\n")[0].lower()
        if "exercise" in title and yours:
            cells += [YOURS, ["%%writefile yours.cu\n" + yours], [SPLICE]]
        cells.append(section)
        if "run" in title:
            cells += [[COMPILE], [RUN], [ROW]]
    made = v4.new_notebook(metadata={
        "accelerator": "GPU", "language_info": {"name": "python"},
        "kernelspec": {"display_name": "Python 3", "name": "python3",
                       "language": "python"}})
    for k, cell in enumerate(cells):
        if isinstance(cell, list):
            code = cell[0] if "%%" in cell[0] else cell[0].format(**facts)
            made.cells.append(v4.new_code_cell(code.strip(), id=f"cell-{k}"))
            continue
        pictures = {}
        for name in re.findall(r"\]\(([\w-]+\.svg)\)", cell):
            if (lesson.path.parent / name).exists():
                picture = (lesson.path.parent / name).read_bytes()
                pictures[name] = {"image/svg+xml": base64.b64encode(picture).decode()}
                cell = cell.replace(f"]({name})", f"](attachment:{name})")
        made.cells.append(v4.new_markdown_cell(cell.strip(), id=f"cell-{k}"))
        if pictures:
            made.cells[-1]["attachments"] = pictures
    return writes(made) + "\n"


def main(check, root=evidence.ROOT):
    weaver, stale = Weaver(root), []
    made = {page: weaver.page(page) for page in
            [root / "README.md", *sorted(root.glob("day*/README.md"))]}
    for lesson in weaver.lessons.values():
        page = lesson.path.with_name("README.md")
        if page in made:
            made[lesson.path.with_suffix(".ipynb")] = notebook(
                lesson, made[page], weaver.regions.get(f"{lesson.folder}/yours"))
    for path, text in made.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(f"{weaver.show(path)}: not what tools/pages.py makes")
            if not check:
                path.write_text(text, encoding="utf-8", newline="\n")
    wrong = weaver.wrong + (stale if check else [])
    print("\n".join(wrong) or f"pages: {len(stale)} written", file=sys.stderr)
    return any(one.split("/")[0] not in weaver.drafts for one in wrong)


if __name__ == "__main__":
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:] == ["--check"]))
