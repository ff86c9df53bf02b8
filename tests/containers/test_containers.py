"""What people deploy, in containers as they are in the field: each part works, or says in one sentence what it lacks."""

from __future__ import annotations

import json

from pod import LIMITS

METADATA = "http://master:8080/metadata"
PAGES = 48


def test_the_profile_refuses_io_uring(pods):
    refused = pods.start("prefill", "python3", "/drivers/refused.py").ends()
    assert refused == "io_uring_setup EPERM"
    free = [word for word in LIMITS if not word.startswith("seccomp=")]
    free.insert(free.index("--security-opt") + 1, "seccomp=unconfined")
    assert pods.start("prefill", "python3", "/drivers/refused.py", limits=free).ends() == "io_uring_setup EFAULT"


def drive(pods, role, pod, lent):
    """The store's driver in a pod, under the pod's address; keys are those of the lent bytes."""
    arguments = ["master:50051", METADATA, lent, pods.addresses[pod], f"model-{lent}"]
    return pods.start(pod, "python3", "/drivers/store.py", role, *arguments)


def test_a_node_serves_sglangs_and_vllms_calls_across_pods(pods, node):
    writer = drive(pods, "write", "prefill", 0)
    assert writer.says("written") == str(PAGES)
    assert f"read {PAGES}" in drive(pods, "read", "decode", 0).ends()
    assert writer.stop() == 0


def test_an_engine_that_lends_its_own_memory_serves_other_pods(pods, master):
    writer = drive(pods, "write", "prefill", 64 << 20)
    assert writer.says("written") == str(PAGES)
    assert f"read {PAGES}" in drive(pods, "read", "decode", 64 << 20).ends()
    assert writer.stop() == 0


def test_the_store_service_puts_and_gets_over_rest(pods, master):
    settings = {
        "local_hostname": pods.addresses["service"], "metadata_server": METADATA, "global_segment_size": 64 << 20,
        "local_buffer_size": 16 << 20, "protocol": "tcp", "device_name": "", "master_server_address": "master:50051",
    }
    write = f"cat > /tmp/service.json <<'END'\n{json.dumps(settings)}\nEND\n"
    service = pods.start(
        "service", "sh", "-c", f"{write}exec python3 -m mooncake.mooncake_store_service --config /tmp/service.json --port 8081"
    )
    body = json.dumps({"key": "by-rest", "value": "moved"})
    pods.answers(service, "service", 8081, "/api/put", method="PUT", body=body)
    assert pods.fetch("service", 8081, "/api/get/by-rest") == "moved"
    assert service.stop() == 0


def test_engines_of_two_pods_move_blocks(pods):
    decode = pods.start("decode", "python3", "/drivers/engine.py", "decode", pods.addresses["decode"])
    session, address = decode.says("session").split()
    prefill = pods.start("prefill", "python3", "/drivers/engine.py", "prefill", pods.addresses["prefill"], session, address)
    assert "sent 32" in prefill.ends()
    assert "received 32" in decode.ends()


def test_status_and_doctor_say_where_they_are(pods, node):
    status = pods.start("decode", "perigee", "status", "master:50051").ends()
    assert pods.addresses["node"] in status, status
    doctor = pods.start("decode", "sh", "-c", "perigee doctor; [ $? -ne 1 ]").ends()
    assert "io_uring" in doctor and "seccomp" in doctor, doctor


def test_the_agent_without_rights_serves_what_needs_none(pods):
    explained = pods.start("decode", "perigee", "agent", "--explain", "--format=json").ends()
    states = {row["name"]: row["state"] for row in json.loads(explained)}
    assert states["interfaces"] == "on" and states["drops"] == "off", states


def test_master_and_node_end_at_sigterm(pods, master, node):
    assert node.stop() == 0
    assert master.stop() == 0
