//! Versions and settings, as tables.

use crate::engine::command::KeptPolicy;
use crate::features::fixture::*;
use crate::features::partners::{DefaultPolicy, PartnerUpdate, UpdatePartner};
use crate::features::policies::{PolicyVersion, PutPolicy};
use crate::policy::Policy;

fn policy(id: &str, late: u32) -> Policy {
    let text = format!(r#"{{"policyId":"{id}","organizer":{{"late":{{"refundBps":{late}}}}}}}"#);
    Policy::from_json(&text).unwrap()
}

fn put(id: &str, late: u32, version: Option<u32>) -> Envelope<PolicyVersion> {
    command(PutPolicy {
        partner_id: crate::features::fixture::id(1),
        policy: policy(id, late).as_version(version.unwrap_or(1)),
        version_said: version.is_some(),
        english: Vec::new(),
        warnings: Vec::new(),
    })
}

/// Decides and applies. Returns the reply and whether anything changed, or the refusal's code.
fn applied<R: Debug + 'static>(
    work: &mut BatchState,
    command: &Envelope<R>,
) -> Result<(R, bool), String> {
    let (changes, reply) = outcome(work, command).map_err(|error| error.code.into_owned())?;
    apply_all(work, &changes);
    Ok((reply, !changes.is_empty()))
}

/// The version's number and whether it is new, or the refusal's code.
fn done(work: &mut BatchState, command: &Envelope<PolicyVersion>) -> Result<(u32, bool), String> {
    applied(work, command).map(|(put, is_new)| (put.version, is_new))
}

#[test]
fn versions_are_numbered_in_the_order_they_are_decided() {
    let mut work = work(PartnerStatus::Active, vec![]);
    for (n, (id, late, said, expected)) in [
        ("house", 0, None, Ok((1, true))),
        ("house", 0, None, Ok((1, false))),
        ("house", 5, Some(1), Ok((2, true))),
        // A change to version 1, sent twice: the first answer may have been lost.
        ("house", 5, Some(1), Ok((2, false))),
        ("house", 6, Some(1), Err("policy_version_conflict")),
        ("house", 6, Some(4), Err("policy_version_conflict")),
        ("house", 6, Some(3), Ok((3, true))),
        ("house", 0, None, Ok((4, true))),
        ("other", 0, Some(2), Err("policy_version_conflict")),
        ("other", 0, Some(1), Ok((1, true))),
        ("firm", 0, None, Err("policy_id_reserved")),
        // Only a new one.
        ("third", 0, Some(0), Ok((1, true))),
        ("third", 0, Some(0), Ok((1, false))),
        ("third", 1, Some(0), Err("policy_version_conflict")),
        ("house", 6, Some(0), Err("policy_version_conflict")),
    ]
    .into_iter()
    .enumerate()
    {
        let expected = expected.map_err(str::to_owned);
        assert_eq!(done(&mut work, &put(id, late, said)), expected, "step {n}");
    }
    let ahead = decide(&work, &put("new", 0, Some(2))).unwrap_err();
    assert!(ahead.message.contains("no version yet"), "{ahead}");
    let taken = decide(&work, &put("house", 6, Some(0))).unwrap_err();
    assert!(taken.message.contains("already"), "{taken}");
    let partner = &work.partners[&id(1)];
    assert_eq!(
        (partner.policy_set_version.versions, partner.policies.len()),
        (6, 3)
    );
    assert_eq!(partner.policies["house"].version, 4);
}

#[test]
fn an_id_the_library_took_later_stays_its_partner_s() {
    let mut work = work(PartnerStatus::Active, vec![]);
    work.apply(&Change::PolicyAdded {
        partner_id: id(1),
        kept: Box::new(KeptPolicy {
            policy: policy("firm", 0),
            made_at: NOW,
        }),
        versions: 1,
    });
    assert_eq!(done(&mut work, &put("firm", 1, None)), Ok((2, true)));
}

#[test]
fn policies_and_versions_have_a_maximum_need_room_and_a_waiting_partner_has_none() {
    let mut full = work(PartnerStatus::Active, vec![]);
    for n in 0..limits::POLICIES_PER_PARTNER {
        done(&mut full, &put(&format!("p{n}"), 0, None)).unwrap();
    }
    let refused = |code: &str| Err(code.to_owned());
    assert_eq!(
        done(&mut full, &put("one-more", 0, None)),
        refused("too_many_policies")
    );
    assert_eq!(done(&mut full, &put("p7", 1, None)), Ok((2, true)));
    full.partners
        .get_mut(&id(1))
        .unwrap()
        .policy_set_version
        .versions = limits::POLICY_VERSIONS_PER_PARTNER;
    assert_eq!(
        done(&mut full, &put("p7", 2, None)),
        refused("too_many_policy_versions")
    );
    assert_eq!(done(&mut full, &put("p7", 1, None)), Ok((2, false)));
    assert!(!waits_for_room(&full, &put("p7", 1, None)));
    let empty = work(PartnerStatus::Active, vec![]);
    assert!(waits_for_room(&empty, &put("p7", 1, None)));
    let mut pending = work(PartnerStatus::Pending, vec![]);
    assert_eq!(
        done(&mut pending, &put("house", 0, None)),
        refused("partner_pending")
    );
}

