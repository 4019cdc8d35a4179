"""The machine code of a cubin, kernel by kernel, as cuobjdump prints it."""
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

LINE = re.compile(
    r"/\*([0-9a-f]{4,})\*/ +(?:@(!?U?P[0-9T]+) +)?([^;/\n]+?) *;")
TARGET = re.compile(
    r"(?:BRA|BRX|JMP|JMX|BSSY|SSY|CALL|WARPSYNC)[A-Z.]* .*0x([0-9a-f]+)")
ENDS_BLOCK = re.compile(r"BRA|BRX|JMP|JMX|EXIT|RET|CALL")


@dataclass(frozen=True)
class Instruction:
    address: int
    predicate: str  # "" where it has none
    text: str       # `LDG.E.128 R4, [R2]`

    @property
    def target(self):
        """Where a branch may go to, or None."""
        found = TARGET.match(self.text)
        return int(found[1], 16) if found else None


@dataclass(frozen=True)
class Kernel:
    """A kernel, or a part of one. A pattern is a regular expression for the
    beginning of an instruction."""
    name: str
    arguments: tuple  # its integer template arguments
    arch: int         # 75, 90
    code: tuple

    def find(self, pattern):
        return [i for i in self.code if re.match(pattern, i.text)]

    def count(self, pattern):
        return len(self.find(pattern))

    def predicated(self, pattern):
        return sum(i.predicate != "" for i in self.find(pattern))

    def upto(self, pattern):
        """The part before the first match, in the order of the addresses."""
        first = self.find(pattern)[0].address
        return replace(self, code=tuple(
            i for i in self.code if i.address < first))

    def after(self, pattern):
        """The part behind the first match."""
        first = self.find(pattern)[0].address
        return replace(self, code=tuple(
            i for i in self.code if i.address > first))

    def before(self, pattern, other):
        """How many come before the first `other`."""
        return self.upto(other).count(pattern)

    @property
    def loops(self):
        """The part of each backward branch; of `L: BRA L` behind EXIT none."""
        return [replace(self, code=tuple(
                    i for i in self.code
                    if branch.target <= i.address <= branch.address))
                for branch in self.find("BRA|JMP")
                if branch.target is not None
                and branch.target < branch.address]

    def loops_around(self, pattern):
        return sum(loop.count(pattern) > 0 for loop in self.loops)

    def run(self, pattern, until, block=False):
        """The longest sequence, in the order of the addresses, before
        `until`; with `block` of instructions without a predicate in one basic
        block."""
        leaders = {i.target for i in self.code}
        longest = length = 0
        for i in self.code:
            if re.match(until, i.text) or block and (
                    i.address in leaders or ENDS_BLOCK.match(i.text)):
                length = 0
            if re.match(pattern, i.text) and not (block and i.predicate):
                length += 1
                longest = max(longest, length)
        return longest


def tool(name):
    """A program of the toolkit: on PATH, or of the Python package."""
    found = shutil.which(name) or shutil.which(name, path=os.pathsep.join(
        str(path) for folder in sys.path
        for path in Path(folder).glob("nvidia/cu*/bin")))
    if not found:
        raise FileNotFoundError(f"{name} not found")
    return found


@lru_cache(maxsize=None)
def read(cubin):
    """{name: [a Kernel for each set of template arguments]}, without those of
    libraries."""
    path = os.pathsep.join([str(Path(tool("nvdisasm")).parent),
                            os.environ.get("PATH", "")])
    listing = subprocess.run([tool("cuobjdump"), "-sass", str(cubin)],
                             text=True, stdout=subprocess.PIPE, check=True,
                             env={**os.environ, "PATH": path}).stdout
    arch = int(re.search(r"sm_(\d+)", listing)[1])
    kernels = {}
    for part in listing.split("Function : ")[1:]:
        mangled = part.split(None, 1)[0]
        if mangled.startswith("_ZN"):
            continue
        name, rest = mangled, ""
        if found := re.match(r"_Z(\d+)(.*)", mangled):
            length = int(found[1])
            name, rest = found[2][:length], found[2][length:]
        arguments = tuple(int(value.replace("n", "-")) for value in
                          re.findall(r"L[a-z](n?\d+)E", rest))
        code = tuple(Instruction(int(address, 16), predicate, text)
                     for address, predicate, text in LINE.findall(part))
        kernels.setdefault(name, []).append(
            Kernel(name, arguments, arch, code))
    return kernels
