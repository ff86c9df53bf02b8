//! From merged settings to [`MasterConfig`]. Invariant: rules between several settings live here
//! and nowhere else; rules about one setting live in the table.

use super::events::event_settings;
use super::interface::ipv4_of_interface;
use super::quotas::quota_file;
use super::shared::shared_directory;
use super::table::RPC_SHARDS_MAX;
use super::{
    AllocationStrategy, EvictionConfig, LeaseConfig, Listen, MasterConfig, MetadataCleanup,
    RpcConfig, TaskConfig, WriteConfig,
};
use perigee_flags::{FlagError, LogSettings, Origin, Settings};
use perigee_master::{HeatSettings, OffloadSettings, PolicyName, PromotionSettings};

/// Cores behind one shard when the number of shards is left to the program.
const CORES_PER_SHARD: usize = 4;
/// Queue pairs of a client that died are taken down within half of this.
const SAFE_RELEASE_TIMEOUT_MS: u64 = 20_000;
/// Least part of an SSD that may be written within a day, unless there is no bound.
const DRIVE_WRITES_MIN: f64 = 0.001;
/// Most reads that are counted before an object is promoted.
const PROMOTION_THRESHOLD_MAX: u64 = u8::MAX as u64;

pub(super) fn master_config(settings: &Settings) -> Result<MasterConfig, FlagError> {
    let mut warnings = settings.warnings().to_vec();
    let metadata = metadata(settings, &mut warnings);
    Ok(MasterConfig {
        rpc: rpc_config(settings, &mut warnings)?,
        http: listen(settings, "metrics_host", "metrics_port"),
        metadata_cleanup: metadata_cleanup(settings, metadata.is_some(), &mut warnings),
        metadata,
        metadata_cluster: settings.text("metadata_cluster_id").to_owned(),
        report_metrics: settings.bool("enable_metric_reporting"),
        leases: lease_config(settings)?,
        eviction: eviction(settings, &mut warnings),
        offload: offload(settings, &mut warnings)?,
        shared: shared_directory(settings, &mut warnings)?,
        promotion: promotion(settings, &mut warnings),
        repairs: settings.bool("replica_repair"),
        heat: heat(settings, &mut warnings),
        writes: write_config(settings, &mut warnings),
        tasks: task_config(settings),
        client_ttl_ms: seconds_as_ms(settings, "client_ttl"),
        allocation: allocation(settings, &mut warnings)?,
        quota_file: quota_file(settings, &mut warnings)?,
        events: event_settings(settings, &mut warnings)?,
        log: LogSettings::from_settings(settings),
        changed: settings.changed(),
        warnings,
    })
}

/// Where the metadata service listens: it runs if it is switched on, or if the command line gives
/// its host or port and does not switch it off. Files often list both beside a service that is off.
fn metadata(settings: &Settings, warnings: &mut Vec<String>) -> Option<Listen> {
    const SWITCH: &str = "enable_http_metadata_server";
    const HOST: &str = "http_metadata_server_host";
    const PORT: &str = "http_metadata_server_port";
    let on_command_line = |name| *settings.origin(name) == Origin::CommandLine;
    let is_meant = !settings.is_given(SWITCH) && [HOST, PORT].into_iter().any(on_command_line);
    if settings.bool(SWITCH) || is_meant {
        return Some(listen(settings, HOST, PORT));
    }
    let is_meant_for_it =
        |name| !matches!(*settings.origin(name), Origin::Default | Origin::File(_));
    for name in [HOST, PORT].into_iter().filter(|name| is_meant_for_it(name)) {
        warnings.push(format!(
            "Setting `{name}` has no effect without {SWITCH}: the metadata service is off"
        ));
    }
    None
}

