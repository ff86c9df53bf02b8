//! Settings of `perigee bench policy`. Invariant: each pool and policy is named in a form that the
//! error for a bad one shows.

use perigee_flags::{Flag, Program, Settings, ValueKind};
use perigee_master::PolicyName;

use crate::error::BenchError;
use crate::limits::{ITERATIONS_MAX, POOL_BLOCKS_MAX};

/// The word for the order that knows the future.
pub(super) const BELADY: &str = "belady";
/// Requests that are made up if there is no trace and no number.
const REQUESTS_MADE: usize = 6_000;

const FLAGS: &[Flag] = &[
    Flag::new(
        "trace",
        ValueKind::Text,
        "",
        "JSONL file, one request per line; empty makes conversations up",
    ),
    Flag::new("requests", ValueKind::Int64, "0", "Requests to play; 0 is all")
        .within(0, ITERATIONS_MAX),
    Flag::new(
        "pools",
        ValueKind::Text,
        "5%,10%,20%",
        "Sizes of the pool, with commas: blocks, or a part of all different blocks",
    ),
    Flag::new(
        "policies",
        ValueKind::Text,
        "lru,adaptive,belady",
        "lru, adaptive, belady (which knows the future), with commas",
    ),
    Flag::new(
        "watermark",
        ValueKind::Double,
        "1",
        "Used part of the pool above which it is evicted ahead of puts, as the master's \
         eviction_high_watermark_ratio",
    )
    .within_number(0.05, 1.0),
    Flag::new(
        "ssd",
        ValueKind::Text,
        "0",
        "Blocks on a disk behind the memory, or a part of all different ones; 0 is no disk",
    ),
    Flag::new("block_tokens", ValueKind::Int64, "512", "Tokens of a block").within(1, 1 << 20),
    Flag::new("token_bytes", ValueKind::SizeBytes, "128KiB", "Bytes of the KV cache of a token")
        .within(1, 1 << 30),
    Flag::new("seed", ValueKind::Int64, "5", "Seed of made-up conversations")
        .within(1, i64::MAX as i128),
];

/// The command as its settings see it.
pub(super) const PROGRAM: Program = Program {
    name: "perigee bench policy",
    version: env!("CARGO_PKG_VERSION"),
    summary: "hit rates of eviction policies for a request trace",
    variable_prefix: "PERIGEE_BENCH_POLICY_",
    words: &[],
    tables: &[("Policy", FLAGS), ("Output", crate::settings::OUTPUT)],
};

/// Examples of the help text.
pub(super) const EXAMPLES: &[&str] = &[
    "perigee bench policy --trace conversation_trace.jsonl",
    "perigee bench policy --trace t.jsonl --requests 6000 --pools 4096,16384",
    "perigee bench policy --trace t.jsonl --watermark 0.9 --policies lru,adaptive",
    "perigee bench policy --trace t.jsonl --pools 6000 --ssd 60000",
];

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum PoolSize {
    /// So many blocks.
    Blocks(u64),
    /// A part of all different blocks of the trace.
    Part(f64),
}

impl PoolSize {
    fn of(word: &str) -> Option<Self> {
        if let Some(percent) = word.strip_suffix('%') {
            let percent: f64 = percent.parse().ok()?;
            return (percent > 0.0 && percent <= 100.0).then_some(Self::Part(percent / 100.0));
        }
        let blocks: u64 = word.parse().ok()?;
        (1..=POOL_BLOCKS_MAX).contains(&blocks).then_some(Self::Blocks(blocks))
    }

    /// In blocks, if the trace has `different` different ones.
    pub(super) fn blocks(self, different: usize) -> u64 {
        match self {
            Self::Blocks(blocks) => blocks,
            Self::Part(part) => ((different as f64 * part) as u64).max(1),
        }
    }
}

/// The settings of one run.
#[derive(Debug, Clone)]
pub(super) struct PolicySettings {
    pub(super) trace: String,
    pub(super) requests: usize,
    pub(super) pools: Vec<PoolSize>,
    /// `None` is the one that knows the future.
    pub(super) policies: Vec<Option<PolicyName>>,
    pub(super) watermark_ratio: f64,
    /// Room on a disk behind the memory, if there is one.
    pub(super) ssd: Option<PoolSize>,
    pub(super) block_tokens: u64,
    pub(super) token_bytes: u64,
    pub(super) seed: u64,
}

impl PolicySettings {
    /// Of the values of the flags.
    pub(super) fn of(settings: &Settings) -> Result<Self, BenchError> {
        Ok(Self {
            trace: settings.text("trace").to_owned(),
            requests: settings.integer("requests"),
            pools: list(
                settings,
                "pools",
                PoolSize::of,
                "a number of blocks such as 4096, or a part such as 10%",
            )?,
            policies: list(settings, "policies", policy, "lru, adaptive or belady")?,
            watermark_ratio: settings.number("watermark"),
            ssd: match settings.text("ssd") {
                "0" => None,
                _ => list(settings, "ssd", PoolSize::of, "0, or one size as in --pools")?.pop(),
            },
            block_tokens: settings.integer("block_tokens"),
            token_bytes: settings.integer("token_bytes"),
            seed: settings.integer("seed"),
        })
    }

    /// How many requests to make up.
    pub(super) fn made_requests(&self) -> usize {
        match self.requests {
            0 => REQUESTS_MADE,
            requests => requests,
        }
    }
}

fn policy(word: &str) -> Option<Option<PolicyName>> {
    match word {
        BELADY => Some(None),
        word => PolicyName::from_word(word).map(Some),
    }
}

fn list<T>(
    settings: &Settings,
    flag: &str,
    parse: fn(&str) -> Option<T>,
    wanted: &str,
) -> Result<Vec<T>, BenchError> {
    let words = settings.text(flag).split(',').map(str::trim);
    words
        .map(|word| {
            let refused =
                || format!("Setting `{flag}` has `{}`; write {wanted}", word.escape_debug());
            parse(word).ok_or_else(|| BenchError::conflict(refused()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use perigee_flags::{ProcessEnvironment, ProgramStart};

    use super::*;

    fn load(words: &[&str]) -> Result<PolicySettings, BenchError> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        match PROGRAM.load(&words, &ProcessEnvironment::of(&[]))? {
            ProgramStart::Run(settings) => PolicySettings::of(&settings),
            ProgramStart::Print(text) => panic!("{text}"),
        }
    }

    #[test]
    fn pools_are_blocks_or_parts() {
        let settings = load(&["--pools=4096, 10%", "--policies=belady,lru"]).unwrap();
        assert_eq!(settings.pools, [PoolSize::Blocks(4096), PoolSize::Part(0.1)]);
        assert_eq!(settings.pools[1].blocks(1_000), 100);
        assert_eq!(settings.policies, [None, Some(PolicyName::Lru)]);
        assert_eq!(settings.made_requests(), REQUESTS_MADE);
        assert_eq!(settings.ssd, None);
        assert_eq!(load(&["--ssd=30%"]).unwrap().ssd, Some(PoolSize::Part(0.3)));
    }

    #[test]
    fn what_is_no_pool_or_policy_is_named() {
        for (words, part) in [
            ("--pools=0", "4096"),
            ("--pools=x%", "`x%`"),
            ("--pools=101%", "10%"),
            ("--pools=,", "``"),
            ("--ssd=x", "0, or one size"),
            ("--policies=lfu", "lru, adaptive or belady"),
        ] {
            let error = load(&[words]).unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
            assert_eq!(error.exit_code(), 2);
        }
    }
}
