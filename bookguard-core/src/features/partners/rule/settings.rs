//! A partner's settings for its bookings. Invariant: a default names a policy that exists.

use crate::engine::batch::{BatchState, PartnerState};
use crate::engine::change::Change;
use crate::engine::command::{Command, Decided};
use crate::engine::needs::Needs;
use crate::error::{Error, FieldError};
use crate::features::partners::{DefaultPolicy, PartnerUpdate, UpdatePartner};
use crate::input::shorten;
use crate::limits;
use crate::model::{PartnerAccount, PartnerSettings, Timestamp};
use crate::policy::{Policy, fix_for};

impl Command for UpdatePartner {
    type Reply = PartnerAccount;

    fn needs(&self, needs: &mut Needs) {
        needs.partners.push(self.partner_id);
        needs.policy_owners.push(self.partner_id);
    }

    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<PartnerAccount> {
        let partner = batch.active_partner(&self.partner_id)?;
        let settings = updated(partner, &self.update)?;
        let mut shown = partner.partner.clone();
        let changes = match settings == shown.settings {
            true => Vec::new(),
            false => vec![Change::PartnerSettingsChanged(
                self.partner_id,
                Box::new(settings.clone()),
            )],
        };
        shown.settings = settings;
        let account = PartnerAccount {
            partner: shown,
            quota: batch.quota_of(partner, at),
        };
        Ok((changes, account))
    }

    fn refused_from(&self) -> u64 {
        limits::POLICIES_UNTIL
    }
}

fn updated(partner: &PartnerState, update: &PartnerUpdate) -> Result<PartnerSettings, Error> {
    let mut settings = partner.partner.settings.clone();
    let mut faults = Vec::new();
    for default in &update.default_policies {
        match &default.policy_id {
            None => drop(settings.default_policies.remove(&default.event_type)),
            Some(id) if partner.policies.contains_key(id) || Policy::template(id).is_some() => {
                settings
                    .default_policies
                    .insert(default.event_type.clone(), id.clone());
            }
            Some(id) => faults.push(unknown(partner, default, id)),
        }
    }
    let defaults = settings.default_policies.len();
    if defaults > limits::DEFAULT_POLICIES {
        faults.push(FieldError::new(
            "/defaultPolicies",
            "too_many",
            format!(
                "would make {defaults} defaults; at most {} are allowed",
                limits::DEFAULT_POLICIES
            ),
            "Remove some by sending null for them; \"*\" is the default of every other event type.",
        ));
    }
    if let Some(zone) = &update.time_zone {
        settings.time_zone.clone_from(zone);
    }
    match faults.is_empty() {
        true => Ok(settings),
        false => Err(Error::faults(faults)),
    }
}

fn unknown(partner: &PartnerState, default: &DefaultPolicy, policy_id: &str) -> FieldError {
    FieldError::new(
        format!("/defaultPolicies/{}", pointed(&default.said)),
        "policy_unknown",
        format!("there is no policy \"{}\"", shorten(policy_id)),
        fix_for(policy_id, partner.policies.keys().map(String::as_str)),
    )
}

/// Escapes a name for a JSON pointer (RFC 6901 section 3).
fn pointed(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}
