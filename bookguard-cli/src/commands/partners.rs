//! `partners`: registered, let in, shown, and what is decided for and by them.

use bookguard_core::features::endpoints::secrets::RotatePartnerSecret;
use bookguard_core::features::partners::{
    ApprovePartner, GetPartner, ListPartners, RegisterPartner, Registration, SetQuota,
    UpdatePartner,
};
use bookguard_core::model::{Page, Partner, PartnerAccount, QuotaUse};
use bookguard_core::operation::Request;
use bookguard_server::config::bytes::Bytes;
use clap::{ArgGroup, Args, Subcommand};
use serde_json::json;

use super::cli::RotationArgs;
use super::{add, at, once_only, page, rotation, with, with_body};
use crate::args::{OnceArgs, PageArgs};
use crate::failure::Failure;
use crate::output::Screen;
use crate::output::nouns::{rotated_secret, word};
use crate::output::table::{Style, list, more, record, time};
use crate::target::Target;

/// What can be done with partners.
#[derive(Debug, Subcommand)]
pub enum PartnersCommand {
    /// Register a partner; shows its first API key and signing secret only this once
    Register {
        /// Company or platform name
        #[arg(long)]
        name: String,
        /// Free text, such as marketplace
        #[arg(long, value_name = "TYPE")]
        business_type: String,
        /// Primary contact
        #[arg(long, value_name = "ADDRESS")]
        contact_email: String,
        /// The partner's site
        #[arg(long, value_name = "ADDRESS")]
        website: Option<String>,
        /// Harmless repetition.
        #[command(flatten)]
        once: OnceArgs,
    },
    /// List partners, newest first (on the database only)
    List {
        /// Only in this status: pending, approved or active
        #[arg(long)]
        status: Option<String>,
        /// Which page.
        #[command(flatten)]
        page: PageArgs,
    },
    /// Approve a pending partner; shows its first API key (on the database only)
    Approve {
        /// The partner's id
        partner_id: String,
    },
    /// Show the partner the key belongs to, or --partner names
    Me,
    /// Replace the signing secret of webhooks; shows the new one only this once
    RotateSecret(RotationArgs),
    /// Show a partner's quota and usage, and change its quota (on the database only)
    Quota(PartnerQuotaArgs),
    /// Choose default policies and a time zone
    Update(PartnerUpdateArgs),
}

/// What a partner may have: what is not given stays as it is.
#[derive(Debug, Args)]
pub struct PartnerQuotaArgs {
    /// The partner's id
    pub partner_id: String,
    /// Bookings; 0 for no limit, "default" for what the service gives everybody, as with the others
    #[arg(long, value_name = "N")]
    pub bookings: Option<String>,
    /// Bytes of bookings, such as 10GiB
    #[arg(long, value_name = "SIZE")]
    pub bytes: Option<String>,
    /// Events a day (UTC) beyond which it may record no bookings
    #[arg(long, value_name = "N")]
    pub events_per_day: Option<String>,
    /// Webhook endpoints, 20 at most
    #[arg(long, value_name = "N")]
    pub endpoints: Option<String>,
}

/// What a partner decides for its bookings.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("change").required(true).multiple(true)
    .args(["default_policies", "no_default_policies", "time_zone", "no_time_zone"])))]
pub struct PartnerUpdateArgs {
    /// The policy for an event type, such as concert=house; * is every other type; may be given several times
    #[arg(long = "default-policy", value_name = "EVENT_TYPE=POLICY")]
    pub default_policies: Vec<String>,
    /// Remove the default for this event type; may be given several times
    #[arg(long = "no-default-policy", value_name = "EVENT_TYPE")]
    pub no_default_policies: Vec<String>,
    /// The IANA time zone of events where neither the booking nor its policy names one
    #[arg(long, value_name = "ZONE", conflicts_with = "no_time_zone")]
    pub time_zone: Option<String>,
    /// Remove that time zone
    #[arg(long)]
    pub no_time_zone: bool,
}

/// Does what was asked of partners.
///
/// # Errors
/// Those of the operation.
pub(super) async fn run(
    target: &Target,
    command: PartnersCommand,
    screen: &Screen,
) -> Result<(), Failure> {
    match command {
        PartnersCommand::Register {
            name,
            business_type,
            contact_email,
            website,
            once,
        } => {
            let body = json!({ "name": name, "businessType": business_type, "contactEmail": contact_email });
            let request = once_only(with_body(with(body, "website", website)), once);
            screen.show(
                &target.call::<RegisterPartner>(request).await?,
                registration,
            )
        }
        PartnersCommand::List { status, page: args } => {
            let mut request = page(args);
            add(&mut request, "status", status);
            screen.show(&target.call::<ListPartners>(request).await?, list_of)
        }
        PartnersCommand::Approve { partner_id } => screen.show(
            &target.call::<ApprovePartner>(at(&partner_id)).await?,
            registration,
        ),
        PartnersCommand::Me => screen.show(
            &target.call::<GetPartner>(Request::default()).await?,
            account,
        ),
        PartnersCommand::Quota(args) => {
            let request = Request {
                body: with_body(quota(&args)?).body,
                ..at(&args.partner_id)
            };
            screen.show(&target.call::<SetQuota>(request).await?, account)
        }
        PartnersCommand::RotateSecret(args) => screen.show(
            &target
                .call::<RotatePartnerSecret>(rotation(Request::default(), args))
                .await?,
            rotated_secret,
        ),
        PartnersCommand::Update(args) => screen.show(
            &target
                .call::<UpdatePartner>(with_body(decisions(args)?))
                .await?,
            account,
        ),
    }
}

