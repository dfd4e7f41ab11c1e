"""What `reliability` returns: a sentence that says what to do with the draws, and a table of the checks."""

from dataclasses import dataclass
from html import escape
from textwrap import wrap

import pandas as pd

from pymc_austerity.diagnostics.verdicts import CARE, DO_NOT_TRUST, NOT_KNOWN, TRUST, Finding, overall

#: Columns of a terminal.
_WIDTH = 80
_TO_DO = {
    TRUST: "Use these draws: no check speaks against them.",
    NOT_KNOWN: "Do not rely on these draws yet: whether they can be trusted is not known ({}).",
    CARE: "Use these draws for a first look, and not for results that have to be right ({}).",
    DO_NOT_TRUST: "Do not use these draws ({}).",
}


@dataclass(frozen=True)
class Reliability:
    """How far the draws of a run can be trusted.

    Attributes
    ----------
    verdict : str
        ``"trust"``, ``"trust with care"``, ``"do not trust"``, or ``"not known"`` where nothing is shown to be wrong
        and a check could not tell: the worst of all checks.
    checks : pandas.DataFrame
        One row a check: ``verdict``, ``value``, ``reason`` and ``remedy``.
    states : pandas.DataFrame
        One row a proposal of the spot check: where its state stands in the run (``chain``, ``draw``), the log
        acceptance ratio and the acceptance probability on all rows (``log_ratio``, ``exact``), how often the test moves
        ``there`` and ``back``, as seen from the more probable of the two states, their difference (``error``) and its
        Monte Carlo standard error (``error_se``), mean ``rows`` read, and the shape of the row terms (``skewness``,
        ``kurtosis``, ``largest``).  Empty where there was no spot check.
    passes : float
        Passes over the data that the check took.
    looked_at : str
        The rows that proposals were looked at on.  Of a run with ``data=`` they are the pool, whose weighted rows stand
        for all; of many rows they may be a sample.
    """

    verdict: str
    checks: pd.DataFrame
    states: pd.DataFrame
    passes: float
    looked_at: str = "all rows"

    @property
    def advice(self) -> str:
        """What to do with the draws, in a sentence or two."""
        if "verdict" not in self.checks:
            return _TO_DO[self.verdict].format("")
        bad = self.checks[self.checks["verdict"] == self.verdict]
        remedies = dict.fromkeys(r for r in bad["remedy"] if r)
        advice = _TO_DO[self.verdict].format(", ".join(map(str, bad.index)))
        return f"{advice} {next(iter(remedies))}" if remedies and self.verdict != TRUST else advice

    def __str__(self) -> str:
        """Write the advice, and a table of 80 columns: checks, verdicts, reasons, and remedies where there are."""
        first, second = 18, 17
        lines = [*wrap(self.advice, _WIDTH), "", f"{'check':{first}}{'verdict':{second}}found"]
        for check, row in self.checks.iterrows():
            found = wrap(row["reason"], _WIDTH - first - second)
            if row["remedy"]:
                found += wrap(f"→ {row['remedy']}", _WIDTH - first - second, subsequent_indent="  ")
            for k, text in enumerate(found):
                left = f"{check:{first}}{row['verdict']:{second}}" if not k else " " * (first + second)
                lines.append(left + text)
        if self.looked_at != "all rows":
            lines += ["", *wrap(f"Proposals were looked at on {self.looked_at}.", _WIDTH)]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Write the same for a notebook."""
        cell, rows = '<td style="text-align: left; vertical-align: top">', []
        for check, row in self.checks.iterrows():
            remedy = f"<br><i>{escape(row['remedy'])}</i>" if row["remedy"] else ""
            found = (escape(str(check)), escape(row["verdict"]), escape(row["reason"]) + remedy)
            rows.append("<tr>" + "".join(f"{cell}{text}</td>" for text in found) + "</tr>")
        head = "".join(f'<th style="text-align: left">{name}</th>' for name in ("check", "verdict", "found"))
        note = "" if self.looked_at == "all rows" else f"<p>Proposals were looked at on {escape(self.looked_at)}.</p>"
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
        return f"<p><b>{escape(self.advice)}</b></p>{table}{note}"


def report_of(findings: list[Finding], passes: float, states: pd.DataFrame, looked_at: str = "all rows") -> Reliability:
    """Put together what was found."""
    checks = pd.DataFrame([f._asdict() for f in findings]).set_index("check")
    return Reliability(overall(findings), checks, states, passes, looked_at)
