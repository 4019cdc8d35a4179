#!/usr/bin/env python3
"""Builds pages from exported snippets with Sphinx (literalinclude) or MkDocs
(pymdownx.snippets), and compares the code in the HTML with the files.

Usage: python3 tests/snippets/generators.py TOOL SNIPPETS WORK [--require]

TOOL: sphinx-build or mkdocs, from PATH. SNIPPETS: a folder that
cmake/snippets.cmake wrote. WORK: a folder to build in. Where the tool is
missing the exit status is 77 (skipped), or 1 with --require.
"""
import html
import pathlib
import re
import shutil
import subprocess
import sys

MKDOCS = """\
site_name: Pages
use_directory_urls: false
theme: {name: null, custom_dir: theme}
markdown_extensions:
  - pymdownx.highlight
  - pymdownx.superfences
  - pymdownx.snippets: {base_path: [snippets], check_paths: true}
"""


def build_sphinx(tool, names, work):
    (work / "conf.py").write_text('html_theme = "basic"\n')
    page = "Pages\n=====\n"
    for name in names:
        page += f"\nat {name}\n\n.. literalinclude:: snippets/{name}.cu\n"
        page += "   :language: cuda\n"
    (work / "index.rst").write_text(page)
    subprocess.run([tool, "-q", "-b", "html", work, work / "html"], check=True)
    return work / "html" / "index.html"


def build_mkdocs(tool, names, work):
    for folder in "docs", "theme":
        (work / folder).mkdir()
    (work / "theme" / "main.html").write_text("{{ page.content }}")
    (work / "mkdocs.yml").write_text(MKDOCS)
    page = "# Pages\n"
    for name in names:
        page += f'\nat {name}\n\n```cuda\n--8<-- "{name}.cu"\n```\n'
    (work / "docs" / "index.md").write_text(page)
    subprocess.run([tool, "build", "--quiet", "--strict"], cwd=work,
                   check=True)
    return work / "site" / "index.html"


def main():
    tool, snippets, work = sys.argv[1], *map(pathlib.Path, sys.argv[2:4])
    found = shutil.which(tool)
    if not found:
        print(f"{tool} is not on PATH: pip install sphinx mkdocs "
              "pymdown-extensions")
        return 1 if "--require" in sys.argv else 77
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    shutil.copytree(snippets, work / "snippets")

    rows = (snippets / "index.tsv").read_text(encoding="utf-8").splitlines()
    names = ["/".join(row.split("\t")[:2]) for row in rows[1:]]
    build = {"sphinx-build": build_sphinx, "mkdocs": build_mkdocs}[tool]
    built = build(found, names, work).read_text(encoding="utf-8")

    wrong = 0
    for name in names:
        want = (snippets / f"{name}.cu").read_bytes()
        match = re.search(
            rf"<p>at {re.escape(name)}</p>.*?<pre>(.*?)</pre>", built, re.S)
        code = re.sub(r"<[^>]*>", "", match[1]) if match else ""
        if html.unescape(code).encode() != want:
            wrong += 1
            print(f"{name}: {tool} shows\n{html.unescape(code)!r}\n"
                  f"and the snippet is\n{want!r}")
    print(f"{tool}: {len(names)} snippets embedded, {wrong} changed")
    return 1 if wrong or not names else 0


if __name__ == "__main__":
    sys.exit(main())
