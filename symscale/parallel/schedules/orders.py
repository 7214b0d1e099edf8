"""The order of work on each device, for the schedules of one direction.

Each function takes the number of devices ``p``, of microbatches ``m`` and of chunks ``v`` on a
device, and gives every device's slots.
"""

from __future__ import annotations

from collections.abc import Iterator

from symscale.parallel.schedules.work import Kind, Order, Work, single


def gpipe(p: int, m: int, v: int = 1) -> Order:
    """All forwards, then all backwards, the last microbatch first.

    >>> [slot[0] for slot in gpipe(2, 2)[1]]
    [F0 on stage 1, F1 on stage 1, BW1 on stage 1, BW0 on stage 1]
    """
    return tuple(
        single(
            [
                *(Work("F", i, stage) for i in range(m)),
                *(Work("BW", i, stage) for i in reversed(range(m))),
            ]
        )
        for stage in range(p)
    )


def one_f_one_b(p: int, m: int, v: int = 1) -> Order:
    """As many forwards as there are stages behind, then a forward and a backward in turn.

    >>> [slot[0] for slot in one_f_one_b(2, 2)[1]]
    [F0 on stage 1, BW0 on stage 1, F1 on stage 1, BW1 on stage 1]
    """
    return tuple(
        single(Work(kind, i, stage) for kind, i in alternating(m, min(p - stage - 1, m), "BW"))
        for stage in range(p)
    )


def alternating(count: int, ahead: int, kind: Kind) -> Iterator[tuple[Kind, int]]:
    """``ahead`` forwards, then forward and backward in turn, then the backwards left over.

    >>> list(alternating(2, 1, "B"))
    [('F', 0), ('F', 1), ('B', 0), ('B', 1)]
    """
    for i in range(count + ahead):
        if i < count:
            yield "F", i
        if i >= ahead:
            yield kind, i - ahead


def interleaved(p: int, m: int, v: int) -> Order:
    """1F1B over ``v`` chunks a device, ``p`` microbatches of a chunk before the next chunk."""
    return tuple(single(_interleaved_device(p, m, v, device)) for device in range(p))


def _interleaved_device(p: int, m: int, v: int, device: int) -> Iterator[Work]:
    ahead = min(2 * (p - device - 1) + (v - 1) * p, m * v)
    for kind, index in alternating(m * v, ahead, "BW"):
        group, rest = divmod(index, p * v)
        turn, place = divmod(rest, p)
        chunk = turn if kind == "F" else v - 1 - turn
        yield Work(kind, group * p + place, chunk * p + device, chunk)


def zero_bubble_1(p: int, m: int, v: int = 1) -> Order:
    """1F1B whose weight gradients wait, on each stage as long as its place in the pipeline."""
    return _split(p, m, [p - stage - 1 for stage in range(p)], list(range(p)))


def zero_bubble_2(p: int, m: int, v: int = 1) -> Order:
    """Enough forwards ahead, and weight gradients late enough, to leave no gap."""
    ahead = [2 * (p - stage - 1) for stage in range(p)]
    return _split(p, m, ahead, [2 * stage for stage in range(p)])


def _split(p: int, m: int, ahead: list[int], late: list[int]) -> Order:
    return tuple(
        single(_split_device(m, stage, min(ahead[stage], m), min(late[stage], m)))
        for stage in range(p)
    )


def _split_device(m: int, stage: int, ahead: int, late: int) -> Iterator[Work]:
    for kind, i in alternating(m, ahead, "B"):
        yield Work(kind, i, stage)
        if kind == "B" and i >= late:
            yield Work("W", i - late, stage)
    for i in range(m - late, m):
        yield Work("W", i, stage)
