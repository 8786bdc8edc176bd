//! Who changed what, of all partners and of the operator.

use bookguard_core::error::Error;
use bookguard_core::features::audit::ListAudit;
use bookguard_core::model::AuditRecord;
use maud::{Markup, html};

use super::{Names, names_of, partner_link};
use crate::console::audit::cells;
use crate::console::parts::{empty, next_page, table};
use crate::console::user::User;
use crate::console::{Answer, Asked, Page, Part};

pub(super) async fn list(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let cursor = asked.fields.get("cursor").unwrap_or_default();
    let records = user
        .read::<ListAudit>(&[], &[("limit", "100"), ("cursor", cursor)])
        .await?;
    let names = names_of(
        user,
        records.data.iter().filter_map(|record| record.partner_id),
    )
    .await?;
    let rows: Vec<Markup> = records
        .data
        .iter()
        .map(|record| line(user, &names, record))
        .collect();
    let main = html! {
        div.title { h1 { "Audit" } }
        p.lead { "Every action of the operator that changed something, and each change that a partner made to its keys, secrets, endpoints \
            and policies." }
        @if rows.is_empty() { (empty("Nothing was changed yet.", "Each change leaves one record, which nobody can edit.")) }
        @else { section.card { (table("Audit records, newest first", &["When", "Who", "What", "About"], &rows)) } }
        (next_page(user, "/audit", &asked.fields, "cursor", records.next_cursor.as_deref(), "Older records"))
    };
    Ok(Page::new(Part::Audit, "Audit", main).ok())
}

fn line(user: &User, names: &Names, record: &AuditRecord) -> Markup {
    let partner = record.partner_id.as_ref();
    let partner = html! { @if let Some(id) = partner { div { small { "Partner" } (partner_link(user, names, id)) } } };
    html! { @for cell in cells(record, "The operator", partner) { (cell) } }
}
