//! A snapshot as metrics. The catalogue decides names, labels and buckets; a test checks that
//! nothing here is refused.

use crate::exemplars::Exemplars;
use crate::histogram::Distribution;
use crate::snapshot::{DiskSeries, NicSeries, Snapshot};
use perigee_activity::SocketCounters;
use perigee_metrics::{HistogramTotals, MetricSource, Samples};
use std::collections::BTreeMap;

/// Where the time of an operation goes after the queue, as the `stage` label has it.
const FLOW_STAGES: [&str; 4] = ["wire", "peer_wait", "peer_copy", "peer_disk"];

/// All samples of a snapshot, with requests that stand for values.
pub(crate) fn samples(snapshot: &Snapshot, exemplars: &Exemplars) -> Samples {
    let mut samples = Samples::new(MetricSource::Agent);
    samples.value("perigee_agent_info", &[&snapshot.version, &snapshot.host], 1);
    samples.value("perigee_agent_processes", &[], snapshot.processes.len());
    samples.value("perigee_agent_collect_seconds", &[], seconds(snapshot.collect_ns));
    snapshot.nics.iter().for_each(|nic| add_nic(&mut samples, nic));
    for program in &snapshot.programs {
        let labels = [program.program.as_str()];
        samples.value("perigee_process_calls_total", &labels, program.calls);
        samples.value("perigee_process_checksum_failures_total", &labels, program.wrong_bytes);
        let unreachable = program.unreachable_owners;
        samples.value("perigee_process_unreachable_owners_total", &labels, unreachable);
    }
    add_flows(&mut samples, snapshot, exemplars);
    add_tcp(&mut samples, snapshot);
    add_links(&mut samples, snapshot);
    add_host(&mut samples, snapshot);
    add_batches(&mut samples, snapshot, exemplars);
    add_probes(&mut samples, snapshot);
    samples
}

fn add_nic(samples: &mut Samples, nic: &NicSeries) {
    let (port, numa) = (nic.port.to_string(), nic.numa.map_or_else(String::new, |n| n.to_string()));
    let labels = [nic.device.as_str(), &port, &numa, &nic.kind];
    samples.value("perigee_nic_receive_bytes_total", &labels, nic.receive_bytes);
    samples.value("perigee_nic_transmit_bytes_total", &labels, nic.transmit_bytes);
    samples.value("perigee_nic_receive_packets_total", &labels, nic.receive_packets);
    samples.value("perigee_nic_transmit_packets_total", &labels, nic.transmit_packets);
    samples.value("perigee_nic_errors_total", &labels, nic.errors);
    samples.value("perigee_nic_drops_total", &labels, nic.drops);
    samples.value("perigee_nic_up", &labels, u8::from(nic.up));
    samples.value("perigee_nic_enabled", &labels, u8::from(nic.enabled));
    if let Some(rate) = nic.link_bytes_per_second {
        samples.value("perigee_nic_link_bytes_per_second", &labels, rate);
    }
    for (event, count) in &nic.hardware {
        let labels = [nic.device.as_str(), &port, event];
        samples.value("perigee_nic_hardware_events_total", &labels, count);
    }
    if let Some([receive, receive_packets, transmit, transmit_packets]) = nic.probed {
        let name = nic.device.as_str();
        samples.value("perigee_probed_bytes_total", &[name, "receive"], receive);
        samples.value("perigee_probed_bytes_total", &[name, "transmit"], transmit);
        samples.value("perigee_probed_packets_total", &[name, "receive"], receive_packets);
        samples.value("perigee_probed_packets_total", &[name, "transmit"], transmit_packets);
    }
    if let Some(drops) = nic.probed_drops {
        samples.value("perigee_probed_drops_total", &[&nic.device], drops);
    }
}

