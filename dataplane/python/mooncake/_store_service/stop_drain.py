"""What becomes of the objects of a store that stops: they go to other stores, or to its own disks."""

from __future__ import annotations

import asyncio
import logging
import time
from asyncio.subprocess import PIPE, STDOUT
from dataclasses import dataclass

from perigee_mooncake.program import program_path

logger = logging.getLogger("mooncake.store_service")

# What `perigee drain` may take beside its time.
DRAIN_GRACE_S = 5.0


@dataclass(frozen=True)
class StopDrain:
    """How a stop moves the objects here to other stores first, and then to disks."""

    seconds: float
    master_metrics_port: int
    # Whether the time was asked for: then all of it is used, and by SIGINT, too.
    is_asked: bool = True

    async def run(self, master: str, store) -> None:
        """Move the objects of `store` within the time; the log says what became of them."""
        until = time.monotonic() + self.seconds
        has_disks = await asyncio.to_thread(store.has_disks)
        left = await self._move(master, store.get_hostname(), has_disks)
        if not has_disks:
            if left is not None:
                level = logging.ERROR if self.is_asked else logging.WARNING
                logger.log(level, "Objects are dropped with this store: %s", left)
            return
        if left is not None:
            logger.info("Objects here go to the disks of this store: %s", left)
        # Also after a drain that has moved all: what the master knows nothing of may lie here all the same.
        seconds = max(0.0, until - time.monotonic())
        _report(await asyncio.to_thread(store.save_to_disks, seconds))

    async def _move(self, master: str, segment: str, has_disks: bool) -> str | None:
        """Run `perigee drain`; return why objects are left, or None."""
        # Disks have the other half, and with them it need not be found out slowly that no store takes objects.
        seconds = self.seconds / 2 if has_disks else self.seconds
        words = [f"--master={master}", f"--metrics_port={self.master_metrics_port}"]
        words += [f"--segment={segment}", f"--timeout={max(1, round(seconds * 1000))}ms"]
        # A canceled job would let puts come back to a store that is about to end.
        words += ["--cancel=false"] if self.is_asked and not has_disks else ["--cancel=false", "--quick"]
        logger.info("Moving objects to other stores, %g s at most", seconds)
        try:
            drain = await asyncio.create_subprocess_exec(
                program_path(), "drain", *words, stdout=PIPE, stderr=STDOUT
            )
        except OSError as error:
            return f"perigee drain: {error}"
        try:
            said, _ = await asyncio.wait_for(drain.communicate(), seconds + DRAIN_GRACE_S)
        except asyncio.TimeoutError:
            drain.kill()
            await drain.wait()
            said = b"perigee drain did not end"
        text = said.decode(errors="replace").strip()
        if drain.returncode != 0:
            return text
        logger.info("%s", text)
        return None


def _report(saved: dict | None) -> None:
    """Log what disks were given."""
    if saved is None:
        logger.warning("No disk is open: objects are dropped with this store")
    elif saved["is_all"]:
        logger.info(
            "What memory alone had is on the disks, as far as their budgets allow: %d objects of %d bytes",
            saved["objects"],
            saved["bytes"],
        )
    else:
        logger.warning(
            "What the disks did not take in time is dropped with this store: %d objects are written, %d failed, %d are left",
            saved["objects"],
            saved["failed"],
            saved["left"],
        )
