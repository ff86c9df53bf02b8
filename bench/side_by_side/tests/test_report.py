"""Facts about the table: medians, ratios, verdicts, and that no fault is hidden."""

from bench.side_by_side import report

RUN = {
    "section": "run",
    "environment": {"base": {}, "new": {}, "tcp": {"PERIGEE_SHARED_MEMORY": "0"}},
    "rounds": 1,
    "kernel": "6",
    "cpu": "x",
    "cores": 2,
    "congestion_control_of_host": "cubic",
}


def bulk(label, gb_per_s, clients=1, size=1 << 20, **more):
    row = {"section": "bulk", "label": label, "round": 0, "operation": "batch_get_into", "clients": clients}
    row |= {"size": size, "batch": 16, "gb_per_s": gb_per_s, "errors": 0, "corrupt": 0}
    return {**row, **more}


def lines_with(text, *words):
    return [line for line in text.splitlines() if all(word in line for word in words)]


def test_ratio_is_that_of_the_medians_over_rounds():
    rows = [RUN, *(bulk("base", rate) for rate in (1, 2, 9)), *(bulk("new", rate) for rate in (8, 7, 100))]
    [line] = lines_with(report.render(rows), "| gb_per_s |")
    assert "2 (1..9)" in line
    assert "| 4.00 | >= 3x met |" in line


def test_goal_over_tcp_depends_on_the_number_of_clients():
    rows = [RUN]
    for clients in (1, 4):
        rows += [bulk("base", 1, clients), bulk("tcp", 2.5, clients)]
    one, four = lines_with(report.render(rows), "| gb_per_s |")
    assert ">= 2x met" in one
    assert ">= 3x MISSED" in four


def test_cpu_per_gb_adds_client_owner_and_master():
    cpu = {"moved_gb": 2.0, "cpu_client_s": 1.0, "cpu_provider_s": 0.5, "cpu_master_s": 0.5}
    [line] = lines_with(report.render(with_cpu([RUN, bulk("base", 1, **cpu)])), "cpu_s_per_gb")
    assert line.endswith("| 1 |")


def with_cpu(rows):
    for row in rows:
        report.add_cpu(row)
    return rows


def test_four_clients_slower_than_one_are_named():
    rows = [RUN, bulk("base", 2, 1), bulk("base", 1, 4)]
    [line] = lines_with(report.render(rows), "never slower")
    assert "MISSED in batch_get_into 1 MiB 0.50x" in line


def test_corruption_errors_and_failures_are_listed():
    rows = [RUN, bulk("base", 1, corrupt=3), bulk("new", 1, errors=7)]
    rows.append({"section": "failed", "label": "new", "round": 0, "error": "it ended\ndetails"})
    text = report.render(rows)
    assert "corrupt values: 3; rows with errors: 1; sides that failed: 1" in text
    assert lines_with(text, "7 errors")
    assert lines_with(text, "it ended")


def test_hit_rate_below_the_ideal_by_more_than_the_slack_is_missed():
    replay = {"section": "replay", "round": 0, "block_bytes": 65536, "clients": 2, "gb_per_s": 1}
    rows = [RUN, {**replay, "label": "base", "hit_rate": 0.300, "ideal_lru_hit_rate": 0.301}]
    rows.append({**replay, "label": "new", "hit_rate": 0.290, "ideal_lru_hit_rate": 0.301})
    good, bad = lines_with(report.render(rows), "ideal LRU")
    assert good.endswith("met")
    assert bad.endswith("MISSED")


def test_nothing_measured_is_said_so():
    assert report.render([RUN]) == "no measurements"
