//! Tenants with quotas as lines for people and as JSON. Invariant: a tenant that may put nothing or
//! holds too much is known by a word.

use super::table::{push_columns, share_text};
use crate::size::size_text;
use perigee_rpc::TenantUse;
use serde_json::{Value, json};

const HEADERS: [&str; 6] = ["TENANT", "USED", "QUOTA", "FULL", "OBJECTS", "STATE"];

/// The tenants below segments and disks.
pub(super) fn text(tenants: &[TenantUse]) -> String {
    if tenants.is_empty() {
        return "\nNo tenant has a quota, so none may put: PUT /api/v1/tenant_quotas gives one\n"
            .to_owned();
    }
    let mut rows = vec![HEADERS.map(str::to_owned)];
    rows.extend(tenants.iter().map(row));
    let mut text = format!("\nTenants {}\n\n", tenants.len());
    push_columns(&mut text, &rows, 4);
    text
}

pub(super) fn json(tenants: &[TenantUse]) -> Value {
    let tenant = |tenant: &TenantUse| {
        json!({
            "name": tenant.name,
            "used_bytes": tenant.charged_bytes,
            "quota_bytes": tenant.effective_bytes,
            "requested_quota_bytes": tenant.requested_bytes,
            "objects": tenant.objects,
            "state": state_word(tenant),
        })
    };
    tenants.iter().map(tenant).collect()
}

fn row(tenant: &TenantUse) -> [String; 6] {
    [
        tenant.name.escape_debug().to_string(),
        size_text(tenant.charged_bytes),
        size_text(tenant.effective_bytes),
        share_text(tenant.charged_bytes, tenant.effective_bytes),
        tenant.objects.to_string(),
        state_word(tenant).to_owned(),
    ]
}

fn state_word(tenant: &TenantUse) -> &'static str {
    match tenant {
        TenantUse { is_closed: true, .. } => "without_quota",
        it if it.charged_bytes > it.effective_bytes => "over_quota",
        it if it.effective_bytes < it.requested_bytes => "scaled_down",
        _ => "ok",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tenant_has_a_line_with_its_state() {
        let tenant = |name: &str, requested_bytes, effective_bytes, charged_bytes| TenantUse {
            name: name.to_owned(),
            requested_bytes,
            effective_bytes,
            charged_bytes,
            objects: 12,
            is_closed: requested_bytes == 0,
        };
        let tenants = [
            tenant("red", 4 << 20, 4 << 20, 1 << 20),
            tenant("blue", 8 << 20, 6 << 20, 1 << 20),
            tenant("green", 8 << 20, 6 << 20, 7 << 20),
            tenant("gone", 0, 0, 5),
        ];
        let text = text(&tenants);
        for (name, state) in [
            ("red", "ok"),
            ("blue", "scaled_down"),
            ("green", "over_quota"),
            ("gone", "without_quota"),
        ] {
            let line = text.lines().find(|line| line.starts_with(name)).unwrap();
            assert!(line.ends_with(state) && line.contains("12"), "{text}");
        }
        assert!(text.contains("25.0%"), "{text}");
        assert_eq!(json(&tenants)[1]["requested_quota_bytes"], 8 << 20);
        assert!(super::text(&[]).contains("/api/v1/tenant_quotas"));
    }
}
