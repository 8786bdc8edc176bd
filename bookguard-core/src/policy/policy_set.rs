//! A partner's policy set (its policies and settings at one moment), and the choice of a booking's policy.
//!
//! Invariant: versions are immutable and permanent, so a policy from an outdated set is still one of the partner's.

use std::collections::BTreeMap;

use super::document::Policy;
use super::templates::{DOT_ABOVE, EVERY_EVENT_TYPE, normalise_event_type};
use super::words::PolicySource;
use crate::error::Error;
use crate::input::{nearest, shorten};
use crate::model::{PartnerSettings, Timestamp};

/// The version of a partner's policies. Equal versions mean equal policies, even if a database was restored, lost versions
/// and numbered others the same: the time of the last put differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicySetVersion {
    /// Versions put so far, all policies together.
    pub versions: u64,
    /// When the last of them was put; the epoch when there is none.
    pub put_at: Timestamp,
}

impl Default for PolicySetVersion {
    fn default() -> Self {
        Self {
            versions: 0,
            put_at: Timestamp::EPOCH,
        }
    }
}

/// A partner's policies and settings at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicySet {
    /// The version of these policies.
    pub policy_set_version: PolicySetVersion,
    /// The partner's settings.
    pub settings: PartnerSettings,
    /// The latest version of each of its policies, by id.
    pub policies: BTreeMap<String, Policy>,
}

impl PolicySet {
    /// Whether the set is still current for a partner with this version and these settings.
    pub fn is_current(
        &self,
        policy_set_version: PolicySetVersion,
        settings: &PartnerSettings,
    ) -> bool {
        self.policy_set_version == policy_set_version && self.settings == *settings
    }

    /// The policy with this id: the latest version of the partner's own, otherwise the library's.
    pub fn named(&self, policy_id: &str) -> Option<&Policy> {
        self.policies
            .get(policy_id)
            .or_else(|| Policy::template(policy_id))
    }

    /// The fix for an id that names no policy.
    pub fn fix_for(&self, policy_id: &str) -> String {
        fix_for(policy_id, self.policies.keys().map(String::as_str))
    }

    /// The policy of a booking that chooses none: the partner's default for the event type, then the partner's default,
    /// then, if the operator allows it, the library's default for the event type, which is `firm` for unknown types.
    ///
    /// # Errors
    /// `policy_unknown` for a default that names no policy.
    pub fn default_for(
        &self,
        event_type: &str,
        library: bool,
    ) -> Result<Option<(Policy, PolicySource)>, Error> {
        let defaults = &self.settings.default_policies;
        let key = normalise_event_type(event_type);
        // If the dot of an "i" came as a character of its own, 0.1.0 stored an underscore for it.
        let first = || normalise_event_type(&key.replace(DOT_ABOVE, " "));
        let own = defaults
            .get(&key)
            .or_else(|| defaults.get(&first()))
            .map(|id| (id, PolicySource::PartnerDefaultForEventType))
            .or_else(|| {
                let every = defaults.get(EVERY_EVENT_TYPE);
                every.map(|id| (id, PolicySource::PartnerDefault))
            });
        let Some((policy_id, source)) = own else {
            let template = || Policy::template_for_event_type(event_type).clone();
            return Ok(library.then(|| (template(), PolicySource::Library)));
        };
        match self.named(policy_id) {
            Some(policy) => Ok(Some((policy.clone(), source))),
            None => Err(Error::invalid(
                "policy_unknown",
                format!(
                    "The partner's default policy \"{}\" does not exist; choose another with PATCH /v1/partners/me.",
                    shorten(policy_id)
                ),
            )),
        }
    }
}

