"""The REST service over a store in a dictionary, and requests to it."""

import asyncio
import json

from aiohttp.test_utils import TestClient, TestServer
from fake_store import FakeStore

from mooncake.mooncake_config import MooncakeConfig
from mooncake.mooncake_store_service import MooncakeStoreService

CONFIG = {
    "local_hostname": "127.0.0.1",
    "metadata_server": "P2PHANDSHAKE",
    "master_server_address": "127.0.0.1:50051",
    "global_segment_size": "16mb",
}


def make_service(store=None, **settings):
    config = MooncakeConfig.from_mapping(CONFIG | settings)
    return MooncakeStoreService(config, store=store or FakeStore())


def ask(requests, store=None, **settings):
    """Send requests to the service one after the other; return status and body of each."""

    async def run():
        service = make_service(store, **settings)
        async with TestClient(TestServer(service.application())) as client:
            answers = []
            for method, path, body in requests:
                data = body if isinstance(body, (str, bytes)) else json.dumps(body)
                answer = await client.request(method, path, data=None if body is None else data)
                answers.append((answer.status, await answer.read()))
            return answers

    return asyncio.run(run())


def ask_one(method, path, body=None, store=None, **settings):
    """Send one request; return the status and the decoded answer."""
    ((status, answer),) = ask([(method, path, body)], store, **settings)
    return status, json.loads(answer)
