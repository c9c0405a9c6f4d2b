"""Duration of the gate and the patterns: splitting, judging and reading a message's sentences, without a model.

Messages have about 500 characters and are typical of coding sessions. Those with facts take longest, and are rare: four
of five turns hold no facts. So the medians of both kinds are reported, and that of a mix of four to one. The baseline
is `str.split` of the same text, the minimum of any processing of all words.

    python -m bench.patterns
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from cofio.ingest import gate
from cofio.ingest.extract import patterns
from cofio.models.exchange import Exchange, GateVerdict, Message

ROUNDS = 200
GROWTH = (1, 2, 4, 8, 16)
#: Texts that slow down careless regular expressions, each repeated to the required length.
HOSTILE = ("I prefer ", "a ", "switched from x to ", "we always use ", "e.g. ", "(((", "`x` = ", "and, ", "?! ")

_PROSE = (
    ("user", """Can you look at the failing test in tests/api/test_orders.py? It started after I merged the branch with
    the new serializer. I think the date comes back as a string now, but I am not sure where that happens. The trace
    points at line 88 of serializers.py, though that file has not changed in weeks. Please do not touch the fixtures,
    other people use them. If you need the database, docker compose up starts one on the usual port. Thanks, and tell me
    first if you want to change the schema."""),
    ("assistant", """I looked at the serializer and at the test. The date is converted in `OrderSchema.dump`, which
    calls `isoformat` before the comparison. I changed the test so that it compares parsed dates. All 12 tests in that
    file pass now. I left the fixtures alone, as you asked. There is one more place that does the same, in
    `InvoiceSchema`, but no test covers it. Would you like me to add one? It would take a small factory for invoices.
    The change is three lines long, and it needs no migration."""),
    ("user", """ok so a bit of background: we switched from Celery to Dramatiq for background jobs. I prefer small
    modules over big ones. The staging port is 5433. We never use mocks in integration tests. Now please add an endpoint
    that cancels an order. It takes the id and a reason, and it should return 409 when the order has been shipped. Put
    the code next to the refund endpoint, the two share most of their checks. Write the tests first and show them to me
    before you go on with the rest of it."""),
    ("user", """hmm, that is not what I meant. The reason should be an enum and not a free text, look at how refunds do
    it. Also the button on the page is too close to the edge on small screens, move it down a little. What happens when
    somebody cancels while the payment is still pending? I would like to see the states first, maybe as a table. The old
    code had a diagram in docs/orders.md, but I do not know whether it is still right. Take your time with this one,
    there is no hurry at all today."""),
    ("assistant", """You are right, refunds take an enum. I moved the reasons into `RefundReason` and `CancelReason`,
    both in `orders/reasons.py`. The root cause of the double charge was a webhook that arrived before the row was
    committed. It is handled in the same transaction now. The page is better on small screens: the button has a margin
    of 16 pixels. The diagram in docs/orders.md was out of date, two states were missing. I drew it again from the code.
    Next I will look at the pending payments and report what I find."""),
    ("user", """yes, go ahead. Looks good to me. One more thing: our convention is to name migrations after the ticket,
    so rename the last two files. And from now on, write commit messages in the imperative. Ada reviews everything that
    touches payments, so ask her before you merge. The release is planned for the end of the month, until then nothing
    but fixes goes in. When you are done with that, run the whole suite once and paste the summary here. I will be in a
    meeting until three and read it afterwards."""),
    ("user", """The list of invoices takes four seconds to load for the big customers. I looked at the query log and
    there are about three hundred selects for one page, most of them for the addresses. Can you find out which part of
    the template asks for them? Keep the columns as they are, the finance people know them by heart. A page of fifty
    rows would be fine with me. If it gets too complicated, stop and tell me what you found so far. The page is at
    /invoices, and the view that renders it is called InvoiceList."""),
    ("assistant", """The selects come from the column with the shipping address. The template calls `order.address` in
    the loop, and each call loads a row. I added the address to the query of the view, so that one select brings all of
    them. The page took 4.1 seconds before and takes 0.3 seconds after the change, measured with the data that you gave
    me. The columns are the same. I did not change the number of rows. Do you want me to look at the export as well? It
    goes through the same template and may be slow for the same reason."""),
    ("user", """I tried it with the data of last week and it is a lot better, thank you. There is still a jump when the
    table loads, because the header gets its width after the rows are there. See whether a fixed layout helps. Then look
    at the export, but do not spend more than an hour on it. Somebody from support asked for a column with the country,
    what do you think about that? I am a little afraid that the table gets too wide. Show me a picture of both versions
    and I will ask them which one they like."""),
    ("assistant", """The fixed layout helps: the header no longer jumps. I set the widths in the style sheet, in
    percent, so that small screens keep working. The export is slow for another reason. It writes one line at a time and
    flushes the file after each. I wrote a small test that exports ten thousand rows, it takes nine seconds. With a
    larger buffer the same test takes one second. Here are the pictures of both versions of the table. The one with the
    country is wider by eighty pixels, and on a laptop nothing is cut off."""),
)  # fmt: skip
_WITH_CODE = (
    ("assistant", """Here is the plan. First I add `cancel` to the order service, with the checks that refund has. Then
