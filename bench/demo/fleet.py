"""The client processes of a run and what they say."""

import json
import os
import selectors
import subprocess
import sys
import time

from bench.demo.cluster import HOST, free_ports
from bench.demo.process import Process, ProcessError
from bench.demo.report import Tally

LOCAL_BUFFER_BYTES = 16 << 20
#: Longest silence of all clients before the demo gives up.
SILENCE_SECONDS = 60
READ_BYTES = 1 << 20
#: Environment that tells clients to leave shared memory alone, or not.
ROUTES = {"auto": {}, "tcp": {"PERIGEE_SHARED_MEMORY": "0"}}


class Member:
    """One client process with the pipe it reports on."""

    def __init__(self, number, environment, log_folder):
        self.reading, writing = os.pipe()
        self.rest = b""
        self.requests_done = 0
        try:
            self.process = Process(
                f"client-{number}",
                [sys.executable, "-m", "bench.demo.client", str(writing)],
                log_folder,
                environment,
                stdin=subprocess.PIPE,
                pass_fds=(writing,),
            )
        finally:
            os.close(writing)

    def send(self, line):
        """One line to its stdin."""
        try:
            self.process.child.stdin.write(line.encode() + b"\n")
            self.process.child.stdin.flush()
        except BrokenPipeError:
            self.process.child.wait()
            self.process.check_running()

    def receive(self):
        """Messages that are there; None when it has closed its pipe."""
        data = os.read(self.reading, READ_BYTES)
        if not data:
            return None
        *lines, self.rest = (self.rest + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def stop(self):
        """Waits for its end; returns a complaint or None."""
        self.process.child.stdin.close()
        try:
            self.process.child.wait(SILENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.stop()
            return f"{self.process.name} did not end by itself"
        return self.process.stop()


class Fleet:
    """All clients of a run; each serves every n-th request."""

    def __init__(self, master_address, options, requests, log_folder):
        self.members = []
        self.tally = Tally()
        self.wall_seconds = 0.0
        try:
            for number, port in enumerate(free_ports(options.clients)):
                member = Member(number + 1, ROUTES[options.route], log_folder)
                self.members.append(member)
                setup = (f"{HOST}:{port}", "P2PHANDSHAKE", 0, LOCAL_BUFFER_BYTES, "tcp", "", master_address)
                share = requests[number :: options.clients]
                plan = {"setup": setup, "block_bytes": options.block_bytes, "requests": share}
                member.send(json.dumps(plan))
        except BaseException:
            self.kill()
            raise

    def messages(self, until):
        """Pairs of member and message, until each member has sent one with the field `until`."""
        with selectors.DefaultSelector() as pipes:
            for member in self.members:
                pipes.register(member.reading, selectors.EVENT_READ, member)
            while pipes.get_map():
                ready = pipes.select(SILENCE_SECONDS)
                if not ready:
                    names = ", ".join(key.data.process.name for key in pipes.get_map().values())
                    raise ProcessError(f"{names} said nothing for {SILENCE_SECONDS} s")
                for key, _ in ready:
                    for message in self.checked(key.data):
                        if until in message:
                            pipes.unregister(key.fd)
                        yield key.data, message

    @staticmethod
    def checked(member):
        """What a member has said; ProcessError if it failed or went away."""
        messages = member.receive()
        if messages is None:
            member.process.child.wait(SILENCE_SECONDS)
            member.process.check_running()
        for message in messages:
            if "error" in message:
                process = member.process
                raise ProcessError(f"{process.name}: {message['error']}, see {process.log_path}")
        return messages

    def run(self, progress):
        """Serves the workload; returns when all have reported."""
        for _ in self.messages("ready"):
            pass
        started = time.monotonic()
        for member in self.members:
            member.send("")
        for member, message in self.messages("tally"):
            if "tally" in message:
                self.tally.add(message["tally"])
                member.requests_done = message["tally"]["requests"]
            else:
                member.requests_done = message["done"]
            progress.update(sum(member.requests_done for member in self.members))
        self.wall_seconds = time.monotonic() - started

    def stop(self):
        """Waits for their end; returns the complaints."""
        return [complaint for complaint in (member.stop() for member in self.members) if complaint]

    def kill(self):
        """Ends them at once."""
        for member in self.members:
            member.process.kill()
