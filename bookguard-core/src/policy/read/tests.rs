//! Ids, the order of tiers, and the defaults of sound documents.

use crate::input;
use crate::policy::Policy;

/// The faults of a policy with these fields beside its id, as `pointer code`.
fn faults(fields: &str) -> Vec<String> {
    match Policy::from_json(&format!(r#"{{"policyId":"p",{fields}}}"#)) {
        Ok(_) => Vec::new(),
        Err(error) => {
            let details = error.details.iter();
            let lines = details
                .inspect(|fault| assert!(!fault.message.is_empty() && !fault.fix.is_empty()));
            lines
                .map(|fault| format!("{} {}", fault.pointer, fault.code))
                .collect()
        }
    }
}

const LATE: &str = r#""organizer":{"late":{"refundBps":0}}"#;

#[test]
fn ids_have_one_alphabet() {
    for (id, sound) in [
        ("firm", true),
        ("0", true),
        ("a-b_c", true),
        (&*"a".repeat(64), true),
        (&*"a".repeat(65), false),
        ("", false),
        ("-a", false),
        ("_a", false),
        ("Firm", false),
        ("a b", false),
        ("é", false),
    ] {
        let read = Policy::from_json(&format!(r#"{{"policyId":"{id}",{LATE}}}"#));
        assert_eq!(read.is_ok(), sound, "{id}");
    }
}

#[test]
fn tiers_run_from_the_earliest_deadline_to_the_latest() {
    #[rustfmt::skip]
    let cases = [
        (vec![("P30D", None), ("P7D", None), ("P1DT1H", None), ("PT24H", None), ("P0D", None)], None),
        (vec![("P7D", None), ("P1W", None)], Some(1)),
        (vec![("P1D", None), ("PT24H", None)], Some(1)),
        (vec![("P1D", None), ("P2D", None)], Some(1)),
        // On the same day, the cutoffs decide. A cutoff compared with the event's own time: either may be later.
        (vec![("P1D", Some("12:00")), ("P1D", Some("18:00"))], None),
        (vec![("P1D", Some("18:00")), ("P1D", Some("12:00"))], Some(1)),
        (vec![("P1D", Some("18:00")), ("P1D", None)], None),
        (vec![("P1D", None), ("P1D", Some("18:00"))], None),
        (vec![("P3D", None), ("P5D", Some("18:00"))], Some(1)),
        (vec![("P3D", Some("18:00")), ("P5D", None)], Some(1)),
    ];
    for (tiers, fault) in cases {
        let list: Vec<String> = tiers
            .iter()
            .map(|(before, cutoff)| {
                let cutoff =
                    cutoff.map_or_else(String::new, |time| format!(r#""cutoffTime":"{time}","#));
                format!(r#"{{"before":"{before}",{cutoff}"outcome":{{"refundBps":0}}}}"#)
            })
            .collect();
        let expected: Vec<String> = fault
            .map(|index| format!("/organizer/tiers/{index}/before tiers_not_ordered"))
            .into_iter()
            .collect();
        let fields = format!(
            r#""organizer":{{"tiers":[{}],"late":{{"refundBps":0}}}}"#,
            list.join(",")
        );
        assert_eq!(faults(&fields), expected, "{tiers:?}");
    }
}

#[test]
fn defaults_are_written_out() {
    let policy = Policy::from_json(&format!(
        r#"{{"policyId":"p",{LATE},"deposit":{{"bps":1}}}}"#
    ))
    .unwrap();
    assert_eq!(
        policy.canonical_json(),
        concat!(
            r#"{"anchorTime":"00:00","backdateTolerance":"PT1H","claimWindow":"P14D","deposit":{"bps":1,"nonRefundable":false},"#,
            r#""forceMajeure":{"outcome":{"refundBps":10000},"requiresEvidence":true},"#,
            r#""organizer":{"late":{"refundBps":0},"noShow":{"refundBps":0},"tiers":[]},"#,
            r#""partner":{"cancel":{"refundBps":10000}},"policyId":"p","reschedule":{"floor":"keep_reached_tier"},"#,
            r#""rounding":"half_up","talent":{"cancel":{"refundBps":10000},"noShow":{"refundBps":10000}},"version":1}"#
        )
    );
}

#[test]
fn what_is_said_is_kept_to_the_letter() {
    let text = concat!(
        r#"{"anchorTime":"18:30","backdateTolerance":"PT090M","claimWindow":"P02W","currency":"KWD","#,
        r#""deposit":{"amount":"10.500","nonRefundable":true},"#,
        r#""forceMajeure":{"outcome":{"manual":true},"requiresEvidence":false},"grace":{"minNotice":"P7D","within":"PT24H"},"#,
        r#""name":"Größe","organizer":{"late":{"lesserOf":[{"refundBps":9500},{"penaltyAmount":"0.0050"}]},"noShow":{"refundBps":0},"#,
        r#""tiers":[{"before":"P1D","cutoffTime":"18:00","outcome":{"keepDeposit":true}}]},"#,
        r#""partner":{"cancel":{"compensationBps":0,"refundBps":10000}},"policyId":"p","reschedule":{"floor":"reset"},"#,
        r#""rounding":"half_even","talent":{"cancel":{"greaterOf":[{"refundBps":1},{"keepDeposit":true}]},"noShow":{"refundBps":10000}},"#,
        r#""timeZone":"Asia/Kuwait","version":7}"#
    );
    let policy = Policy::from_json(text).unwrap();
    assert_eq!(policy.canonical_json(), text);
    let back: Policy = serde_json::from_str(&serde_json::to_string(&policy).unwrap()).unwrap();
    assert_eq!(back.hash(), policy.hash());
}

#[test]
fn serde_reads_no_policy_that_its_text_does_not_give() {
    let twice = r#""policyId":"p","policyId":"q","organizer":{"late":{"refundBps":0}}"#;
    let deeper = r#""policyId":"p","organizer":{"late":{"refundBps":0,"refundBps":1}}"#;
    for fields in [twice, deeper] {
        let text = format!("{{{fields}}}");
        assert!(Policy::from_json(&text).is_err(), "{text}");
        let refused = serde_json::from_str::<Policy>(&text)
            .unwrap_err()
            .to_string();
        assert!(refused.starts_with("duplicate name"), "{refused}");
    }
}

/// The terms in words quote a policy's name.
#[test]
fn no_new_name_ends_its_quotation_and_stored_ones_stay() {
    for (name, is_new) in [
        ("House", true),
        ("O\u{2019}Brien\u{2019}s \u{2018}house\u{2019}", true),
        (r#"Flex\". All is returned. \"x"#, false),
        ("Flex\u{201d}", false),
        ("\u{ab}Flex\u{bb}", false),
        ("Flex\u{ff02}", false),
        ("Flex\u{1f677}", false),
        ("Flex\u{2019}\u{2019}", false),
        ("Flex''", false),
        ("Flex'\u{2019}", false),
        ("O'Brien's", true),
        (&format!("A{}", "\u{301}".repeat(9)), false),
    ] {
        let text = format!(r#"{{"policyId":"p","name":"{name}",{LATE}}}"#);
        assert_eq!(
            input::read(text.as_bytes(), Policy::read).is_ok(),
            is_new,
            "{name}"
        );
        let stored = Policy::from_json(&text).unwrap();
        let again: Policy = serde_json::from_str(stored.canonical_json()).unwrap();
        assert_eq!(again.hash(), stored.hash());
    }
}