fn update(
    defaults: &[(&str, Option<&str>)],
    time_zone: Option<Option<&str>>,
) -> Envelope<PartnerAccount> {
    let default = |(event_type, policy_id): &(&str, Option<&str>)| DefaultPolicy {
        said: (*event_type).to_owned(),
        event_type: (*event_type).to_owned(),
        policy_id: policy_id.map(str::to_owned),
    };
    command(UpdatePartner {
        partner_id: id(1),
        update: PartnerUpdate {
            default_policies: defaults.iter().map(default).collect(),
            time_zone: time_zone.map(|zone| zone.map(str::to_owned)),
        },
    })
}

#[test]
fn decisions_are_merged_with_what_was_decided_before() {
    let mut work = work(PartnerStatus::Active, vec![]);
    done(&mut work, &put("house", 0, None)).unwrap();
    #[rustfmt::skip]
    let cases = [
        (update(&[("*", Some("house")), ("dj", Some("firm"))], None), true, "*=house dj=firm", None),
        (update(&[], Some(Some("Asia/Tokyo"))), true, "*=house dj=firm", Some("Asia/Tokyo")),
        (update(&[("dj", Some("firm"))], None), false, "*=house dj=firm", Some("Asia/Tokyo")),
        (update(&[("dj", None), ("none", None)], None), true, "*=house", Some("Asia/Tokyo")),
        (update(&[], Some(None)), true, "*=house", None),
        (update(&[], Some(None)), false, "*=house", None),
    ];
    for (command, changed, defaults, zone) in cases {
        let changes = caused(&work, &command);
        assert_eq!(!changes.is_empty(), changed, "{command:?}");
        apply_all(&mut work, &changes);
        let settings = &work.partners[&id(1)].partner.settings;
        let pairs = settings.default_policies.iter();
        let pairs: Vec<String> = pairs.map(|(of, id)| format!("{of}={id}")).collect();
        assert_eq!(
            (pairs.join(" ").as_str(), settings.time_zone.as_deref()),
            (defaults, zone)
        );
    }
}

#[test]
fn a_default_that_names_nothing_is_refused_and_nothing_else_of_the_request_is_done() {
    let work = work(PartnerStatus::Active, vec![]);
    let command = update(
        &[("dj", Some("firm")), ("a/b~", Some("frim"))],
        Some(Some("UTC")),
    );
    let error = decide(&work, &command).unwrap_err();
    let fault = &error.details[0];
    assert_eq!(
        (fault.pointer.as_str(), fault.code.as_str()),
        ("/defaultPolicies/a~1b~0", "policy_unknown")
    );
    assert_eq!(fault.fix, "Did you mean \"firm\"?");
}

#[test]
fn whoever_may_only_change_policies_leaves_some_changes_of_the_day_for_keys() {
    let mut work = work(PartnerStatus::Active, vec![]);
    let limit = limits::POLICIES_UNTIL;
    work.changes.insert(id(1), limit - 1);
    let zone = || asked_by_a_key(update(&[], Some(Some("Asia/Tokyo"))));
    let kept = || asked_by_a_key(put("house", 0, None));
    assert!(decide(&work, &zone()).is_ok() && decide(&work, &kept()).is_ok());
    work.changes.insert(id(1), limit);
    assert_eq!(code_of(&work, &zone()), "quota_exceeded");
    assert_eq!(code_of(&work, &kept()), "quota_exceeded");
}

/// The same command, which the audit records as one of a key of partner 1.
fn asked_by_a_key<R>(command: Envelope<R>) -> Envelope<R> {
    let at = command.at;
    command.recorded_as(AuditRecord {
        audit_id: AuditId::new(at, [1; 10]),
        at,
        actor: AuditActor {
            kind: AuditActorKind::ApiKey,
            key_id: None,
            name: None,
        },
        address: None,
        action: "updatePartner".to_owned(),
        partner_id: Some(id(1)),
        subject: BTreeMap::new(),
    })
}