/// The fix for an id that is neither one of these nor in the library.
pub(crate) fn fix_for<'a>(policy_id: &str, own: impl Iterator<Item = &'a str>) -> String {
    let library: Vec<&str> = Policy::template_ids().collect();
    let known: Vec<&str> = own.chain(library.iter().copied()).collect();
    match nearest(policy_id, &known) {
        Some(id) => format!("Did you mean \"{id}\"?"),
        None => format!(
            "Send the id of a policy of your own (GET /v1/policies) or one of the library: {}.",
            library.join(", ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(id: &str, version: u32) -> (String, Policy) {
        let text = format!(
            r#"{{"policyId":"{id}","version":{version},"organizer":{{"late":{{"refundBps":0}}}}}}"#
        );
        (id.to_owned(), Policy::from_json(&text).unwrap())
    }

    fn policy_set_version(versions: u64, put_ms: i64) -> PolicySetVersion {
        let put_at = Timestamp::from_ms(put_ms);
        PolicySetVersion { versions, put_at }
    }

    fn policy_set(defaults: &[(&str, &str)]) -> PolicySet {
        let text = |(a, b): &(&str, &str)| ((*a).to_owned(), (*b).to_owned());
        PolicySet {
            policy_set_version: policy_set_version(4, 7),
            settings: PartnerSettings {
                default_policies: defaults.iter().map(text).collect(),
                time_zone: None,
            },
            policies: [own("house", 3), own("gala", 1)].into(),
        }
    }

    #[test]
    fn the_first_that_there_is_wins() {
        use PolicySource::{Library, PartnerDefault, PartnerDefaultForEventType as ForType};
        let both = &[("live_music", "house"), ("*", "gala")][..];
        let dotted = &[("i\u{307}mza", "gala"), ("i_mza", "house")][..];
        let templates = &[("concert", "moderate"), ("*", "flexible")][..];
        for (defaults, event_type, library, expected) in [
            (both, "Live Music", true, Some(("house", 3, ForType))),
            (both, " live-music ", false, Some(("house", 3, ForType))),
            (both, "concert", true, Some(("gala", 1, PartnerDefault))),
            (both, "*", true, Some(("gala", 1, PartnerDefault))),
            (both, "🎸", true, Some(("gala", 1, PartnerDefault))),
            (dotted, "i\u{307}mza", false, Some(("gala", 1, ForType))),
            (&dotted[1..], "İmza", false, Some(("house", 3, ForType))),
            (templates, "Concert", true, Some(("moderate", 1, ForType))),
            (templates, "x", true, Some(("flexible", 1, PartnerDefault))),
            (
                &both[..1],
                "concert",
                true,
                Some(("talent_standard", 1, Library)),
            ),
            (&both[..1], "concert", false, None),
            (&[], "bar mitzvah", true, Some(("firm", 1, Library))),
            (&[], "bar mitzvah", false, None),
        ] {
            let found = policy_set(defaults)
                .default_for(event_type, library)
                .unwrap();
            let found = found.as_ref().map(|(policy, source)| {
                let document = policy.document();
                (document.policy_id.as_str(), document.version, *source)
            });
            assert_eq!(found, expected, "{defaults:?} {event_type} {library}");
        }
        let refusal = policy_set(&[("*", "gone")])
            .default_for("x", true)
            .unwrap_err();
        assert_eq!(refusal.code, "policy_unknown");
    }

    #[test]
    fn a_name_is_the_partner_s_own_before_the_library_s() {
        let mut policy_set = policy_set(&[]);
        assert_eq!(policy_set.named("house").unwrap().document().version, 3);
        assert_eq!(policy_set.named("firm"), Policy::template("firm"));
        assert_eq!(policy_set.named("fimr"), None);
        assert_eq!(policy_set.fix_for("fimr"), "Did you mean \"firm\"?");
        assert_eq!(policy_set.fix_for("hosue"), "Did you mean \"house\"?");
        assert!(
            policy_set
                .fix_for("nothing-like-it")
                .contains("case_by_case")
        );
        // A template added to the library later does not replace a partner's policy of that name.
        policy_set.policies.extend([own("firm", 9)]);
        assert_eq!(policy_set.named("firm").unwrap().document().version, 9);
    }

    #[test]
    fn any_change_makes_a_policy_set_outdated() {
        let policy_set = policy_set(&[("*", "house")]);
        let zone = PartnerSettings {
            time_zone: Some("UTC".to_owned()),
            ..policy_set.settings.clone()
        };
        assert!(policy_set.is_current(policy_set_version(4, 7), &policy_set.settings));
        assert!(!policy_set.is_current(policy_set_version(5, 7), &policy_set.settings));
        assert!(!policy_set.is_current(policy_set_version(4, 8), &policy_set.settings));
        assert!(!policy_set.is_current(policy_set_version(4, 7), &zone));
    }
}
