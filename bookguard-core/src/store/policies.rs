//! Partners' own policies in the store: how they are written, loaded for a batch, and queried.
//!
//! The text of a version is stored once per hash in `policy`. `policy_version` says which partner put it, when, and
//! under which number.

use super::conn::{Row, Statement, StoreError, args};
use super::load::Loading;
use super::read::{Read, Reader};
use super::terms::{hash_bytes, known_policy, policy_hash};
use crate::engine::batch::{BatchState, LatestPolicy};
use crate::engine::command::KeptPolicy;
use crate::model::{PartnerId, Timestamp};
use crate::policy::{Policy, PolicySet, PolicySetVersion};

/// The latest version of every policy of several partners.
pub(super) const LATEST: &str = "SELECT partner_id, policy_id, version, made_ms, hash FROM policy_version \
     WHERE partner_id IN ({}) AND latest = 1";

pub(super) fn read_latest(work: &mut BatchState, _: &Loading<'_>, row: &Row) -> Read<()> {
    let latest = LatestPolicy {
        version: number(row, 2)?,
        made_at: row.time(3)?,
        hash: policy_hash(row, 4)?,
    };
    if let Some(state) = work.partners.get_mut(&row.id(0)?) {
        state.policies.insert(row.text(1)?.to_owned(), latest);
    }
    Ok(())
}

fn number(row: &Row, column: usize) -> Result<u32, StoreError> {
    let n = row.int(column)?;
    u32::try_from(n).map_err(|_| StoreError::Corrupt(format!("a policy has version {n}")))
}

/// Adds a version, which becomes its policy's latest. The text is written elsewhere.
pub(super) fn push<'a>(
    statements: &mut Vec<Statement<'a>>,
    partner_id: &'a PartnerId,
    kept: &'a KeptPolicy,
) {
    let document = kept.policy.document();
    let policy_id = document.policy_id.as_str();
    statements.push(Statement::new(
        "UPDATE policy_version SET latest = 0 WHERE partner_id = $1 AND policy_id = $2 AND latest = 1",
        args![partner_id, policy_id],
    ));
    statements.push(Statement::new(
        "INSERT INTO policy_version (partner_id, policy_id, version, made_ms, latest, hash) VALUES ($1, $2, $3, $4, 1, $5)",
        args![partner_id, policy_id, document.version, kept.made_at, hash_bytes(kept.policy.hash())],
    ));
}

/// The version of a partner's policy set, from its columns policies and put_ms.
pub(super) fn policy_set_version(
    row: &Row,
    policies: usize,
    put_ms: usize,
) -> Result<PolicySetVersion, StoreError> {
    Ok(PolicySetVersion {
        versions: row.size(policies)?,
        put_at: row.time(put_ms)?,
    })
}

/// Stores how many versions a partner has put, and when it put the last.
pub(super) fn counted(partner_id: &PartnerId, versions: u64, put_at: Timestamp) -> Statement<'_> {
    Statement::new(
        "UPDATE partner SET policies = $1, put_ms = $2 WHERE id = $3",
        args![versions, put_at, partner_id],
    )
}

impl Reader<'_> {
    /// A partner's policies and decisions as of one moment. The policy set of an unknown partner is empty.
    pub fn policy_set(&mut self, partner_id: &PartnerId) -> Read<PolicySet> {
        // One query sees one moment.
        let rows = self.all(
            "SELECT n.policies, n.put_ms, n.settings, v.policy_id, p.body FROM partner n \
             LEFT JOIN policy_version v ON v.partner_id = n.id AND v.latest = 1 \
             LEFT JOIN policy p ON p.hash = v.hash WHERE n.id = $1",
            args![partner_id],
        )?;
        let Some(first) = rows.first() else {
            return Ok(PolicySet::default());
        };
        let mut policy_set = PolicySet {
            policy_set_version: policy_set_version(first, 0, 1)?,
            settings: first.json(2)?,
            ..PolicySet::default()
        };
        for row in &rows {
            if let Some(policy_id) = row.maybe_text(3)? {
                let policy = known_policy(row.text(4)?)?;
                policy_set.policies.insert(policy_id.to_owned(), policy);
            }
        }
        Ok(policy_set)
    }

    /// One version of a partner's policy; the latest if no version is given.
    pub fn policy(
        &mut self,
        partner_id: &PartnerId,
        policy_id: &str,
        version: Option<u32>,
    ) -> Read<Option<KeptPolicy>> {
        let row = match version {
            None => self.first(
                "SELECT v.made_ms, p.body FROM policy_version v JOIN policy p ON p.hash = v.hash \
                 WHERE v.partner_id = $1 AND v.policy_id = $2 AND v.latest = 1",
                args![partner_id, policy_id],
            )?,
            Some(version) => self.first(
                "SELECT v.made_ms, p.body FROM policy_version v JOIN policy p ON p.hash = v.hash \
                 WHERE v.partner_id = $1 AND v.policy_id = $2 AND v.version = $3",
                args![partner_id, policy_id, version],
            )?,
        };
        row.as_ref().map(kept).transpose()
    }

    /// The latest versions of a partner's policies after `after`, ordered by policy id.
    pub fn policies(
        &mut self,
        partner_id: &PartnerId,
        after: &str,
        rows: u32,
    ) -> Read<Vec<KeptPolicy>> {
        self.each(
            "SELECT v.made_ms, p.body FROM policy_version v JOIN policy p ON p.hash = v.hash \
             WHERE v.partner_id = $1 AND v.policy_id > $2 AND v.latest = 1 ORDER BY v.policy_id LIMIT $3",
            args![partner_id, after, rows],
            kept,
        )
    }

    /// The versions of a partner's policy, newest first, below `before`.
    pub fn policy_versions(
        &mut self,
        partner_id: &PartnerId,
        policy_id: &str,
        before: Option<u32>,
        rows: u32,
    ) -> Read<Vec<KeptPolicy>> {
        let before = before.map_or(i64::MAX, i64::from);
        self.each(
            "SELECT v.made_ms, p.body FROM policy_version v JOIN policy p ON p.hash = v.hash \
             WHERE v.partner_id = $1 AND v.policy_id = $2 AND v.version < $3 ORDER BY v.version DESC LIMIT $4",
            args![partner_id, policy_id, before, rows],
            kept,
        )
    }
}

fn kept(row: &Row) -> Read<KeptPolicy> {
    let policy: Policy = known_policy(row.text(1)?)?;
    Ok(KeptPolicy {
        made_at: row.time(0)?,
        policy,
    })
}
