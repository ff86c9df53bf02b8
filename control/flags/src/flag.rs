//! One flag as data. Invariant: a table entry is the only place that knows a flag's name, type,
//! default, range and state; parsing, help and documentation all read it.

/// How a value is written and read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
    /// `true`/`false`, also `yes`/`no`, `on`/`off`, `1`/`0`.
    Bool,
    /// 32-bit signed integer.
    Int32,
    /// 32-bit unsigned integer.
    Uint32,
    /// 64-bit signed integer.
    Int64,
    /// 64-bit unsigned integer.
    Uint64,
    /// Decimal number.
    Double,
    /// Free text.
    Text,
    /// Milliseconds, or a number with the suffix `ms`, `s`, `m` or `h`: `500ms`, `1.5s`.
    DurationMs,
    /// Bytes, or a number with a binary unit such as `MB`, `4gb`, `50GiB`.
    SizeBytes,
}

impl ValueKind {
    /// Type name shown in help texts.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::Int32 => "int32",
            Self::Uint32 => "uint32",
            Self::Int64 => "int64",
            Self::Uint64 => "uint64",
            Self::Double => "double",
            Self::Text | Self::SizeBytes | Self::DurationMs => "string",
        }
    }
}

/// Accepted values beyond what the kind already says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bounds {
    /// Everything of the kind.
    Any,
    /// Integers, durations (ms) and sizes (bytes) within these limits, both included.
    Integer {
        /// Smallest accepted value.
        min: i128,
        /// Largest accepted value.
        max: i128,
    },
    /// Finite numbers within these limits, both included.
    Number {
        /// Smallest accepted value.
        min: f64,
        /// Largest accepted value.
        max: f64,
    },
    /// One of these words.
    OneOf(&'static [&'static str]),
}

/// The flag of programs that have guarantees which are not built.
pub const ALLOW_UNBUILT: Flag = Flag::new(
    "allow_unbuilt",
    ValueKind::Bool,
    "false",
    "Start although a setting asks for a guarantee about data that is not built",
)
.own();

/// What this version does with a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlagSupport {
    /// It has its full effect.
    Built,
    /// The named feature does not exist yet; a value other than the default gives a warning.
    NotBuilt(&'static str),
    /// As [`FlagSupport::NotBuilt`], but it decides who owns or may read data: a value other than
    /// the default is refused, unless the flag [`ALLOW_UNBUILT`] is set.
    Guarantee(&'static str),
    /// An older spelling that keeps its effect; the note says what to use. A value other than the
    /// default gives a warning.
    Deprecated(&'static str),
    /// Accepted without effect; the text says why none is needed.
    Ignored(&'static str),
}

/// One entry of a program's flag table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Flag {
    /// Name with underscores.
    pub name: &'static str,
    /// How its value is read.
    pub kind: ValueKind,
    /// Default as it would be written.
    pub default: &'static str,
    /// One sentence for the help text.
    pub help: &'static str,
    /// What this version does with it.
    pub state: FlagSupport,
    /// Accepted values.
    pub bounds: Bounds,
    /// What the flag means without a value, if it may be written so.
    pub alone: Option<&'static str>,
    /// Other accepted names, on the command line and in files.
    pub aliases: &'static [&'static str],
    /// Environment variables read besides the program's own prefix, first one set wins.
    pub variables: &'static [&'static str],
    /// Mooncake's program of the same kind has no such flag.
    pub is_own: bool,
}

impl Flag {
    /// A flag with full effect.
    #[must_use]
    pub const fn new(
        name: &'static str,
        kind: ValueKind,
        default: &'static str,
        help: &'static str,
    ) -> Self {
        Self {
            name,
            kind,
            default,
            help,
            state: FlagSupport::Built,
            bounds: Bounds::Any,
            alone: None,
            aliases: &[],
            variables: &[],
            is_own: false,
        }
    }

    /// Marks the flag as one that Mooncake's program does not have.
    #[must_use]
    pub const fn own(mut self) -> Self {
        self.is_own = true;
        self
    }

    /// Marks the flag as belonging to a feature that does not exist yet.
    #[must_use]
    pub const fn not_built(mut self, feature: &'static str) -> Self {
        self.state = FlagSupport::NotBuilt(feature);
        self
    }

    /// Marks the flag as a guarantee about data of a feature that does not exist yet.
    #[must_use]
    pub const fn guarantee(mut self, feature: &'static str) -> Self {
        self.state = FlagSupport::Guarantee(feature);
        self
    }

    /// Marks the flag as an older spelling.
    #[must_use]
    pub const fn deprecated(mut self, note: &'static str) -> Self {
        self.state = FlagSupport::Deprecated(note);
        self
    }

    /// Marks the flag as accepted without effect.
    #[must_use]
    pub const fn ignored(mut self, why: &'static str) -> Self {
        self.state = FlagSupport::Ignored(why);
        self
    }

    /// Limits an integer, duration (ms) or size (bytes).
    #[must_use]
    pub const fn within(mut self, min: i128, max: i128) -> Self {
        self.bounds = Bounds::Integer { min, max };
        self
    }

    /// Limits a decimal number.
    #[must_use]
    pub const fn within_number(mut self, min: f64, max: f64) -> Self {
        self.bounds = Bounds::Number { min, max };
        self
    }

    /// Limits a text to a list of words.
    #[must_use]
    pub const fn one_of(mut self, words: &'static [&'static str]) -> Self {
        self.bounds = Bounds::OneOf(words);
        self
    }

    /// Lets the flag be written without a value, which means `value`; another one follows a `=`.
    #[must_use]
    pub const fn alone(mut self, value: &'static str) -> Self {
        self.alone = Some(value);
        self
    }

    /// Adds other accepted names.
    #[must_use]
    pub const fn aliases(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }

    /// Adds environment variables.
    #[must_use]
    pub const fn variables(mut self, variables: &'static [&'static str]) -> Self {
        self.variables = variables;
        self
    }

    /// True when `name` (with underscores) is this flag's name or one of its aliases.
    #[must_use]
    pub fn answers_to(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }
}
