//! Which keys a walk is about. Invariant: matching a key takes time that its length and the pattern
//! bound.

use crate::limits::{PATTERN_BYTES_MAX, PROGRAM_BYTES};
use perigee_schemas::{Status, TenantId};
use regex::bytes::{Regex, RegexBuilder};
use std::sync::Arc;

/// Which keys a walk is about.
#[derive(Clone, Debug)]
pub struct Pattern {
    /// Those of one tenant, or of all.
    tenant: Option<TenantId>,
    program: Option<Arc<CompiledPattern>>,
}

#[derive(Debug)]
pub(crate) struct CompiledPattern {
    regex: Regex,
    /// The program takes no more memory than this; the time to search a key grows with it.
    bytes: usize,
}

impl Pattern {
    /// Every key of every tenant.
    pub fn any() -> Self {
        Self { tenant: None, program: None }
    }

    /// Those keys that are a tenant's. The expression is searched in the key as its user knows it.
    #[must_use]
    pub fn of(self, tenant: TenantId) -> Self {
        Self { tenant: Some(tenant), ..self }
    }

    /// The keys in which a regular expression is found. It is matched byte by byte, and `\w`, `\d`,
    /// `\s` and `\b` mean ASCII, as in the expressions that Mooncake's clients send.
    ///
    /// # Errors
    /// `InvalidParams` for a text that is no regular expression, too long, or too large once
    /// compiled.
    pub fn compile(text: &str) -> Result<Self, Status> {
        if text.len() > PATTERN_BYTES_MAX {
            return Err(Status::InvalidParams);
        }
        let program = |bytes: &usize| {
            let regex = RegexBuilder::new(text).unicode(false).size_limit(*bytes).build();
            regex.ok().map(|regex| CompiledPattern { regex, bytes: *bytes })
        };
        // The least size that will do tells how large the program is; a size that is too small is
        // found out at once.
        let program = PROGRAM_BYTES.iter().find_map(program);
        let program = program.ok_or(Status::InvalidParams)?;
        Ok(Self { tenant: None, program: Some(Arc::new(program)) })
    }

    /// The tenant whose keys it is about; all if `None`.
    pub(crate) fn tenant(&self) -> Option<&TenantId> {
        self.tenant.as_ref()
    }

    /// The expression; one that is found in every key where there is none.
    pub(crate) fn text(&self) -> &str {
        self.program.as_ref().map_or("^", |program| program.regex.as_str())
    }

    pub(crate) fn matches(&self, stored: &[u8]) -> bool {
        let key = match &self.tenant {
            Some(tenant) => tenant.own(stored),
            None => Some(TenantId::split(stored).1),
        };
        let program = self.program.as_ref();
        key.is_some_and(|key| program.is_none_or(|program| program.regex.is_match(key)))
    }

    /// What it may cost to look at a key, in bytes of the key times bytes of the program.
    pub(crate) fn work(&self, key: &[u8]) -> usize {
        let program_bytes = self.program.as_ref().map_or(1, |program| program.bytes);
        key.len().saturating_mul(program_bytes)
    }
}
