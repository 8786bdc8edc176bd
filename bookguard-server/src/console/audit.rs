//! Who changed what.

use bookguard_core::error::Error;
use bookguard_core::features::audit::ListAudit;
use bookguard_core::model::{AuditActorKind, AuditRecord};
use maud::{Markup, html};

use super::parts::{empty, next_page, table, time, words};
use super::user::User;
use super::{Answer, Asked, Page, Part};

pub(super) async fn list(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let cursor = asked.fields.get("cursor").unwrap_or_default();
    let records = user
        .read::<ListAudit>(&[], &[("limit", "100"), ("cursor", cursor)])
        .await?;
    let rows: Vec<Markup> = records.data.iter().map(line).collect();
    let main = html! {
        div.title { h1 { "Audit" } }
        p.lead { "Every change of your keys, secrets, endpoints and policies, everything that people did here, and what the service's operator \
            did for you." }
        @if rows.is_empty() { (empty("Nothing was changed yet.", "Each change leaves one record, which nobody can edit.")) }
        @else { section.card { (table("Audit records, newest first", &["When", "Who", "What", "About"], &rows)) } }
        (next_page(user, "/audit", &asked.fields, "cursor", records.next_cursor.as_deref(), "Older records"))
    };
    Ok(Page::new(Part::Audit, "Audit", main).ok())
}

fn line(record: &AuditRecord) -> Markup {
    html! { @for cell in cells(record, "The service's operator", html! {}) { (cell) } }
}

/// When, who, what and about what, with `more` of the last.
pub(super) fn cells(record: &AuditRecord, operator: &str, more: Markup) -> [Markup; 4] {
    let kind = match record.actor.kind {
        AuditActorKind::ApiKey => "API key",
        AuditActorKind::OperatorKey | AuditActorKind::LocalUser => operator,
        AuditActorKind::Anonymous => "Somebody without a key",
    };
    let who = html! {
        td {
            (record.actor.name.as_deref().unwrap_or(kind))
            @if let Some(id) = &record.actor.key_id { small { (id) } }
            @if let Some(address) = &record.address { small { (address) } }
        }
    };
    let subject = html! { td { (more) @for (name, id) in &record.subject { div { small { (words(name)) } (id) } } } };
    [
        html! { td { (time(record.at)) } },
        who,
        html! { td { (words(&record.action)) } },
        subject,
    ]
}
