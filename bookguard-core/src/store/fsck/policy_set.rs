//! Checks partners' own policies and decisions. The ledger mentions a policy only if a booking is under it, and never
//! mentions these rows. They are checked against the policies' texts, each other and their partner.

use super::others::CheckedPartner;
use super::{CLOCK_SLACK_MS, Check, PAGE};
use crate::model::{PartnerId, PartnerSettings, Timestamp};
use crate::policy::{EVERY_EVENT_TYPE, Policy, Zone, normalise_event_type};
use crate::store::conn::{Row, StoreError, args};

/// The part of a `policy_version` row that the next row is checked against.
struct Before {
    partner_id: PartnerId,
    policy_id: String,
    version: i64,
    made_ms: i64,
    latest: i64,
}

impl Check<'_> {
    /// Checks every version: numbered from 1 without gaps in the order in which they were put, the last marked as the
    /// latest, and under the hash of a text that has the same id and number.
    pub(super) fn policy_versions(&mut self) -> Result<(), StoreError> {
        let mut before: Option<Before> = None;
        loop {
            let (partner_id, policy_id, version) = match &before {
                Some(row) => (
                    row.partner_id.as_bytes().to_vec(),
                    &*row.policy_id,
                    row.version,
                ),
                None => (Vec::new(), "", 0),
            };
            let rows = self.conn.all(
                "SELECT v.partner_id, v.policy_id, v.version, v.made_ms, v.latest, p.body FROM policy_version v \
                 LEFT JOIN policy p ON p.hash = v.hash WHERE (v.partner_id, v.policy_id, v.version) > ($1, $2, $3) \
                 ORDER BY v.partner_id, v.policy_id, v.version LIMIT $4",
                args![partner_id, policy_id, version, PAGE],
            )?;
            if rows.is_empty() {
                break;
            }
            for row in &rows {
                let now = Before {
                    partner_id: row.id(0)?,
                    policy_id: row.text(1)?.to_owned(),
                    version: row.int(2)?,
                    made_ms: row.int(3)?,
                    latest: row.int(4)?,
                };
                self.policy_version(before.as_ref(), &now, row);
                before = Some(now);
            }
        }
        if let Some(last) = &before {
            self.ends(last);
        }
        Ok(())
    }

    fn policy_version(&mut self, before: Option<&Before>, now: &Before, row: &Row) {
        let same = before.filter(|before| {
            (before.partner_id, &before.policy_id) == (now.partner_id, &now.policy_id)
        });
        if same.is_none()
            && let Some(last) = before
        {
            self.ends(last);
        }
        let mut fault = |field: &str, detail: String| {
            let place = format!("{} field {field}", now.place());
            self.findings.add("policy_version", place, detail);
        };
        let expected = same.map_or(1, |before| before.version + 1);
        if now.version != expected {
            fault("version", format!("number {expected} belongs here"));
        }
        match same {
            Some(before) if before.latest != 0 => {
                let detail = format!("version {} is marked as the latest", before.version);
                fault("latest", detail);
            }
            _ => {}
        }
        let said = row
            .text(5)
            .ok()
            .and_then(|body| Policy::from_json(body).ok());
        let says_so = said.is_some_and(|policy| {
            let document = policy.document();
            document.policy_id == now.policy_id && i64::from(document.version) == now.version
        });
        if !says_so {
            fault("hash", "its text is not that of this version".to_owned());
        }
        // A partner's id contains its creation time, and nobody puts a policy before that.
        let (since, what) = match same {
            Some(before) => (before.made_ms, "the version before it"),
            None => (now.partner_id.made_at().ms(), "its partner was made"),
        };
        if now.made_ms < since - CLOCK_SLACK_MS {
            let place = format!("{} field made_ms", now.place());
            let made = Timestamp::from_ms(now.made_ms);
            let detail = format!("{made} is before {what}");
            self.findings.doubt("policy_version", place, detail);
        }
    }

    /// Checks the last of a policy's versions.
    fn ends(&mut self, last: &Before) {
        if last.latest != 1 {
            let place = format!("{} field latest", last.place());
            let detail = "it is the latest and not marked as such";
            self.findings.add("policy_version", place, detail);
        }
    }

    /// Checks the number of versions and the time at which the last was put, which must be that of some policy's latest
    /// version.
    pub(super) fn policy_set_version(
        &mut self,
        it: &CheckedPartner,
        versions: u64,
        put_ms: i64,
    ) -> Result<(), StoreError> {
        let sql = "SELECT COUNT(*) FROM policy_version WHERE partner_id = $1";
        let found = self.conn.count(sql, args![&it.id])?;
        let last = self.conn.all(
            "SELECT made_ms FROM policy_version WHERE partner_id = $1 AND latest = 1 AND made_ms = $2 LIMIT 1",
            args![&it.id, put_ms],
        )?;
        if versions != found {
            let detail = format!("row says {versions}; there are {found}");
            self.fault(it, "policies", detail);
        }
        let never = found == 0 && put_ms == 0;
        if last.is_empty() && !never {
            let put_at = Timestamp::from_ms(put_ms);
            let detail = format!("no policy's latest version was put at {put_at}");
            self.fault(it, "put_ms", detail);
        }
        Ok(())
    }

    /// Checks that the policies which a partner's settings name exist.
    pub(super) fn settings(
        &mut self,
        it: &CheckedPartner,
        settings: &PartnerSettings,
    ) -> Result<(), StoreError> {
        let mut faults = Vec::new();
        for (event_type, policy_id) in &settings.default_policies {
            if event_type != EVERY_EVENT_TYPE && normalise_event_type(event_type) != *event_type {
                faults.push(format!("\"{event_type}\" is not how an event type is kept"));
            }
            let own = self.conn.all(
                "SELECT version FROM policy_version WHERE partner_id = $1 AND policy_id = $2 LIMIT 1",
                args![&it.id, policy_id.as_str()],
            )?;
            if own.is_empty() && Policy::template(policy_id).is_none() {
                faults.push(format!("there is no policy \"{policy_id}\""));
            }
        }
        if let Some(zone) = &settings.time_zone
            && Zone::iana(zone).is_none()
        {
            faults.push(format!("\"{zone}\" is not a time zone"));
        }
        for detail in faults {
            self.fault(it, "settings", detail);
        }
        Ok(())
    }
}

impl Before {
    fn place(&self) -> String {
        format!(
            "version {} of policy {} of partner {}",
            self.version, self.policy_id, self.partner_id
        )
    }
}
