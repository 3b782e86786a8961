"""The result of a run, and its forms: JSON, rows of tables, HTML."""

from __future__ import annotations

import html
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from . import _native, _tables
from ._records import RunRecord
from ._section import fields_of_record
from ._settings import write_page

if TYPE_CHECKING:
    import pandas
    import polars


class PartialResultWarning(UserWarning):
    """A run ended before the end of its input (ctrl-C, a full device, a damaged trace). The result covers the part before."""


_LEAST_REQUESTS = {"mean": 1, "p50": 2, "p90": 10, "p99": 100, "p999": 1000, "p9999": 10_000, "max": 1}
"""Figures of a latency distribution, with the number of requests from which a table has them, as in the command's CSV."""


_FIELDS_OF_EVERY_RUN = {"trace", "design", "config"}
"""Some fields that tell the record of a run from other JSON."""


class Result(RunRecord):
    """The result of a run: its record. The fields of docs/schema are attributes: `result.latency_us.read.p99`."""

    __slots__ = ("_text",)

    _text: str

    def __init__(self, text: str) -> None:
        source = "what Result.to_json() returns, or an element of `runs` in the output of wearwell replay --json"
        super().__init__(fields_of_record(text, _FIELDS_OF_EVERY_RUN, "a run", source))
        object.__setattr__(self, "_text", text)

    def to_json(self) -> str:
        """Returns the record as JSON, in the form of an element of `runs` in the command line's `--json` output."""
        return self._text

    def to_row(self) -> dict[str, Any]:
        """Returns the figures and the configuration with dotted names, which are the columns of `to_pandas` and others.

        A figure that the run does not have, such as a latency without timing, is None, as it is empty in the command's CSV.
        """
        return {**_tables.flattened_row(self._fields), **dict.fromkeys(_absent_figures(self._fields))}

    def to_pandas(self) -> pandas.DataFrame:
        """Returns a data frame of one row, whose columns are named like the attributes: those of `to_row`."""
        return _tables.to_pandas([self.to_row()])

    def to_polars(self) -> polars.DataFrame:
        """Returns a data frame of one row, whose columns are named like the attributes: those of `to_row`."""
        return _tables.to_polars([self.to_row()])

    def to_arrow(self) -> Any:
        """Returns a `pyarrow.Table` of one row, whose columns are named like the attributes: those of `to_row`."""
        return _tables.to_arrow([self.to_row()])

    def report(self, path: str | bytes | os.PathLike[str]) -> None:
        """Writes an HTML page with the record, which needs no network, like `wearwell replay --report`. The charts over time
        (write amplification, programs by cause, latencies, blocks) are included if the run had the setting
        `replay.timeline_cells`, which `--report` sets. An existing file is replaced."""
        write_page(path, _native.html_page_of_runs([self._text]))

    def __reduce__(self) -> tuple[type[Result], tuple[str]]:
        return Result, (self._text,)

    def __str__(self) -> str:
        return _native.table_of_runs([self._text])

    def __repr__(self) -> str:
        partial = ", partial" if self.partial else ""
        label = " ".join(filter(None, [self.design, self.variant]))
        return f"<Result of {label} on {self.trace.path}: write amplification {self.write_amplification:.3f}{partial}>"

    def _repr_html_(self) -> str:
        return comparison_html([self])


def _absent_figures(fields: Mapping[str, Any]) -> Iterator[str]:
    """Yields the dotted names of the figures that a run does not have, although the record has a number for them.

    These are latencies and times without a time model, figures of latency of too few requests, and figures that depend on
    the rate of the requests if the drive cannot sustain it.
    """
    is_timed, is_overloaded = fields["timing"]["mode"] != "none", fields["service"]["is_overloaded"]
    for requests, latency in fields["latency_us"].items():
        for figure, least in _LEAST_REQUESTS.items():
            if is_overloaded or latency["count"] < least:
                yield f"latency_us.{requests}.{figure}"
        if not is_timed:
            yield f"latency_us.{requests}.count"
    if not is_timed:
        yield from ("timing.device_s", "timing.array_utilisation", "timing.channel_utilisation")
    if is_overloaded:
        yield from ("lifetime.years", "lifetime.scaled_years")
    if fields["lifetime"]["write_until_programmed_us"] == 0.0:
        yield "lifetime.write_until_programmed_us"
    if fields["host_page_writes"] == 0:
        yield from ("write_amplification", "write_reduction")


def comparison_html(results: list[Result]) -> str:
    """Returns the command line's table of runs in HTML, with ratios to the first result."""
    lines = _native.markdown_table_of_runs([result.to_json() for result in results]).splitlines()
    rows = [line for line in lines if line.startswith("|")]
    cells = [[html.escape(cell.strip()) for cell in row.strip("|").split("|")] for row in rows]
    head, body = cells[0], cells[2:]
    titles = "".join(f"<th>{cell}</th>" for cell in head)
    trs = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in body)
    first, last = lines.index(rows[0]), len(lines) - lines[::-1].index(rows[-1])
    said = ["<br>".join(html.escape(line) for line in part if line) for part in (lines[:first], lines[last:])]
    return (
        f"<p>{said[0]}</p><table><thead><tr>{titles}</tr></thead><tbody>{trs}</tbody></table><p>{said[1]}</p>"
    )
