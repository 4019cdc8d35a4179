"""What the tests of the lessons share: printed numbers, and launches."""
import re
from statistics import median

import pytest

from evidence import close, number

COPY = "copy (ceiling)"
READ, WRITE = "dram__bytes_read.sum", "dram__bytes_write.sum"
TIME = "gpu__time_duration.sum"  # in ns
SECTORS = ("l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld"
           ".ratio")
ATOMICS = "l1tex__t_requests_pipe_lsu_mem_global_op_red.sum"


class Cell(float):
    """A printed number; it may be off by `half` of its last digit."""

    def __new__(cls, text):
        cell = super().__new__(cls, number(text.lstrip("<=! ")))
        cell.text = text
        cell.half = 0.5 / 10 ** len(text.strip(" %").partition(".")[2])
        return cell


def shown(text):
    """A Cell, or what is no number as it is."""
    return Cell(text) if text and number(text.lstrip("<=! ")) is not None \
        else text


def cells(table, key="row"):
    """{label: {column: cell}}."""
    found = {row[key]: {name: shown(cell) for name, cell in row.items()}
             for row in table.rows}
    assert len(found) == len(table.rows), table.title
    return found


def rows_with(run, column="GB/s"):
    """The cells of the only table with such a column: the ladder."""
    [table] = [one for one in run.tables if column in one.columns]
    return cells(table)


def said(run, pattern):
    """What the groups of a pattern stand for in what was printed."""
    return [*map(shown, re.search(pattern, run.body, re.M).groups())]


def real(run):
    """The times of a quick run mean nothing."""
    if run.quick:
        pytest.skip("a quick run")


def near(cell, value, *made_of):
    """The cell is the value, but for what printing it and others lost."""
    lost = sum(one.half / max(one, one.half) for one in made_of)
    return abs(cell - value) <= 1.01 * (cell.half + abs(value) * lost)


def rates(run, rows, size):
    """Columns made of ms, of size(label), and of the rates beside them."""
    [peak] = said(run, r"peak (\d+) GB/s")
    copy = rows.get(COPY, {}).get("GB/s")
    for label, row in rows.items():
        ms, rate = row["ms"], row["GB/s"]
        assert near(rate, size(label) / ms / 1e6, ms), row
        assert near(row["% peak"], 100 * rate / peak, rate, peak), row
        assert rate < 1.02 * peak and row["spread"] >= 0, row
        assert near(row["% copy"], 100 * rate / copy, rate, copy) \
            if copy else row["% copy"] == "n/a", row


def times(cell, above, row):
    """The time of `above` over the row's; `~` where the spread hides it."""
    value = above["ms"] / row["ms"]
    assert near(cell, value, above["ms"], row["ms"]), (cell, above, row)
    seen = abs(value - 1) - max(above["spread"], row["spread"]) / 100
    lost = 6e-4 + sum(one["ms"].half / one["ms"] for one in (above, row))
    assert cell.text.startswith("~") == (seen <= 0) or abs(seen) <= lost, row


def compared(rows, column, others, none):
    """The column compares each row with its other one, or says `none`."""
    for label, row in rows.items():
        if others.get(label) in rows:
            times(row[column], rows[others[label]], row)
        else:
            assert row[column] == none, row


def launched(launches, claims):
    """[(label, launch)]: one for each (label, claim), and each as claimed."""
    assert len(launches) == len(claims)
    for (label, claim), one in zip(claims, launches):
        assert claim.items() <= vars(one).items(), (label, claim, one)
    return [(label, one) for (label, _), one in zip(claims, launches)]


def as_profiled(row, *launches):
    """A time above 20 us is the profiler's, within 15 %."""
    ms = sum(one.metrics[TIME] for one in launches) / 1e6
    assert row["ms"] <= 0.02 or close(row["ms"], ms, 15), (row, ms)


def moved(timed, claim, read, written):
    """Caches left alone, each launch over the whole input reads all of it
    from memory, and at most 2 % more; most write what they should."""
    found = [one for one in timed.launches
             if claim.items() <= vars(one).items()]
    longest = max(one.metrics[TIME] for one in found)
    whole = [one for one in found if one.metrics[TIME] > 0.8 * longest]
    assert len(whole) >= 8, claim
    assert all(0.999 < one.metrics[READ] / read < 1.02 for one in whole), claim
    writes = median(one.metrics[WRITE] for one in whole)
    assert abs(writes - written) <= 0.02 * read, claim
    return whole
