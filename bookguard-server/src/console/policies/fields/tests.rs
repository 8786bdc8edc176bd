use bookguard_core::policy::Policy;

use super::*;

fn json(text: &str) -> Json {
    serde_json::from_str(text).unwrap()
}

/// A policy as it becomes fields and a policy again.
fn again(policy: &Json) -> Result<Json, Vec<String>> {
    Ok(super::policy(&fields(policy)?))
}

/// A house policy with one member replaced or added.
fn house(pointer: &str, value: &str) -> Json {
    let mut policy = json(
        r#"{"policyId": "house", "organizer": {"tiers": [{"before": "P7D", "outcome": {"refundBps": 5000}}], "late": {"refundBps": 0}}}"#,
    );
    match pointer.strip_prefix("/organizer/tiers/0") {
        Some(within) => {
            let mut tier = member(&policy, STEPS).cloned();
            let Some(Json::Array(tiers)) = &mut tier else {
                panic!()
            };
            put(&mut tiers[0], within, Some(json(value)));
            put(&mut policy, STEPS, tier);
        }
        None => put(&mut policy, pointer, Some(json(value))),
    }
    policy
}

#[test]
fn the_whole_library_becomes_fields_and_the_same_policies_again() {
    for template in Policy::templates() {
        let policy = json(template.canonical_json());
        let again = again(&policy).unwrap();
        let hash = Policy::from_json(&again.to_string())
            .unwrap()
            .hash()
            .to_owned();
        assert_eq!(hash, template.hash(), "{again}");
    }
}

