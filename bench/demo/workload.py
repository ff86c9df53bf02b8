"""A multi-turn chat workload: sessions share system prompts, each turn repeats the history before it.

The prompt of turn t is: system prompt, then question and answer of each turn before, then the new
question. So consecutive turns of a session share a prefix, and sessions with one system prompt share
that. Lengths are in blocks (512 tokens each). Equal seeds give equal workloads.
"""

import dataclasses
import heapq
import random


@dataclasses.dataclass(frozen=True)
class Shape:
    """Statistics that the generator aims at."""

    requests: int
    seed: int = 1
    #: Sessions open at any time.
    sessions_open: int = 40
    #: Mean turns per session; lengths follow a geometric distribution.
    turns_mean: float = 5.0
    #: Distinct system prompts; the k-th is chosen with weight 1/k.
    system_prompts: int = 8
    system_blocks: tuple = (2, 12)
    #: New blocks of one turn: question, and the answer that the next turn repeats.
    question_blocks: tuple = (1, 6)
    answer_blocks: tuple = (1, 3)
    #: A session ends when its prompt would pass this many blocks.
    context_blocks_max: int = 128


class Generator:
    """Makes the requests of one shape."""

    def __init__(self, shape):
        self.shape = shape
        self.random = random.Random(shape.seed)
        self.next_block = 0
        self.prompts = [self.fresh(shape.system_blocks) for _ in range(shape.system_prompts)]
        self.weights = [1 / rank for rank in range(1, shape.system_prompts + 1)]

    def fresh(self, span):
        """New block numbers, as many as a number drawn from `span`."""
        count = self.random.randint(*span)
        first, self.next_block = self.next_block, self.next_block + count
        return list(range(first, self.next_block))

    def requests(self):
        """All requests in order of arrival: lists of block numbers."""
        shape, chosen = self.shape, self.random
        # Entries: (time of the next turn, tie breaker, history). Think times are exponential.
        waiting = []
        for session in range(shape.sessions_open):
            heapq.heappush(waiting, (chosen.random(), session, self.open_session()))
        made = []
        while len(made) < shape.requests:
            now, session, history = heapq.heappop(waiting)
            prompt = history + self.fresh(shape.question_blocks)
            made.append(prompt)
            history = prompt + self.fresh(shape.answer_blocks)
            longest = len(history) + shape.question_blocks[1]
            ends = chosen.random() < 1 / shape.turns_mean or longest > shape.context_blocks_max
            if ends:
                history = self.open_session()
            heapq.heappush(waiting, (now + chosen.expovariate(1.0), session, history))
        return made

    def open_session(self):
        """History of a new session: its system prompt."""
        return list(self.random.choices(self.prompts, self.weights)[0])


def generate(shape):
    """The requests of `shape`."""
    return Generator(shape).requests()


def describe(requests):
    """One line on what a list of requests holds."""
    lengths = sorted(map(len, requests))
    distinct = len({block for request in requests for block in request})
    return (
        f"{len(requests)} requests, {sum(lengths)} blocks of which {distinct} distinct, "
        f"{lengths[len(lengths) // 2]} blocks in the median request, {lengths[-1]} in the longest"
    )