/// What changes of a partner's quota.
fn quota(args: &PartnerQuotaArgs) -> Result<serde_json::Value, Failure> {
    let mut changes = serde_json::Map::new();
    for (flag, name, said) in [
        ("--bookings", "bookings", &args.bookings),
        ("--bytes", "bytes", &args.bytes),
        ("--events-per-day", "eventsPerDay", &args.events_per_day),
        ("--endpoints", "endpoints", &args.endpoints),
    ] {
        let Some(said) = said else { continue };
        let limit = match said.as_str() {
            "default" => serde_json::Value::Null,
            size if name == "bytes" => size
                .parse::<Bytes>()
                .map_err(|why| Failure::Usage(format!("{flag}: {why}")))?
                .0
                .into(),
            number => number
                .parse::<u64>()
                .map_err(|_| {
                    Failure::Usage(format!(
                        "{flag} is \"{number}\"; write a whole number, 0 for no limit, or default"
                    ))
                })?
                .into(),
        };
        changes.insert(name.to_owned(), limit);
    }
    Ok(changes.into())
}

/// The body of `PATCH /v1/partners/me`.
fn decisions(args: PartnerUpdateArgs) -> Result<serde_json::Value, Failure> {
    let mut defaults = serde_json::Map::new();
    for pair in args.default_policies {
        let (event_type, policy) = pair.split_once('=').ok_or_else(|| {
            Failure::Usage(format!(
                "--default-policy \"{pair}\" is not of the form EVENT_TYPE=POLICY; write it like concert=house"
            ))
        })?;
        if defaults
            .insert(event_type.to_owned(), policy.into())
            .is_some()
        {
            return Err(Failure::Usage(format!(
                "--default-policy names \"{event_type}\" more than once"
            )));
        }
    }
    for event_type in args.no_default_policies {
        if defaults
            .insert(event_type.clone(), serde_json::Value::Null)
            .is_some()
        {
            return Err(Failure::Usage(format!(
                "--default-policy and --no-default-policy both name \"{event_type}\""
            )));
        }
    }
    let mut body = json!({});
    if !defaults.is_empty() {
        body["defaultPolicies"] = defaults.into();
    }
    match args.time_zone {
        Some(zone) => body["timeZone"] = zone.into(),
        None if args.no_time_zone => body["timeZone"] = serde_json::Value::Null,
        None => {}
    }
    Ok(body)
}

/// A registration or an approval, with credentials if there are any.
fn registration(new: &Registration, style: Style) -> String {
    let fields = [
        ("partner", Some(new.partner_id.to_string())),
        ("name", Some(new.name.clone())),
        ("status", Some(word(&new.status))),
        ("API key id", new.api_key_id.map(|id| id.to_string())),
        ("API key", new.api_key.clone()),
        ("signing secret", new.signing_secret.clone()),
    ];
    let after = match new.api_key {
        Some(_) => "\n\nKeep the key and the secret now: they are not shown again.",
        None => "\n\nThe partner waits for approval: bookguard partners approve <partner>",
    };
    record(style, &fields) + after
}

/// A partner, and what it has used of its quota.
fn account(account: &PartnerAccount, style: Style) -> String {
    let PartnerAccount { partner, quota } = account;
    let used = |part: QuotaUse| match part.limit {
        Some(limit) => Some(format!("{} of {limit}", part.used)),
        None => Some(format!("{}, without a limit", part.used)),
    };
    record(
        style,
        &[
            ("partner", Some(partner.partner_id.to_string())),
            ("name", Some(partner.name.clone())),
            ("status", Some(word(&partner.status))),
            ("business type", Some(partner.business_type.clone())),
            ("contact", Some(partner.contact_email.clone())),
            ("website", partner.website.clone()),
            ("time zone", partner.settings.time_zone.clone()),
            ("default policies", default_policies(partner)),
            ("bookings", used(quota.bookings)),
            ("bytes of bookings", used(quota.bytes)),
            ("events today (UTC)", used(quota.events_per_day)),
            ("endpoints", used(quota.endpoints)),
            ("since", Some(time(partner.created_at))),
        ],
    )
}

fn default_policies(partner: &Partner) -> Option<String> {
    let defaults = partner.settings.default_policies.iter();
    let pairs: Vec<String> = defaults
        .map(|(event_type, policy)| format!("{event_type}={policy}"))
        .collect();
    (!pairs.is_empty()).then(|| pairs.join(", "))
}

/// A page of partners.
fn list_of(page: &Page<Partner>, style: Style) -> String {
    let rows = page.data.iter().map(|partner| {
        [
            partner.partner_id.to_string(),
            word(&partner.status),
            partner.name.clone(),
            partner.business_type.clone(),
            partner.contact_email.clone(),
            time(partner.created_at),
        ]
    });
    let header = ["PARTNER", "STATUS", "NAME", "BUSINESS", "CONTACT", "SINCE"];
    list(style, "partners", header, rows.collect()) + &more(page.next_cursor.as_deref())
}