#[test]
fn what_fields_can_say_becomes_them_exactly() {
    #[rustfmt::skip]
    let cases = [
        ("/version", "3", vec![("/version", "3")]),
        ("/name", "\"<b>\\\"x\\\" — ü\"", vec![("/name", "<b>\"x\" — ü")]),
        (
            "/organizer/late",
            r#"{"refundBps": 3333}"#,
            vec![
                ("/organizer/late/kind", "refundBps"),
                ("/organizer/late/figure", "33.33"),
            ],
        ),
        ("/organizer/late", r#"{"refundBps": 5}"#, vec![("/organizer/late/figure", "0.05")]),
        ("/organizer/late", r#"{"refundBps": 10000}"#, vec![("/organizer/late/figure", "100")]),
        ("/organizer/late", r#"{"refundBps": 99999}"#, vec![("/organizer/late/figure", "999.99")]),
        ("/organizer/late", r#"{"refundBps": "half"}"#, vec![("/organizer/late/figure", "half")]),
        ("/organizer/late", r#"{"refundBps": ""}"#, vec![("/organizer/late/kind", "refundBps"), ("/organizer/late/figure", "")]),
        (
            "/organizer/late",
            r#"{"penaltyAmount": "150.00"}"#,
            vec![
                ("/organizer/late/kind", "penaltyAmount"),
                ("/organizer/late/figure", "150.00"),
            ],
        ),
        ("/organizer/late", r#"{"manual": true}"#, vec![("/organizer/late/kind", "manual")]),
        ("/organizer/noShow", r#"{"keepDeposit": true}"#, vec![("/organizer/noShow/kind", "keepDeposit")]),
        ("/forceMajeure/requiresEvidence", "false", vec![("/forceMajeure/requiresEvidence", "false")]),
        (
            "/deposit",
            r#"{"amount": "25.00", "nonRefundable": true}"#,
            vec![
                ("/deposit/kind", "amount"),
                ("/deposit/figure", "25.00"),
                ("/deposit/nonRefundable", "true"),
            ],
        ),
        ("/deposit", r#"{"bps": 2500}"#, vec![("/deposit/kind", "bps"), ("/deposit/figure", "25")]),
        ("/claimWindow", "\"P007D\"", vec![("/claimWindow", "007"), ("/claimWindow/unit", "days")]),
        ("/claimWindow", "\"P2W\"", vec![("/claimWindow", "2"), ("/claimWindow/unit", "weeks")]),
        ("/claimWindow", "\"PT48H\"", vec![("/claimWindow", "48"), ("/claimWindow/unit", "hours")]),
        ("/claimWindow", "\"PT90M\"", vec![("/claimWindow", "90"), ("/claimWindow/unit", "minutes")]),
        ("/claimWindow", "\"PsoonD\"", vec![("/claimWindow", "soon")]),
        (
            "/organizer/tiers/0/cutoffTime",
            "\"18:00\"",
            vec![
                ("/organizer/tiers/0/cutoffTime", "18:00"),
                ("/organizer/tiers/0/before", "7"),
            ],
        ),
    ];
    for (pointer, value, expected) in cases {
        let policy = house(pointer, value);
        let fields = fields(&policy).unwrap_or_else(|left| panic!("{value}: {left:?}"));
        for (name, text) in expected {
            assert_eq!(fields.get(name).unwrap_or_default(), text, "{value}");
        }
        assert_eq!(
            Value::from(super::policy(&fields)),
            Value::from(policy),
            "{value}"
        );
    }
}

#[test]
fn what_fields_cannot_say_is_named_and_becomes_none() {
    #[rustfmt::skip]
    let cases = [
        ("/organizer/late", r#"{"lesserOf": [{"refundBps": 0}, {"keepDeposit": true}]}"#, "/organizer/late"),
        ("/organizer/late", r#"{"refundBps": 5000, "compensationBps": 100}"#, "/organizer/late"),
        ("/organizer/late", r#"{"refundBps": "50"}"#, "/organizer/late"),
        ("/organizer/late", r#"{"refundBps": 50.5}"#, "/organizer/late"),
        ("/organizer/late", r#"{"refundBps": 12345678901234567890123}"#, "/organizer/late"),
        ("/organizer/late", r#"{"penaltyAmount": 150}"#, "/organizer/late"),
        ("/organizer/late", r#"{"keepDeposit": false}"#, "/organizer/late"),
        ("/organizer/late", "{}", "/organizer/late"),
        ("/organizer/tiers/0/outcome", r#"{"refundBps": 1, "more": 1}"#, "/organizer/tiers/0/outcome"),
        ("/organizer/tiers/0/note", "1", "/organizer/tiers/0/note"),
        ("/organizer/tiers", "[{}]", "/organizer/tiers/0"),
        ("/organizer/tiers", "[]", ""),
        ("/claimWindow", "\"P1W1D\"", "/claimWindow"),
        ("/claimWindow", "\"P1DT1H\"", "/claimWindow"),
        ("/claimWindow", "7", "/claimWindow"),
        ("/version", "\"3\"", "/version"),
        ("/version", "3.5", "/version"),
        ("/name", "\" x\"", "/name"),
        ("/name", "\"\"", "/name"),
        ("/name", "\"a\\nb\"", "/name"),
        ("/deposit", r#"{"bps": 1, "amount": "1"}"#, "/deposit/amount"),
        ("/deposit", "null", "/deposit"),
        ("/deposit", r#"{"nonRefundable": true}"#, "/deposit"),
        ("/talent", "{}", "/talent"),
        ("/graec", "{\"a/b\": {}}", "/graec/a~1b"),
    ];
    for (pointer, value, left) in cases {
        match fields(&house(pointer, value)) {
            Ok(_) => assert_eq!(left, "", "{value}"),
            Err(found) => assert_eq!(found[0], left, "{value}: {found:?}"),
        }
    }
    let twice = json(r#"{"policyId": "a", "policyId": "b"}"#);
    assert_eq!(fields(&twice).unwrap_err(), ["/policyId"]);
    for whole in ["[]", "null", "7", "\"firm\""] {
        assert_eq!(fields(&json(whole)).unwrap_err(), [""], "{whole}");
    }
    let tier = r#"{"before": "P1D", "outcome": {"manual": true}},"#;
    let many = |count| {
        house(
            STEPS,
            &format!("[{}]", tier.repeat(count).trim_end_matches(',')),
        )
    };
    assert!(fields(&many(POLICY_TIERS)).is_ok());
    assert!(fields(&many(POLICY_TIERS + 1)).is_err());
}

#[test]
fn of_what_fields_cannot_say_only_as_much_is_collected_as_a_page_needs() {
    let (name, items) = ("~".repeat(30_000), vec!["0"; 16_000].join(","));
    let leaves = format!(r#"{{"{name}": [{items}]}}"#);
    for (pointer, value, most) in [
        (STEPS, format!("[{leaves}]"), LEFT + 1),
        ("/more", leaves.clone(), LEFT),
    ] {
        let left = fields(&house(pointer, &value)).unwrap_err();
        assert_eq!(left.len(), most, "{pointer}");
        let longest = left.iter().map(String::len).max();
        assert!(longest < Some(3 * NAME_CHARS), "{pointer}: {longest:?}");
    }
    let outcome = format!(r#"{{"organizer": {{"late": [{items}]}}, "more": 1}}"#);
    let left = fields(&json(&outcome)).unwrap_err();
    assert_eq!(left, ["/organizer/late", "/more"]);
}

#[test]
fn shares_are_typed_as_percent() {
    for (text, bps) in [
        ("50", Some(5000)),
        ("50 %", Some(5000)),
        ("12.5%", Some(1250)),
        ("33.33", Some(3333)),
        ("050", Some(5000)),
        ("150", Some(15_000)),
        ("0", Some(0)),
        ("33.333", None),
        ("50.", None),
        (".5", None),
        ("-5", None),
        ("+5", None),
        ("5e1", None),
        ("٥", None),
        ("12345", None),
        ("%", None),
        ("", None),
    ] {
        assert_eq!(basis_points(text), bps, "{text}");
    }
}

#[test]
fn a_figure_is_unused_where_what_is_chosen_takes_none() {
    let unused = |pairs: &[(&str, &str)]| {
        let pairs = pairs.iter();
        let pairs = pairs.map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        unused_figures(&Fields::new(pairs.collect()))
    };
    for (name, kind, is_unused) in [
        ("/organizer/tiers/0/outcome", "", true),
        ("/organizer/tiers/0/outcome", "keepDeposit", true),
        ("/organizer/tiers/0/outcome", "refundBps", false),
        ("/forceMajeure/outcome", "", true),
        ("/organizer/late", "manual", true),
        ("/organizer/late", "penaltyAmount", false),
        ("/deposit", "", true),
        ("/deposit", "refundBps", true),
        ("/deposit", "bps", false),
        ("/deposit", "amount", false),
    ] {
        let (choice, figure) = (format!("{name}/kind"), format!("{name}/figure"));
        let expected = match is_unused {
            true => vec![figure.clone()],
            false => Vec::new(),
        };
        assert_eq!(
            unused(&[(&*choice, kind), (&*figure, "50")]),
            expected,
            "{name} {kind}"
        );
        let empty = unused(&[(&*choice, kind), (&*figure, " ")]);
        assert!(empty.is_empty(), "{name} {kind}");
    }
    assert_eq!(unused(&[("/talent/cancel/figure", "0")]).len(), 1);
}

#[test]
fn steps_are_counted_anew_and_no_more_than_a_policy_may_have() {
    let pairs = [
        ("/organizer/tiers/3/before", "7"),
        ("/organizer/tiers/0/before", "30"),
        ("/organizer/tiers/3/outcome/kind", "manual"),
        ("/organizer/tiers/01/before", "1"),
        ("/organizer/tiers/99999999999999999999/before", "1"),
        ("/organizer/tiers/16/before", "1"),
        ("/organizer/tiers/x", "1"),
        ("/organizer/tiers", "1"),
        ("/policyId", "p"),
    ];
    let pairs = pairs.map(|(name, text)| (name.to_owned(), text.to_owned()));
    let typed = Fields::new(pairs.into());
    assert_eq!(
        policy(&typed).to_string(),
        r#"{ "policyId": "p", "organizer": { "tiers": [{ "before": "P30D" }, { "before": "P7D", "outcome": { "manual": true } }] } }"#
    );
}
