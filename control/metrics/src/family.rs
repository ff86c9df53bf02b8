//! One metric family as data. Invariant: name, kind and labels of a `Stability::Mooncake` family
//! never change; they are what existing dashboards read.

/// Bucket bounds of a histogram: integers in the cell, scaled when shown.
#[derive(Debug, PartialEq)]
pub struct Buckets {
    /// Inclusive upper bounds in the unit of the cell, ascending.
    pub bounds: &'static [u64],
    /// Cell units per shown unit: 1e9 for nanoseconds shown as seconds.
    pub divisor: f64,
    /// Digits after the point of the `le` label; `None` for the shortest form.
    pub le_digits: Option<usize>,
}

impl Buckets {
    /// The bucket of a value; the last is above all bounds.
    #[inline]
    #[must_use]
    pub fn place(&self, value: u64) -> usize {
        self.bounds.partition_point(|bound| *bound < value)
    }

    /// The `le` label of bound `index`; the bound after the last is `+Inf`.
    #[must_use]
    pub fn le(&self, index: usize) -> String {
        let Some(bound) = self.bounds.get(index) else {
            return "+Inf".to_owned();
        };
        #[expect(clippy::cast_precision_loss, reason = "bounds are small round numbers")]
        let shown = *bound as f64 / self.divisor;
        match self.le_digits {
            Some(digits) => format!("{shown:.digits$}"),
            None => shown.to_string(),
        }
    }
}

/// What a family measures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MetricKind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Distribution.
    Histogram(&'static Buckets),
    /// Quantiles of a distribution, [`QUANTILES`].
    Summary,
}

/// The quantiles of a summary, Mooncake's.
pub const QUANTILES: [f64; 3] = [0.5, 0.9, 0.99];

impl MetricKind {
    /// The word of the `# TYPE` line.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram(_) => "histogram",
            Self::Summary => "summary",
        }
    }
}

/// How long a name lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stability {
    /// Mooncake's name with Mooncake's meaning.
    Mooncake,
    /// Mooncake's name of a feature that does not exist yet; always 0.
    MooncakeZero,
    /// Mooncake's name of something that cannot happen here; always 0.
    MooncakeNever,
    /// Our name; changes only with a note in the change log.
    Stable,
}

impl Stability {
    /// What it promises, in words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Mooncake => "Mooncake's name",
            Self::MooncakeZero => "Mooncake's name, always 0: feature not built",
            Self::MooncakeNever => "Mooncake's name, always 0: it cannot happen here",
            Self::Stable => "stable",
        }
    }
}

/// Which program serves a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricSource {
    /// The master, on its metrics port.
    Master,
    /// A client library or node daemon, on its HTTP port.
    Client,
    /// The agent of a host, on its port.
    Agent,
}

impl MetricSource {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Master, Self::Client, Self::Agent];

    /// Title of its table.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Master => "Master",
            Self::Client => "Clients and nodes",
            Self::Agent => "Agent",
        }
    }
}

/// One entry of the catalogue.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Family {
    /// Prometheus name.
    pub name: &'static str,
    /// What it measures.
    pub kind: MetricKind,
    /// Unit of the shown value: bytes, seconds, requests.
    pub unit: &'static str,
    /// Label names in order.
    pub labels: &'static [&'static str],
    /// How long the name lives.
    pub stability: Stability,
    /// One sentence.
    pub help: &'static str,
    /// Which program serves it.
    pub source: MetricSource,
}

impl Family {
    /// A counter of the master with one of Mooncake's names.
    #[must_use]
    pub const fn counter(name: &'static str, unit: &'static str, help: &'static str) -> Self {
        Self {
            name,
            kind: MetricKind::Counter,
            unit,
            labels: &[],
            stability: Stability::Mooncake,
            help,
            source: MetricSource::Master,
        }
    }

    /// A gauge of the master with one of Mooncake's names.
    #[must_use]
    pub const fn gauge(name: &'static str, unit: &'static str, help: &'static str) -> Self {
        Self { kind: MetricKind::Gauge, ..Self::counter(name, unit, help) }
    }

    /// A histogram of the master with one of Mooncake's names.
    #[must_use]
    pub const fn histogram(
        name: &'static str,
        unit: &'static str,
        buckets: &'static Buckets,
        help: &'static str,
    ) -> Self {
        Self { kind: MetricKind::Histogram(buckets), ..Self::counter(name, unit, help) }
    }

    /// A summary of the master with one of Mooncake's names.
    #[must_use]
    pub const fn summary(name: &'static str, unit: &'static str, help: &'static str) -> Self {
        Self { kind: MetricKind::Summary, ..Self::counter(name, unit, help) }
    }

    /// Sets the label names.
    #[must_use]
    pub const fn labelled(mut self, labels: &'static [&'static str]) -> Self {
        self.labels = labels;
        self
    }

    /// Marks the name as our own.
    #[must_use]
    pub const fn ours(mut self) -> Self {
        self.stability = Stability::Stable;
        self
    }

    /// Marks the feature behind the name as not built.
    #[must_use]
    pub const fn zero(mut self) -> Self {
        self.stability = Stability::MooncakeZero;
        self
    }

    /// Marks what the name counts as something that cannot happen here.
    #[must_use]
    pub const fn never(mut self) -> Self {
        self.stability = Stability::MooncakeNever;
        self
    }

    /// Moves the family to clients and nodes.
    #[must_use]
    pub const fn of_client(mut self) -> Self {
        self.source = MetricSource::Client;
        self
    }

    /// Moves the family to the agent.
    #[must_use]
    pub const fn of_agent(mut self) -> Self {
        self.source = MetricSource::Agent;
        self
    }
}
