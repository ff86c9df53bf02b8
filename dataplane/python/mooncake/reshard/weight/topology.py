"""The workers of one parallel job and the sizes of its axes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import cast

from .. import _checks as check
from .._wire import identity
from ..contracts import ParticipantId, TopologyId
from .types import AXIS_KINDS, ParallelRank

__all__ = ["ParallelTopology", "TopologyParticipant"]


@dataclass(frozen=True)
class TopologyParticipant:
    """One worker and its coordinates."""

    participant_id: ParticipantId
    rank: ParallelRank

    def __post_init__(self) -> None:
        check.text(self.participant_id, "participant_id")
        if not isinstance(self.rank, ParallelRank):
            raise ValueError("topology participant rank must be a ParallelRank")


@dataclass(frozen=True, kw_only=True)
class ParallelTopology:
    """The sizes of the axes and the workers that take part, sorted by name.

    The workers need not be as many as the product of the sizes: TP and EP may share workers, and a
    placement may hold one DP replica of several. `topology_id` is the digest of the rest.
    """

    tp_size: int
    pp_size: int
    ep_size: int
    dp_size: int
    participants: tuple[TopologyParticipant, ...]
    # None asks for the digest of the rest; it is never None afterwards.
    topology_id: TopologyId = cast(TopologyId, None)

    def __post_init__(self) -> None:
        for kind in AXIS_KINDS:
            check.whole(self.size(kind), f"{kind}_size", 1)
        workers = check.items(self.participants, "topology participants", TopologyParticipant)
        if not workers:
            raise ValueError("parallel topology participants must not be empty")
        workers = tuple(sorted(workers, key=lambda worker: worker.participant_id))
        object.__setattr__(self, "participants", workers)
        names = (worker.participant_id for worker in workers)
        check.unique(names, "duplicate topology participant_id")
        check.unique((worker.rank for worker in workers), "duplicate topology parallel rank")
        for worker in workers:
            self._check_rank(worker)
        self._identify()

    def _check_rank(self, worker: TopologyParticipant) -> None:
        for kind in AXIS_KINDS:
            if getattr(worker.rank, kind) >= self.size(kind):
                raise ValueError(
                    f"{kind} rank is out of range for participant {worker.participant_id}"
                )

    def _identify(self) -> None:
        content = {"schema": "weight-parallel-topology", **asdict(self)}
        del content["topology_id"]
        name = identity(content)
        if self.topology_id not in (None, name):
            raise ValueError("topology_id does not match canonical topology")
        object.__setattr__(self, "topology_id", name)

    def size(self, kind: str) -> int:
        """Return the size of an axis."""
        return getattr(self, f"{kind}_size")

    @property
    def world_size(self) -> int:
        """The number of workers that take part."""
        return len(self.participants)

    def participant(self, participant_id: ParticipantId) -> TopologyParticipant:
        """Return a worker by its name, or raise `ValueError`."""
        for worker in self.participants:
            if worker.participant_id == participant_id:
                return worker
        raise ValueError(f"unknown topology participant: {participant_id}")