fn eviction(settings: &Settings, warnings: &mut Vec<String>) -> EvictionConfig {
    const WATERMARK: &str = "eviction_high_watermark_ratio";
    let high_watermark_ratio = settings.number(WATERMARK);
    if high_watermark_ratio == 0.0 {
        warnings.push(format!(
            "Setting `{WATERMARK}` is 0: each object is evicted as soon as its lease ends"
        ));
    }
    EvictionConfig {
        ratio: settings.number("eviction_ratio"),
        high_watermark_ratio,
        allow_soft_pinned: settings.bool("allow_evict_soft_pinned_objects"),
        policy: PolicyName::from_word(settings.text("eviction_policy")).unwrap_or_default(),
    }
}

/// Objects go to SSDs only with `enable_offload` or a shared directory; what else is said about
/// them is idle otherwise.
fn offload(
    settings: &Settings,
    warnings: &mut Vec<String>,
) -> Result<Option<OffloadSettings>, FlagError> {
    const SWITCH: &str = "enable_offload";
    let drive_writes_per_day = drive_writes(settings)?;
    if goes_to_disks(settings) {
        return Ok(Some(OffloadSettings {
            on_evict: settings.bool("offload_on_evict"),
            force_evict: settings.bool("offload_force_evict"),
            queue_limit: settings.integer("offloading_queue_limit"),
            cap_ratio: settings.number("offload_cap_ratio"),
            drive_writes_per_day,
        }));
    }
    let others = [
        "offload_on_evict",
        "offload_force_evict",
        "offloading_queue_limit",
        "offload_cap_ratio",
        "offload_drive_writes_per_day",
    ];
    for name in others.into_iter().filter(|name| settings.is_given(name)) {
        warnings
            .push(format!("Setting `{name}` has no effect without {SWITCH}: nothing goes to SSDs"));
    }
    Ok(None)
}

/// So little that hardly an object is written ever is no budget that is meant.
fn drive_writes(settings: &Settings) -> Result<f64, FlagError> {
    const BUDGET: &str = "offload_drive_writes_per_day";
    let per_day = settings.number(BUDGET);
    match per_day > 0.0 && per_day < DRIVE_WRITES_MIN {
        true => Err(settings.refusal(
            BUDGET,
            format!("0 for no bound, or a number from {DRIVE_WRITES_MIN} to 1000000"),
        )),
        false => Ok(per_day),
    }
}

fn goes_to_disks(settings: &Settings) -> bool {
    settings.bool("enable_offload") || !settings.text("root_fs_dir").trim().is_empty()
}

/// Objects come back from SSDs only with `promotion_on_hit` or `promotion_on_exist`.
fn promotion(settings: &Settings, warnings: &mut Vec<String>) -> Option<PromotionSettings> {
    const ON_HIT: &str = "promotion_on_hit";
    const ON_EXIST: &str = "promotion_on_exist";
    const THRESHOLD: &str = "promotion_admission_threshold";
    const LIMIT: &str = "promotion_queue_limit";
    let (on_hit, on_exist) = (settings.bool(ON_HIT), settings.bool(ON_EXIST));
    for switch in [ON_HIT, ON_EXIST] {
        if settings.bool(switch) && !goes_to_disks(settings) {
            warnings.push(format!(
                "Setting `{switch}` has no effect without enable_offload: nothing goes to SSDs"
            ));
        }
    }
    if !on_hit && settings.is_given(THRESHOLD) {
        warnings.push(format!("Setting `{THRESHOLD}` has no effect without {ON_HIT}"));
    }
    if !on_hit && !on_exist {
        if settings.is_given(LIMIT) {
            let needed = format!("{ON_HIT} or {ON_EXIST}");
            warnings.push(format!("Setting `{LIMIT}` has no effect without {needed}"));
        }
        return None;
    }
    Some(PromotionSettings {
        threshold: on_hit.then(|| promotion_threshold(settings, warnings)),
        on_exist,
        queue_limit: settings.integer(LIMIT),
    })
}