comes the route, then the tests.

```python
def cancel(order: Order, reason: str) -> Order:
    if order.shipped_at is not None:
        raise Conflict("shipped")
    order.cancelled_at = now()
    order.reason = reason
    return order
```

- The route is `POST /orders/{id}/cancel`
- It answers with the order as it is afterwards
- An order that is cancelled twice stays as it was"""),
    ("user", """Traceback (most recent call last):
  File "/srv/app/orders/service.py", line 41, in cancel
    raise Conflict("shipped")
orders.errors.Conflict: shipped
During handling of the above exception, another exception occurred:
  File "/srv/app/web/errors.py", line 17, in render
    return self.template.format(**context)
KeyError: 'order_id'
2026-02-11 09:14:02 ERROR web.errors could not render the page for this request
This comes up when I press cancel twice, please have a look at the error page too"""),
)  # fmt: skip
MESSAGES = (*((role, " ".join(text.split())) for role, text in _PROSE), *_WITH_CODE)


def gate_call(role: str, text: str) -> Callable[[], GateVerdict]:
    """Return the measured work: the gate's verdict on the message."""
    return partial(gate.judge, Exchange(messages=(Message(role, text),)), patterns.find)


def median(work: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Return the median of the seconds that the work takes."""
    durations = []
    for _ in range(rounds):
        started = time.perf_counter()
        work()
        durations.append(time.perf_counter() - started)
    return statistics.median(durations)


class Figure(NamedTuple):
    """Facts found in one message, and seconds of the gate and of a plain split per 500 characters."""

    facts: int
    length: int
    cofio: float
    baseline: float


def measure_messages() -> list[Figure]:
    """Return a figure for each message."""
    figures = []
    for role, text in MESSAGES:
        work, scale = gate_call(role, text), 500 / len(text)
        figures.append(Figure(len(work().found), len(text), median(work) * scale, median(text.split) * scale))
    return figures


def format_row(label: str, figures: Sequence[Figure]) -> str:
    """Return the median of the figures as one line."""
    cofio_median, baseline_median = (
        statistics.median(figure.cofio for figure in figures),
        statistics.median(figure.baseline for figure in figures),
    )
    return f"{label:>20}{cofio_median * 1e6:>12.1f}{baseline_median * 1e6:>12.2f}{cofio_median / baseline_median:>8.0f}"


def growth(text: str, times: Sequence[int] = GROWTH) -> list[float]:
    """Return the relative duration for each multiple of the text."""
    durations = [min(median(gate_call("user", text * factor), 5) for _ in range(3)) for factor in times]
    return [factor / durations[0] for factor in durations]


def main() -> None:
    """Print the figures."""
    figures = measure_messages()
    print(f"{'':20}{'µs / 500':>12}{'str.split':>12}{'ratio':>8}")
    for figure in figures:
        print(format_row(f"{figure.length} characters", [figure]))
    with_facts = [figure for figure in figures if figure.facts]
    without_facts = [figure for figure in figures if not figure.facts]
    mix = without_facts * 4 * len(with_facts) + with_facts * len(without_facts)
    for label, group in (("without facts", without_facts), ("with facts", with_facts), ("four to one", mix)):
        print(format_row(label, group))
    print()
    print(f"growth for {', '.join(f'{value}x' for value in GROWTH)} the text:")
    everything = "\n".join(text for _, text in MESSAGES)
    for name, text in (("messages", everything), *((repr(value), value * (4_000 // len(value))) for value in HOSTILE)):
        print(f"{name:>24}" + "".join(f"{value:>8.1f}" for value in growth(text)))


if __name__ == "__main__":
    main()
