//! `partners`: registers, approves and shows partners, and changes their settings and quotas.

use bookguard_core::features::endpoints::secrets::RotatePartnerSecret;
use bookguard_core::features::partners::account::{
    EditPartner, GetPartnerAccount, ReinstatePartner, SuspendPartner,
};
use bookguard_core::features::partners::{
    ApprovePartner, GetPartner, ListPartners, RegisterPartner, Registration, SetQuota,
    UpdatePartner,
};
use bookguard_core::model::{Partner, PartnerAccount, QuotaUse};
use bookguard_server::config::bytes::Bytes;

use super::api_keys::overlap;
use super::declare::{CliCommand, group, operation};
use super::endpoints::rotated_secret;
use super::partner_export;
use crate::output::table::{self, Style, fields, grouped, joined, page_fn, record};
use crate::target::Purpose;

pub(super) fn commands() -> CliCommand {
    let about = "Register a partner; its first API key and signing secret are shown only once";
    let register =
        operation::<RegisterPartner>("register", about, registration).purpose(Purpose::Begin);
    let about = "List partners, newest first (for the operator)";
    let list = operation::<ListPartners>("list", about, partners);
    let about = "Approve a pending partner; shows its first API key (for the operator)";
    let approve = operation::<ApprovePartner>("approve", about, registration);
    let about = "Show the partner that the key belongs to, or the one named by --partner";
    let me = operation::<GetPartner>("me", about, account);
    let about = "Replace the signing secret of webhooks; the new one is shown only once";
    let rotate =
        operation::<RotatePartnerSecret>("rotate-secret", about, rotated_secret).flags(overlap);
    let about = "Show a partner's quota and usage, and change its quota (for the operator)";
    let quota = operation::<SetQuota>("quota", about, account).flags(|flags| {
        flags
            .may_change_nothing()
            .read("bookings", "Bookings; 0 for no limit, \"default\" for the service's own limit, as with the others", number)
            .read("bytes", "Bytes of bookings, such as 10GiB", size)
            .takes("bytes", "SIZE")
            .read("eventsPerDay", "Events a day (UTC) beyond which the partner may record no bookings", number)
            .read("endpoints", "Webhook endpoints, 20 at most", number)
            .read("fileBytes", "Bytes of evidence files, such as 10GiB", size)
            .takes("fileBytes", "SIZE");
    });
    let about = "Show a partner (for the operator)";
    let get = operation::<GetPartnerAccount>("get", about, account);
    let about = "Correct a partner's name and contact (for the operator)";
    let edit = operation::<EditPartner>("edit", about, account);
    let about = "Suspend a partner: its keys can only read (for the operator)";
    let suspend = operation::<SuspendPartner>("suspend", about, account);
    let about = "Reinstate a suspended partner: its keys work again (for the operator)";
    let reinstate = operation::<ReinstatePartner>("reinstate", about, reinstated);
    let about = "Choose default policies and a time zone";
    let update = operation::<UpdatePartner>("update", about, account).flags(|flags| {
        flags
            .name("defaultPolicies", "default-policy")
            .says("defaultPolicies", DEFAULT_POLICY)
            .opposite("defaultPolicies", "no-default-policy", NO_DEFAULT);
    });
    let (export, end) = (
        partner_export::export_command(),
        partner_export::end_command(),
    );
    let about = "Partners: the platforms that use the service";
    let commands = [
        register, list, get, edit, approve, suspend, reinstate, export, end, me, rotate, quota,
        update,
    ];
    group("partners", about, commands)
}

const DEFAULT_POLICY: &str = "The policy for an event type, such as concert=house; * is every other type; may be given several times";

const NO_DEFAULT: &str =
    "The event type whose default policy to remove; may be given several times";

/// One part of a quota.
fn number(typed: &str) -> Result<String, String> {
    match (typed, typed.parse::<u64>()) {
        ("default", _) => Ok("null".to_owned()),
        (_, Ok(number)) => Ok(number.to_string()),
        _ => Err(format!(
            "is \"{typed}\"; write a whole number, 0 for no limit, or default"
        )),
    }
}

fn size(typed: &str) -> Result<String, String> {
    match typed {
        "default" => number(typed),
        size => {
            let bytes = size.parse::<Bytes>();
            let bytes = bytes.map_err(|why| format!("cannot be read: {why}"))?;
            Ok(bytes.0.to_string())
        }
    }
}

/// A registration or an approval, with credentials if there are any.
fn registration(new: &Registration, style: Style) -> String {
    let fields = fields! {
        "partner" => new.partner_id,
        "name" => new.name,
        "status" => new.status,
        "API key id" => new.api_key_id,
        "API key" => new.api_key,
        "signing secret" => new.signing_secret,
    };
    let after = match new.api_key {
        Some(_) => "\n\nKeep the key and the secret now: they are not shown again.",
        None => "\n\nThe partner waits for approval: bookguard partners approve <partner>",
    };
    record(style, &fields) + after
}

/// A partner that was suspended, and which of its keys work.
fn reinstated(partner: &PartnerAccount, style: Style) -> String {
    format!(
        "{}\n\nIts keys work again. Those that were revoked stay revoked, as all are once `bookguard partners end` has begun: make it \
         another with `bookguard api-keys create --partner {}`.",
        account(partner, style),
        partner.partner.partner_id
    )
}

/// A partner, and its use of its quota.
fn account(account: &PartnerAccount, style: Style) -> String {
    let PartnerAccount { partner, quota } = account;
    let shown = |part: QuotaUse, show: fn(u64) -> String| match part.limit {
        Some(limit) => format!("{} of {}", show(part.used), show(limit)),
        None => format!("{}, without a limit", show(part.used)),
    };
    let used = |part| shown(part, grouped);
    let defaults = partner.settings.default_policies.iter();
    let defaults = defaults.map(|(event_type, policy)| format!("{event_type}={policy}"));
    let fields = fields! {
        "partner" => partner.partner_id,
        "name" => partner.name,
        "status" => status(partner),
        "business type" => partner.business_type,
        "contact" => partner.contact_email,
        "website" => partner.website,
        "time zone" => partner.settings.time_zone,
        "default policies" => joined(defaults, ", "),
        "bookings" => used(quota.bookings),
        "bytes of bookings" => shown(quota.bytes, table::size),
        "events today (UTC)" => used(quota.events_per_day),
        "endpoints" => used(quota.endpoints),
        "bytes of files" => shown(quota.file_bytes, table::size),
        "since" => partner.created_at,
        "contract ended" => partner.contract_ended_at,
    };
    record(style, &fields)
}

/// A partner's status. One whose contract has ended is suspended; for good, once its record is erased.
fn status(partner: &Partner) -> &'static str {
    match partner.is_ended() {
        true if partner.is_erased() => "ended",
        true => "ending",
        false => partner.status.word(),
    }
}

page_fn! { fn partners(partner: &Partner), "partners" =>
    "PARTNER" => partner.partner_id,
    "STATUS" => status(partner),
    "NAME" => partner.name,
    "BUSINESS" => partner.business_type,
    "CONTACT" => partner.contact_email,
    "SINCE" => partner.created_at,
}
