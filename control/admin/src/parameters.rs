//! Which parameters each route knows. Refusals and the page of Mooncake's settings read this table.
//! Invariant: a parameter that is not here is refused by the route, so none is passed over.

/// The parameter that names a tenant.
pub(crate) const TENANT: &str = "tenant_id";

/// The parameters of one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RouteParameters {
    /// The path.
    pub path: &'static str,
    /// Those that Mooncake's route has, and what each does.
    pub of_mooncake: &'static [(&'static str, &'static str)],
    /// Those that only this route has.
    pub own: &'static [&'static str],
}

impl RouteParameters {
    const fn new(
        path: &'static str,
        of_mooncake: &'static [(&'static str, &'static str)],
        own: &'static [&'static str],
    ) -> Self {
        Self { path, of_mooncake, own }
    }

    /// All names.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        let of_mooncake = self.of_mooncake.iter().map(|(name, _)| *name);
        of_mooncake.chain(self.own.iter().copied()).collect()
    }
}

const SEGMENT: &[(&str, &str)] = &[("segment", "name of the segment that is asked for")];
const JOB: &[(&str, &str)] = &[("job_id", "number of the drain job")];

/// Pages that a browser opens, metrics and probes are not here: who asks for those may add words
/// of its own.
pub const ROUTES: [RouteParameters; 20] = [
    RouteParameters::new("/role", &[], &[]),
    RouteParameters::new("/ha_status", &[], &[]),
    RouteParameters::new("/leader", &[], &[]),
    RouteParameters::new("/kv_events/status", &[], &[]),
    RouteParameters::new("/kv_events/snapshot", &[], &[]),
    RouteParameters::new("/query_key", &[("key", "key whose replicas are asked for")], &[TENANT]),
    RouteParameters::new(
        "/batch_query_keys",
        &[("keys", "keys whose replicas are asked for, with commas between them")],
        &[TENANT],
    ),
    RouteParameters::new("/api/v1/keys/inspect", &[], &["key", TENANT]),
    RouteParameters::new("/get_all_keys", &[], &["limit", TENANT]),
    RouteParameters::new("/api/v1/keys", &[], &["regex", "limit", TENANT]),
    RouteParameters::new("/get_all_segments", &[], &[]),
    RouteParameters::new("/get_segments_detail", &[], &[]),
    RouteParameters::new("/query_segment", SEGMENT, &[]),
    RouteParameters::new("/api/v1/segments/status", SEGMENT, &[]),
    RouteParameters::new(
        "/api/v1/remove_all",
        &[
            ("force", "true removes objects with a lease, too"),
            (TENANT, "tenant whose objects are removed; all tenants without it"),
        ],
        &[],
    ),
    RouteParameters::new("/api/v1/drain_jobs", &[], &[]),
    RouteParameters::new("/api/v1/drain_jobs/query", JOB, &[]),
    RouteParameters::new("/api/v1/drain_jobs/cancel", JOB, &[]),
    RouteParameters::new(
        "/api/v1/tenant_quotas",
        &[(TENANT, "tenant whose quota is asked for or changed; a question may leave it out")],
        &[],
    ),
    RouteParameters::new("/api/v1/cluster/verdict", &[], &[]),
];

/// The names that a path knows; `None` for one that takes any.
pub(crate) fn known(path: &str) -> Option<Vec<&'static str>> {
    ROUTES.iter().find(|route| route.path == path).map(RouteParameters::names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_path_is_there_once_and_names_each_parameter_once() {
        let paths: BTreeSet<_> = ROUTES.iter().map(|route| route.path).collect();
        assert_eq!(paths.len(), ROUTES.len());
        for route in ROUTES {
            let names: BTreeSet<_> = route.names().into_iter().collect();
            assert_eq!(names.len(), route.names().len(), "{}", route.path);
        }
        assert_eq!(known("/query_key"), Some(vec!["key", TENANT]));
        assert_eq!(known("/metrics"), None);
    }
}