/// Sums over programs and shards for the NIC's view, over NICs for the shard's view.
fn add_flows(samples: &mut Samples, snapshot: &Snapshot, exemplars: &Exemplars) {
    type Numbers = ([u64; 10], Distribution);
    let mut devices: BTreeMap<[&str; 3], Numbers> = BTreeMap::new();
    let mut shards: BTreeMap<[&str; 3], Numbers> = BTreeMap::new();
    for flow in &snapshot.flows {
        let cells = [
            flow.operations,
            flow.bytes,
            flow.errors,
            flow.retries,
            flow.queue_ns,
            flow.depth,
            flow.wire_ns(),
            flow.waited_ns,
            flow.copied_ns,
            flow.disk_ns,
        ];
        let device = [flow.device.as_str(), &flow.route, &flow.direction];
        let shard = [flow.program.as_str(), &flow.shard, &flow.direction];
        for sum in [devices.entry(device).or_default(), shards.entry(shard).or_default()] {
            sum.0
                .iter_mut()
                .zip(cells)
                .for_each(|(cell, more): (&mut u64, u64)| *cell = cell.saturating_add(more));
            sum.1.merge(&flow.latency);
        }
    }
    for (labels, (numbers, latency)) in devices {
        let [operations, bytes, errors, retries, queue_ns, depth, stages @ ..] = numbers;
        samples.value("perigee_flow_operations_total", &labels, operations);
        samples.value("perigee_flow_bytes_total", &labels, bytes);
        samples.value("perigee_flow_errors_total", &labels, errors);
        samples.value("perigee_flow_retries_total", &labels, retries);
        samples.value("perigee_flow_queue_seconds_total", &labels, seconds(queue_ns));
        samples.value("perigee_flow_depth", &labels, depth);
        let exemplars = exemplars.of_flow(labels);
        let totals = HistogramTotals { exemplars, ..latency.finer_totals() };
        samples.histogram("perigee_flow_latency_seconds", &labels, &totals);
        let [device, route, direction] = labels;
        for (stage, spent_ns) in FLOW_STAGES.into_iter().zip(stages) {
            let labels = [device, route, direction, stage];
            samples.value("perigee_flow_stage_seconds_total", &labels, seconds(spent_ns));
        }
    }
    for (labels, (numbers, _)) in shards {
        samples.value("perigee_shard_operations_total", &labels, numbers[0]);
        samples.value("perigee_shard_bytes_total", &labels, numbers[1]);
        samples.value("perigee_shard_depth", &labels, numbers[5]);
    }
}

/// Connections as their sockets tell, and who is slow.
fn add_links(samples: &mut Samples, snapshot: &Snapshot) {
    for link in &snapshot.links {
        let labels = [link.device.as_str(), &link.peer];
        if let Some(round_trip_ns) = link.asked_round_trip_ns {
            let round_trip = seconds(round_trip_ns);
            samples.value("perigee_link_round_trip_seconds", &labels, round_trip);
        }
        samples.value("perigee_link_connections", &labels, link.connections);
        samples.value("perigee_link_retransmits_total", &labels, link.retransmits);
        samples.value(
            "perigee_link_delivery_bytes_per_second",
            &labels,
            link.delivery_bytes_per_second,
        );
        samples.value("perigee_link_peer_seconds_total", &labels, seconds(link.peer_ns));
        add_socket(&mut *samples, labels, &link.socket);
    }
    for suspect in &snapshot.suspects {
        let labels = [suspect.kind.label(), &suspect.name, suspect.cause.label()];
        samples.value("perigee_agent_suspect", &labels, 1);
    }
}

/// What the kernel counted of the connections between a NIC and a peer.
fn add_socket(samples: &mut Samples, labels: [&str; 2], socket: &SocketCounters) {
    for (name, count) in [
        ("perigee_link_sent_segments_total", socket.segments_sent),
        ("perigee_link_received_segments_total", socket.segments_received),
        ("perigee_link_out_of_order_segments_total", socket.out_of_order),
        ("perigee_link_needless_segments_total", socket.needless),
        ("perigee_link_marked_segments_total", socket.marked),
        ("perigee_link_timeouts_total", socket.timeouts),
        ("perigee_link_sent_bytes_total", socket.bytes_sent),
        ("perigee_link_retransmitted_bytes_total", socket.bytes_again),
    ] {
        samples.value(name, &labels, count);
    }
    let busy = seconds(socket.busy_us.saturating_mul(1000));
    samples.value("perigee_link_busy_seconds_total", &labels, busy);
    let limits = [("window", socket.window_limited_us), ("buffer", socket.buffer_limited_us)];
    for (limit, limited_us) in limits {
        let labels = [labels[0], labels[1], limit];
        let limited = seconds(limited_us.saturating_mul(1000));
        samples.value("perigee_link_limited_seconds_total", &labels, limited);
    }
}