/// As with Mooncake a number that is out of range stands for the nearest one that is not.
fn promotion_threshold(settings: &Settings, warnings: &mut Vec<String>) -> u8 {
    const THRESHOLD: &str = "promotion_admission_threshold";
    let given: u64 = settings.integer(THRESHOLD);
    let counted = given.clamp(1, PROMOTION_THRESHOLD_MAX);
    if counted != given {
        warnings.push(format!(
            "Setting `{THRESHOLD}` is {given} and taken as {counted}: 1 to {PROMOTION_THRESHOLD_MAX} reads \
             are counted"
        ));
    }
    counted as u8
}

/// Reads are counted only if `dynamic_replication_mode` says so.
fn heat(settings: &Settings, warnings: &mut Vec<String>) -> Option<HeatSettings> {
    const MODE: &str = "dynamic_replication_mode";
    const WINDOW: &str = "dynamic_replication_heat_window_seconds";
    const THRESHOLD: &str = "dynamic_replication_admission_qps_threshold";
    const MOST: &str = "dynamic_replication_max_memory_replicas";
    let mode = settings.text(MODE);
    if mode == "off" {
        for name in [WINDOW, THRESHOLD, MOST].into_iter().filter(|name| settings.is_given(name)) {
            warnings.push(format!("Setting `{name}` has no effect while {MODE} is off"));
        }
        return None;
    }
    let window_seconds: u32 = settings.integer(WINDOW);
    let reads = settings.number(THRESHOLD) * f64::from(window_seconds);
    Some(HeatSettings {
        enforce: mode == "enforce",
        window_ms: window_seconds * 1000,
        reads_needed: (reads.ceil() as u32).max(1),
        replicas_max: settings.integer(MOST),
    })
}

fn write_config(settings: &Settings, warnings: &mut Vec<String>) -> WriteConfig {
    let release_timeout_ms = seconds_as_ms(settings, "put_start_release_timeout_sec");
    if release_timeout_ms < SAFE_RELEASE_TIMEOUT_MS {
        warnings.push(format!(
            "Setting `put_start_release_timeout_sec` is below {}: with protocol rdma, late writes of a \
             client that died may spoil other objects, which then read as missing",
            SAFE_RELEASE_TIMEOUT_MS / 1000
        ));
    }
    WriteConfig {
        discard_timeout_ms: seconds_as_ms(settings, "put_start_discard_timeout_sec"),
        release_timeout_ms,
    }
}

fn task_config(settings: &Settings) -> TaskConfig {
    let most = |name: &str| settings.integer::<u32>(name) as usize;
    let timeout_ms = |name: &str| Some(seconds_as_ms(settings, name)).filter(|it| *it > 0);
    TaskConfig {
        pending_max: most("max_total_pending_tasks"),
        processing_max: most("max_total_processing_tasks"),
        finished_max: most("max_total_finished_tasks"),
        pending_timeout_ms: timeout_ms("pending_task_timeout_sec"),
        processing_timeout_ms: timeout_ms("processing_task_timeout_sec"),
        retries_max: settings.integer("max_retry_attempts"),
    }
}

/// Seconds of a flag as milliseconds; the table keeps them far below overflow.
fn seconds_as_ms(settings: &Settings, name: &str) -> u64 {
    settings.integer::<u64>(name) * 1000
}

fn listen(settings: &Settings, host: &str, port: &str) -> Listen {
    Listen { host: settings.text(host).to_owned(), port: settings.integer(port) }
}

fn rpc_config(settings: &Settings, warnings: &mut Vec<String>) -> Result<RpcConfig, FlagError> {
    let host = match settings.optional_text("rpc_interface") {
        Some(interface) => ipv4_of_interface(interface)?.to_string(),
        None => settings.text("rpc_address").to_owned(),
    };
    let port = match settings.integer("rpc_port") {
        0 => settings.integer("port"),
        port => port,
    };
    let idle_timeout_ms = seconds_as_ms(settings, "rpc_conn_timeout_seconds");
    Ok(RpcConfig {
        listen: Listen { host, port },
        shards: rpc_shards(settings, warnings),
        idle_timeout_ms: Some(idle_timeout_ms).filter(|timeout_ms| *timeout_ms > 0),
        verify_segments: settings.bool("verify_segments"),
    })
}

