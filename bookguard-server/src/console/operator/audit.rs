//! Who changed what, of all partners and of the operator.

use bookguard_core::error::Error;
use bookguard_core::model::AuditRecord;
use maud::{Markup, html};

use super::{Names, about, names_of, partner_link};
use crate::console::audit::{cells, find};
use crate::console::{Answer, Asked, User};

pub(super) async fn list(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let found = find(user, asked).await?;
    let records = &found.records.data;
    let names = names_of(user, records.iter().filter_map(|record| record.partner_id)).await?;
    let rows = records.iter().map(|record| line(user, &names, record));
    let main = html! {
        div.title { h1 { "Audit" } }
        p.lead { "Every action of the operator that changed something, and each change that a partner made to its keys, secrets, endpoints \
            and policies." }
        (found.shown(user, rows))
    };
    Ok(found.page(main))
}

fn line(user: &User, names: &Names, record: &AuditRecord) -> Markup {
    let partner = record.partner_id.as_ref();
    let partner = html! { @if let Some(id) = partner { div { small { "Partner" } (partner_link(user, names, id)) } } };
    let bookings = record.partner_id.as_ref();
    let bookings = bookings.map(|id| user.link(&format!("{}/bookings", about(id))));
    let cells = cells(record, "The operator", partner, bookings.as_deref());
    html! { @for cell in cells { (cell) } }
}