fn add_tcp(samples: &mut Samples, snapshot: &Snapshot) {
    for tcp in &snapshot.tcp {
        let device = tcp.device.as_str();
        samples.histogram("perigee_tcp_round_trip_seconds", &[device], &tcp.round_trip.totals());
        samples.value("perigee_tcp_retransmits_total", &[device], tcp.retransmits);
        samples.value("perigee_tcp_resets_total", &[device, "sent"], tcp.resets[0]);
        samples.value("perigee_tcp_resets_total", &[device, "received"], tcp.resets[1]);
    }
    for drop in &snapshot.drops {
        samples.value("perigee_packet_drops_total", &[&drop.reason], drop.packets);
    }
}

fn add_host(samples: &mut Samples, snapshot: &Snapshot) {
    for block in &snapshot.blocks {
        let labels = [block.device.as_str(), &block.direction];
        samples.histogram("perigee_block_queue_seconds", &labels, &block.queue.totals());
        samples.histogram("perigee_block_device_seconds", &labels, &block.device_time.totals());
        samples.value("perigee_block_bytes_total", &labels, block.bytes);
        samples.value("perigee_block_depth", &labels, block.depth);
    }
    snapshot.disks.iter().for_each(|disk| add_disk(samples, disk));
    for uring in &snapshot.urings {
        let latency = uring.latency.totals();
        samples.histogram("perigee_uring_latency_seconds", &[&uring.program], &latency);
    }
    for task in &snapshot.tasks {
        let labels = [task.program.as_str(), &task.thread];
        samples.histogram("perigee_task_run_queue_seconds", &labels, &task.run_queue.totals());
        samples.histogram("perigee_task_off_cpu_seconds", &labels, &task.off_cpu.totals());
        samples.value("perigee_task_threads", &labels, task.threads);
    }
}

/// A disk that keeps objects, as its process shows it.
fn add_disk(samples: &mut Samples, disk: &DiskSeries) {
    let pid = disk.pid.to_string();
    let labels = [disk.program.as_str(), &pid, &disk.path];
    samples.value("perigee_agent_disk_state", &[&disk.program, &pid, &disk.path, &disk.state], 1);
    for (name, value) in [
        ("perigee_agent_disk_capacity_bytes", disk.capacity_bytes),
        ("perigee_agent_disk_used_bytes", disk.used_bytes),
        ("perigee_agent_disk_read_bytes_total", disk.read_bytes),
        ("perigee_agent_disk_written_bytes_total", disk.written_bytes),
        ("perigee_agent_disk_errors_total", disk.errors),
    ] {
        samples.value(name, &labels, value);
    }
}

fn add_batches(samples: &mut Samples, snapshot: &Snapshot, exemplars: &Exemplars) {
    for batch in &snapshot.batches {
        let labels =
            [batch.device.as_str(), &batch.peer, &batch.tenant, &batch.route, &batch.direction];
        let exemplars = exemplars.of_batches(labels);
        let totals = HistogramTotals { exemplars, ..batch.latency.totals() };
        samples.histogram("perigee_batch_latency_seconds", &labels, &totals);
        samples.value("perigee_batch_bytes_total", &labels, batch.bytes);
    }
}

fn add_probes(samples: &mut Samples, snapshot: &Snapshot) {
    for source in snapshot.sources.iter().filter(|source| source.state != "unused") {
        let on = u8::from(source.state != "off");
        samples.value("perigee_probe_on", &[&source.name], on);
    }
    for probe in &snapshot.probes {
        let labels = [probe.probe.as_str(), &probe.program];
        samples.value("perigee_probe_runs_total", &labels, probe.runs);
        samples.value("perigee_probe_run_seconds_total", &labels, seconds(probe.run_ns));
    }
    for (result, count) in &snapshot.exported_spans {
        samples.value("perigee_agent_exported_spans_total", &[result], count);
    }
    for (reason, count) in &snapshot.lost {
        samples.value("perigee_probe_lost_total", &[reason], count);
    }
}

#[expect(clippy::cast_precision_loss, reason = "a shown time needs no more than 53 bits")]
fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}