/// Shards: our own flag, else Mooncake's thread number but at most the cores, else a quarter of the
/// cores.
fn rpc_shards(settings: &Settings, warnings: &mut Vec<String>) -> usize {
    let max = usize::try_from(RPC_SHARDS_MAX).unwrap_or(1);
    let own: usize = settings.integer("rpc_shards");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let wished: usize = settings.integer("rpc_thread_num");
    let threads = wished.min(cores);
    if threads < wished && own == 0 {
        warnings.push(format!(
            "Setting `rpc_thread_num` is {wished}, this host has {cores} cores: {} executors are used, because more only \
             take turns; rpc_shards sets a number in spite of that",
            threads.min(max)
        ));
    }
    let threads_max: usize = settings.integer("max_threads");
    let automatic = (cores / CORES_PER_SHARD).min(threads_max);
    [own, threads, automatic].into_iter().find(|shards| *shards > 0).unwrap_or(1).min(max)
}

fn lease_config(settings: &Settings) -> Result<LeaseConfig, FlagError> {
    let leases = LeaseConfig {
        read_ttl_ms: settings.integer("default_kv_lease_ttl"),
        soft_pin_ttl_ms: settings.integer("default_kv_soft_pin_ttl"),
        soft_pin_ttl_ms_max: settings.integer("max_kv_soft_pin_ttl"),
    };
    if leases.soft_pin_ttl_ms > leases.soft_pin_ttl_ms_max {
        return Err(FlagError::Conflict(format!(
            "Setting `default_kv_soft_pin_ttl` ({} ms) is above `max_kv_soft_pin_ttl` ({} ms); \
             raise the second or lower the first",
            leases.soft_pin_ttl_ms, leases.soft_pin_ttl_ms_max
        )));
    }
    Ok(leases)
}

fn allocation(
    settings: &Settings,
    warnings: &mut Vec<String>,
) -> Result<AllocationStrategy, FlagError> {
    if settings.text("memory_allocator") == "cachelib" {
        warnings.push(
            "Setting `memory_allocator` is cachelib; the offset allocator is used, it wastes no \
             space on slabs"
                .to_owned(),
        );
    }
    match settings.text("allocation_strategy") {
        "free_ratio_first" => Ok(AllocationStrategy::FreeRatioFirst),
        "local_first" => Ok(AllocationStrategy::LocalFirst),
        "ssd_free_ratio_first" => {
            warnings.push(
                "Setting `allocation_strategy` is ssd_free_ratio_first; objects go to \
                 memory first and to the SSD of its owner from there, so free_ratio_first is used"
                    .to_owned(),
            );
            Ok(AllocationStrategy::FreeRatioFirst)
        }
        "cxl" => Err(FlagError::Conflict(
            "Setting `allocation_strategy` cannot be cxl: CXL memory is not built yet; use \
             random, free_ratio_first or local_first"
                .to_owned(),
        )),
        _ => Ok(AllocationStrategy::Random),
    }
}

fn metadata_cleanup(
    settings: &Settings,
    embedded: bool,
    warnings: &mut Vec<String>,
) -> MetadataCleanup {
    let url = settings.text("metadata_server");
    match settings.bool("enable_metadata_cleanup_on_timeout") {
        false => MetadataCleanup::Off,
        true if embedded => MetadataCleanup::Embedded,
        true if url.starts_with("http://") => MetadataCleanup::Remote(url.to_owned()),
        true => {
            warnings.push(
                "Setting `enable_metadata_cleanup_on_timeout` has nothing to clean: switch on \
                 enable_http_metadata_server or give metadata_server (also read from \
                 MOONCAKE_TE_META_DATA_SERVER) as an http:// URL"
                    .to_owned(),
            );
            MetadataCleanup::Off
        }
    }
}
