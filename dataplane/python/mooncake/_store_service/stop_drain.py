"""A drain before the end: objects go to other stores first."""

from __future__ import annotations

import asyncio
import logging
from asyncio.subprocess import PIPE, STDOUT
from dataclasses import dataclass

from perigee_mooncake.program import program_path

logger = logging.getLogger("mooncake.store_service")

# What `perigee drain` may take beside its time.
DRAIN_GRACE_S = 5.0


@dataclass(frozen=True)
class StopDrain:
    """How a stop moves the objects here to other stores first."""

    seconds: float
    master_metrics_port: int
    # Whether the time was asked for: then all of it is used, and by SIGINT, too.
    is_asked: bool = True

    async def run(self, master: str, segment: str) -> bool:
        """Run `perigee drain` within the time; False if objects are left, which the log says."""
        words = [f"--master={master}", f"--metrics_port={self.master_metrics_port}"]
        words += [f"--segment={segment}", f"--timeout={max(1, round(self.seconds * 1000))}ms"]
        words += [] if self.is_asked else ["--quick"]
        logger.info("Moving objects to other stores, %g s at most", self.seconds)
        try:
            drain = await asyncio.create_subprocess_exec(
                program_path(), "drain", *words, stdout=PIPE, stderr=STDOUT
            )
        except OSError as error:
            logger.error("Objects are dropped with this store: perigee drain: %s", error)
            return False
        try:
            limit = self.seconds + DRAIN_GRACE_S
            said, _ = await asyncio.wait_for(drain.communicate(), limit)
        except asyncio.TimeoutError:
            drain.kill()
            await drain.wait()
            said = b"perigee drain did not end"
        text = said.decode(errors="replace").strip()
        if drain.returncode == 0:
            logger.info("%s", text)
            return True
        level = logging.ERROR if self.is_asked else logging.WARNING
        logger.log(level, "Objects are dropped with this store: %s", text)
        return False
