"""Batches of transfers over the engine: one number of the engine per request.

Invariant: a state that is COMPLETED, TIMEOUT or FAILED stays, and its number is given back.
"""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass, field
from typing import Any

from .errors import InternalError, InvalidArgumentError, InvalidEntryError
from .types import HINTS, OpCode, Request, TransferStatus, TransferStatusEnum

_STATES = {
    0: TransferStatusEnum.PENDING,
    1: TransferStatusEnum.COMPLETED,
    -1: TransferStatusEnum.FAILED,
    -2: TransferStatusEnum.TIMEOUT,
}


@dataclass
class _Task:
    number: int
    length: int
    status: TransferStatus


@dataclass
class _Batch:
    room: int
    tasks: list[_Task] = field(default_factory=list)


class Batches:
    """All batches of one engine. Calls from several threads are taken one after the other."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._numbers = itertools.count(1)
        self._batches: dict[int, _Batch] = {}
        self._freed: list[_Task] = []
        self._lock = threading.Lock()

    def allocate(self, room: int) -> int:
        """Return the number of a batch for `room` requests."""
        if room < 1:
            raise InvalidArgumentError(f"a batch of {room} requests; use 1 or more")
        with self._lock:
            number = next(self._numbers)
            self._batches[number] = _Batch(room)
            return number

    def free(self, number: int) -> None:
        """Forget a batch. What is under way goes on."""
        with self._lock:
            self._freed += self._of(number).tasks
            del self._batches[number]
            self._freed = [task for task in self._freed if not self._settled(task)]

    def submit(self, number: int, requests: list[tuple[str, Request]]) -> None:
        """Start requests, each with the name of its target, or none of them if one is wrong."""
        with self._lock:
            batch = self._of(number)
            if len(batch.tasks) + len(requests) > batch.room:
                raise InvalidArgumentError(f"batch {number} has room for {batch.room} requests")
            hints = [_hint(request) for _, request in requests]
            for (target, request), hint in zip(requests, hints):
                batch.tasks.append(self._start(target, request, hint))

    def statuses(self, number: int) -> list[TransferStatus]:
        """Return the state of each request, in the order in which they were submitted."""
        with self._lock:
            tasks = self._of(number).tasks
            for task in tasks:
                self._settled(task)
            return [TransferStatus(task.status.state, task.status.bytes) for task in tasks]

    def _start(self, target: str, request: Request, hint: str) -> _Task:
        reads = request.opcode == OpCode.READ
        engine = self._engine
        start = engine.batch_transfer_async_read if reads else engine.batch_transfer_async_write
        ranges = ([request.source], [request.target_offset], [request.length])
        number = start(target, *ranges, hint)
        state = TransferStatusEnum.PENDING if number else TransferStatusEnum.FAILED
        return _Task(number, request.length, TransferStatus(state))

    def _settled(self, task: _Task) -> bool:
        if task.status.state == TransferStatusEnum.PENDING:
            task.status.state = _STATES[self._engine.transfer_check_status(task.number)]
            if task.status.state == TransferStatusEnum.COMPLETED:
                task.status.bytes = task.length
        return task.status.state != TransferStatusEnum.PENDING

    def _of(self, number: int) -> _Batch:
        found = self._batches.get(number)
        if found is None:
            raise InvalidEntryError(f"there is no batch {number}")
        return found


def overall(statuses: list[TransferStatus]) -> TransferStatus:
    """Return the state of a batch: the worst of its requests, pending while one is."""
    if not statuses:
        return TransferStatus()
    states = [status.state for status in statuses]
    moved = sum(status.bytes for status in statuses)
    order = (
        TransferStatusEnum.PENDING,
        TransferStatusEnum.FAILED,
        TransferStatusEnum.TIMEOUT,
        TransferStatusEnum.COMPLETED,
    )
    found = next((state for state in order if state in states), None)
    if found is None:
        raise InternalError(f"a batch of {states}")
    return TransferStatus(found, moved)


def _hint(request: Request) -> str:
    hint = HINTS.get(request.transport_hint)
    if hint is None:
        names = ", ".join(name for name in HINTS.values() if name)
        raise InvalidArgumentError(
            f"transport {request.transport_hint!r} is not built; there are {names}"
        )
    return hint
