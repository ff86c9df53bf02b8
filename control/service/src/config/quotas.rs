//! Where the quotas of tenants are. Invariant: with the switch there is a file, without it none is
//! read.

use perigee_flags::{FlagError, Settings};
use std::path::PathBuf;

const SWITCH: &str = "enable_multi_tenants";
const KIND: &str = "tenant_quota_connector_type";
const PLACE: &str = "tenant_quota_connector_uri";

pub(super) fn quota_file(
    settings: &Settings,
    warnings: &mut Vec<String>,
) -> Result<Option<PathBuf>, FlagError> {
    if !settings.bool(SWITCH) {
        for name in [KIND, PLACE].into_iter().filter(|name| settings.is_given(name)) {
            warnings.push(format!(
                "Setting `{name}` has no effect without {SWITCH}: tenants are name spaces without quotas"
            ));
        }
        return Ok(None);
    }
    if settings.text(KIND) == "etcd" {
        return Err(FlagError::Conflict(format!(
            "Setting `{KIND}` cannot be etcd: quotas are read from a file; use file, and the path \
             of the file in {PLACE}"
        )));
    }
    match settings.text(PLACE) {
        "" => Err(FlagError::Conflict(format!(
            "Setting `{SWITCH}` needs the quotas of the tenants: give the path of a YAML file, such \
             as --{PLACE}=/etc/perigee/quotas.yaml; without tenants it has two lines, `version: 1` \
             and `tenants: []`"
        ))),
        path => Ok(Some(path.strip_prefix("file://").unwrap_or(path).into())),
    }
}
