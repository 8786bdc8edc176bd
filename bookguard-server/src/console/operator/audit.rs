//! Who changed what, of all partners and of the operator.

use bookguard_core::error::Error;
use bookguard_core::features::audit::ListAudit;
use bookguard_core::model::AuditRecord;
use maud::{Markup, html};

use super::about;
use crate::console::audit::cells;
use crate::console::parts::{empty, next_page, table};
use crate::console::user::User;
use crate::console::{Answer, Asked, Page, Part};

pub(super) async fn list(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let cursor = asked.fields.get("cursor").unwrap_or_default();
    let records = user
        .read::<ListAudit>(&[], &[("limit", "100"), ("cursor", cursor)])
        .await?;
    let rows: Vec<Markup> = records
        .data
        .iter()
        .map(|record| line(user, record))
        .collect();
    let heads = ["When", "Who", "What", "Partner", "About"];
    let main = html! {
        div.title { h1 { "Audit" } }
        p.lead { "Every action of the operator that changed something, and each change that a partner made to its keys, secrets, endpoints \
            and policies." }
        @if rows.is_empty() { (empty("Nothing was changed yet.", "Each change leaves one record, which nobody can edit.")) }
        @else { section.card { (table("Audit records, newest first", &heads, &rows)) } }
        (next_page(user, "/audit", &asked.fields, "cursor", records.next_cursor.as_deref(), "Older records"))
    };
    Ok(Page::new(Part::Audit, "Audit", main).ok())
}

fn line(user: &User, record: &AuditRecord) -> Markup {
    let [when, who, what, subject] = cells(record, "The operator");
    html! {
        (when) (who) (what)
        td { @if let Some(partner) = &record.partner_id { a href=(user.link(&about(partner))) { (partner) } } }
        (subject)
    }
}
