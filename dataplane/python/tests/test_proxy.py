"""The vLLM proxy between instances that are played by small servers."""

import asyncio
import contextlib
import json

import pytest

pytest.importorskip("aiohttp", reason="the proxy needs aiohttp")

from aiohttp import ClientError, web
from aiohttp.test_utils import TestClient, TestServer

from mooncake.vllm_v1_proxy_server import Proxy, parse_args

TRANSFER = {"remote_engine_id": "e", "remote_block_ids": [1, 2]}
PATH = "/v1/chat/completions"


class Instance:
    """A vLLM that keeps what it was asked and answers in pieces."""

    def __init__(self, pieces=(b"{}",), status=200, breaks_off=False):
        self.pieces, self.status, self.breaks_off = pieces, status, breaks_off
        self.asked = []

    async def answer(self, request):
        self.asked.append((request.path, await request.json(), request.headers.copy()))
        response = web.StreamResponse(status=self.status)
        response.content_type = "application/json"
        await response.prepare(request)
        for piece in self.pieces:
            await response.write(piece)
        if self.breaks_off:
            request.transport.abort()
        return response


def prefiller():
    return Instance([json.dumps({"kv_transfer_params": TRANSFER}).encode()])


async def start(stack, instance):
    app = web.Application()
    app.router.add_post("/{path:.*}", instance.answer)
    server = await stack.enter_async_context(TestServer(app))
    return f"127.0.0.1:{server.port}"


def ask(prefillers, decoders, bodies, headers=None, dead=False):
    """Send bodies through a proxy one after the other; return status and bytes of each answer."""

    async def run():
        async with contextlib.AsyncExitStack() as stack:
            names = [[await start(stack, it) for it in side] for side in (prefillers, decoders)]
            if dead:
                names[1] = ["127.0.0.1:1"]
            proxy = TestServer(Proxy(*names).application())
            client = await stack.enter_async_context(TestClient(proxy))
            answers = []
            for body in bodies:
                data = body if isinstance(body, str) else json.dumps(body)
                answer = await client.post(PATH, data=data, headers=headers)
                answers.append((answer.status, await answer.read()))
            return answers

    return asyncio.run(run())


def test_a_completion_is_prefilled_for_one_token_and_decoded_with_the_transfer():
    first, second = prefiller(), Instance([b"data: a\n", b"data: b\n"])
    body = {"model": "m", "stream": True, "stream_options": {}, "max_completion_tokens": 9}
    answers = ask([first], [second], [body], headers={"Authorization": "Bearer mine"})
    assert answers == [(200, b"data: a\ndata: b\n")]
    path, asked, headers = first.asked[0]
    assert path == PATH and asked["max_tokens"] == asked["max_completion_tokens"] == 1
    assert asked["stream"] is False and "stream_options" not in asked
    assert asked["kv_transfer_params"]["do_remote_decode"] is True
    path, asked, others = second.asked[0]
    assert path == PATH and asked == {**body, "kv_transfer_params": TRANSFER}
    assert headers["Authorization"] == others["Authorization"] == "Bearer mine"
    assert headers["X-Request-Id"] == others["X-Request-Id"]


def test_instances_take_turns():
    prefillers, decoders = [prefiller() for _ in range(2)], [Instance() for _ in range(3)]
    ask(prefillers, decoders, [{"prompt": str(number)} for number in range(6)])
    assert [len(it.asked) for it in prefillers] == [3, 3]
    assert [len(it.asked) for it in decoders] == [2, 2, 2]


def test_the_decoders_error_is_passed_on_as_it_is():
    answers = ask([prefiller()], [Instance([b'{"error": "long"}'], status=400)], [{}])
    assert answers == [(400, b'{"error": "long"}')]


def test_an_instance_that_fails_or_is_away_is_named():
    broken = Instance([b"no memory"], status=503)
    ((status, answer),) = ask([broken], [Instance()], [{}])
    assert status == 503 and b"prefiller 127.0.0.1" in answer and b"no memory" in answer
    ((status, answer),) = ask([prefiller()], [], [{}], dead=True)
    assert status == 502 and b"decoder 127.0.0.1:1 does not answer" in answer


def test_an_answer_that_breaks_off_does_not_look_whole():
    with pytest.raises(ClientError):
        ask([prefiller()], [Instance([b"part"], breaks_off=True)], [{}])


@pytest.mark.parametrize("body", ["nope", "[]"])
def test_bodies_that_are_no_object_are_refused(body):
    first = prefiller()
    assert ask([first], [Instance()], [body])[0][0] == 400
    assert first.asked == []


def test_health_counts_the_instances():
    async def run():
        proxy = Proxy(["a:1", "b:2"], ["c:3"])
        async with TestClient(TestServer(proxy.application())) as client:
            return await (await client.get("/healthcheck")).json()

    answer = asyncio.run(run())
    assert answer == {"status": "ok", "prefill_instances": 2, "decode_instances": 1}


def test_arguments_pair_hosts_and_ports(capsys):
    assert (parse_args([]).prefillers, parse_args([]).decoders) == (
        ["localhost:8100"],
        ["localhost:8200"],
    )
    options = parse_args("--prefiller-hosts a ::1 --prefiller-ports 1 2 --decoder-port 3".split())
    assert options.prefillers == ["a:1", "[::1]:2"] and options.decoders == ["localhost:3"]
    with pytest.raises(SystemExit):
        parse_args(["--decoder-hosts", "a", "b"])
    assert "--decoder-hosts and --decoder-ports" in capsys.readouterr().err
