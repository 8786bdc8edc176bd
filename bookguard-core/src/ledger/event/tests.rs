//! Commitments: what verifies, what remains after erasure, and that nothing else verifies.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::ledger::hash::Hash;

/// Salts 1, 2, 3 …: distinct, and no more random than a test needs.
fn counting() -> impl FnMut() -> [u8; 32] {
    let mut next = 0;
    move || {
        next += 1;
        [next; 32]
    }
}

fn fields() -> Map<String, Value> {
    let fields = json!({
        "partnerBookingId": "b-1 \"quoted\" \u{1f600}",
        "bookingValue": 100.5,
        "guests": 4,
        "contact": {"name": "Ada", "tags": ["a", null, true]},
    });
    fields.as_object().unwrap().clone()
}

fn sealed() -> Sealed {
    seal(LeafKind::BookingCreated, &fields(), counting()).unwrap()
}

/// The fields, each with its salt.
fn disclosures(fields: &Map<String, Value>, sealed: &Sealed) -> Vec<Disclosure> {
    let (salts, _) = sealed.salts.as_chunks();
    let disclosures = fields.iter().zip(salts);
    disclosures
        .map(|((name, value), salt)| Disclosure {
            name: name.clone(),
            salt: *salt,
            value: value.clone(),
        })
        .collect()
}

/// The body with these fields.
fn body(kind: LeafKind, disclosures: &[Disclosure]) -> EventBody {
    let digest = |d: &Disclosure| field_digest(&d.name, &d.value, &d.salt).unwrap();
    EventBody {
        kind: kind.to_string(),
        sd: (disclosures.iter())
            .map(|d| (d.name.clone(), digest(d)))
            .collect(),
    }
}

/// The sealed event of these tests, its body and its disclosures.
fn opened() -> (Sealed, EventBody, Vec<Disclosure>) {
    let sealed = sealed();
    let disclosures = disclosures(&fields(), &sealed);
    let body = body(LeafKind::BookingCreated, &disclosures);
    (sealed, body, disclosures)
}

fn leaf(commit: [u8; 32]) -> Leaf {
    Leaf {
        commit,
        prev: Hash::ZERO,
        seq: 0,
        stream: [9; 16],
        t: 0,
    }
}

/// The same commitment made naively, from the definition.
fn by_definition(kind: &str, fields: &[(&str, Value)], salts: &[[u8; 32]]) -> (String, [u8; 32]) {
    let sd: serde_json::Map<String, Value> = fields
        .iter()
        .zip(salts)
        .map(|((name, value), salt)| {
            let canonical = serde_json_canonicalizer::to_vec(&json!([name, value])).unwrap();
            let digest = URL_SAFE_NO_PAD.encode(hmac(salt, &canonical));
            ((*name).to_owned(), json!(digest))
        })
        .collect();
    let body = json!({"v": "bookguard.event/1", "kind": kind, "sd": sd});
    let body = serde_json_canonicalizer::to_string(&body).unwrap();
    let commit = hmac(&salts[fields.len()], body.as_bytes());
    (body, commit)
}

#[test]
fn salts_are_what_anybody_makes_of_their_seed() {
    // (head -c 32 /dev/zero; printf '\0\0\0\1') | openssl dgst -sha256
    let mut salts = salts(&[0; 32]);
    for expected in [
        "6db65fd59fd356f6729140571b5bcd6bb3b83492a16e1bf0a3884442fc3c8a0e",
        "2158a8906d5e2c2be001bac943ab9cab4063536e1c546b40221fdf8db031a4bb",
    ] {
        assert_eq!(hex::encode(salts()), expected);
    }
}

#[test]
fn hmac_is_that_of_rfc_4231() {
    let mut key = [0; 32];
    key[..4].copy_from_slice(b"Jefe");
    // Test case 2; HMAC pads short keys with zeros, so the padded key is the same key.
    assert_eq!(
        hex::encode(hmac(&key, b"what do ya want for nothing?")),
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
    );
}

#[test]
fn a_sealed_event_verifies_with_all_its_disclosures() {
    let (sealed, body, disclosures) = opened();
    assert_eq!(body.kind.parse(), Ok(LeafKind::BookingCreated));
    assert_eq!(body.commit(&sealed.salt), sealed.commit);
    assert_eq!(body.verify(&leaf(sealed.commit), &sealed.salt), Ok(()));
    for disclosure in &disclosures {
        assert_eq!(verify_disclosure(&body, disclosure), Ok(()));
    }
    // The body contains none of the disclosed values.
    for value in ["b-1", "100", "Ada"] {
        assert!(!body.to_canonical().contains(&format!("\"{value}")));
    }
}

#[test]
fn salts_are_asked_for_once_per_field_and_once_for_the_body() {
    let (sealed, _, disclosures) = opened();
    let salts: Vec<u8> = disclosures.iter().map(|d| d.salt[0]).collect();
    assert_eq!(
        (salts.as_slice(), sealed.salt[0]),
        ([1, 2, 3, 4].as_slice(), 5)
    );
}

#[test]
fn a_body_with_any_bit_flipped_never_verifies() {
    let (sealed, body, _) = opened();
    let leaf = leaf(sealed.commit);
    let text = body.to_canonical();
    assert_eq!(serde_json::from_str::<EventBody>(&text).unwrap(), body);
    for at in 0..text.len() {
        for bit in 0..8 {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1 << bit;
            if let Ok(flipped) = serde_json::from_slice::<EventBody>(&bytes) {
                let refused = flipped.verify(&leaf, &sealed.salt);
                assert_eq!(refused, Err(EventError::Commit), "byte {at} bit {bit}");
            }
        }
    }
    for bit in 0..256 {
        let mut salt = sealed.salt;
        salt[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(body.verify(&leaf, &salt), Err(EventError::Commit));
    }
}

#[test]
fn a_disclosure_with_any_bit_flipped_never_verifies() {
    let (_, body, disclosures) = opened();
    for disclosure in &disclosures {
        let text = serde_json::to_string(disclosure).unwrap();
        for at in 0..text.len() {
            for bit in 0..8 {
                let mut bytes = text.clone().into_bytes();
                bytes[at] ^= 1 << bit;
                let Ok(flipped) = serde_json::from_slice::<Disclosure>(&bytes) else {
                    continue;
                };
                assert!(
                    verify_disclosure(&body, &flipped).is_err(),
                    "byte {at} bit {bit}: {text}"
                );
            }
        }
    }
}

#[test]
fn a_disclosure_stands_for_its_own_field_only() {
    let (_, body, disclosures) = opened();
    let [first, second, ..] = disclosures.as_slice() else {
        panic!("four disclosures");
    };
    let renamed = Disclosure {
        name: second.name.clone(),
        ..first.clone()
    };
    let error = EventError::Disclosure(second.name.clone());
    assert_eq!(verify_disclosure(&body, &renamed), Err(error));
    let unknown = Disclosure {
        name: "other".to_owned(),
        ..first.clone()
    };
    let error = EventError::Unknown("other".to_owned());
    assert_eq!(verify_disclosure(&body, &unknown), Err(error));
    let large = Disclosure {
        value: json!(u64::MAX),
        ..first.clone()
    };
    let error = EventError::Number(first.name.clone());
    assert_eq!(verify_disclosure(&body, &large), Err(error));
}

#[test]
fn a_body_within_a_document_may_be_laid_out_freely_but_not_loosely() {
    let (_, good, _) = opened();
    let pretty = serde_json::to_string_pretty(&good).unwrap();
    assert!(pretty.contains('\n'));
    assert_eq!(serde_json::from_str::<EventBody>(&pretty).unwrap(), good);
    for (from, to) in [
        ("\"kind\"", "\"extra\": 1, \"kind\""),
        ("\"kind\"", "\"kind\": \"booking.created\", \"kind\""),
        ("\"booking.created\"", "1"),
        ("\"guests\"", "\"contact\""),
        ("\"sd\": {", "\"sd\": {\"a\": \"AAAA\","),
        ("\"sd\": {", "\"sd\": {\"a\": 1,"),
        ("\"v\"", "\"v\": \"bookguard.event/1\", \"v\""),
        ("\"v\": \"bookguard.event/1\"", ""),
        ("\"\n  }", "=\"\n  }"),
        ("event/1", "event/2"),
    ] {
        let changed = pretty.replacen(from, to, 1);
        assert_ne!(changed, pretty, "{from} is not in the body");
        assert!(
            serde_json::from_str::<EventBody>(&changed).is_err(),
            "{changed}"
        );
    }
}

#[test]
fn a_disclosure_is_read_without_tolerance_and_its_faults_show_no_salt() {
    let salt = URL_SAFE_NO_PAD.encode([200; 32]);
    let good = format!(r#"{{"name":"a","salt":"{salt}","value":{{"b":1}}}}"#);
    let read: Disclosure = serde_json::from_str(&good).unwrap();
    assert_eq!(
        (read.name.as_str(), read.salt, &read.value),
        ("a", [200; 32], &json!({"b": 1}))
    );
    assert_eq!(serde_json::to_string(&read).unwrap(), good);
    let longer = URL_SAFE_NO_PAD.encode([200; 33]);
    for (from, to) in [
        (salt.as_str(), longer.as_str()),
        (&salt, &salt[1..]),
        (&salt, &format!("{salt}=")),
        (&salt, &format!("{}J", &salt[..42])),
        ("\"name\":\"a\",", ""),
        ("\"name\":\"a\",", "\"name\":\"a\",\"name\":\"a\","),
        ("\"name\":\"a\",", "\"name\":\"a\",\"more\":1,"),
        ("{\"b\":1}", "{\"b\":1,\"b\":1}"),
        (",\"value\":{\"b\":1}", ""),
    ] {
        let changed = good.replacen(from, to, 1);
        assert_ne!(changed, good);
        let refused = serde_json::from_str::<Disclosure>(&changed)
            .unwrap_err()
            .to_string();
        assert!(!refused.contains(&salt[1..20]), "{refused}");
    }
    let shown = format!("{read:?} {:?}", sealed());
    assert!(
        !shown.contains("200") && !shown.contains("Ada") && !shown.contains("salt"),
        "{shown}"
    );
}

#[test]
fn fields_nothing_can_commit_to_are_refused() {
    let large = json!({"a": [9_007_199_254_740_992_u64]});
    let refused = seal(
        LeafKind::WebhookSettled,
        large.as_object().unwrap(),
        counting(),
    );
    assert_eq!(refused, Err(EventError::Number("a".to_owned())));
}

#[test]
fn an_event_without_fields_is_an_event() {
    let sealed = seal(LeafKind::LogContinued, &Map::new(), counting()).unwrap();
    let body = body(LeafKind::LogContinued, &[]);
    assert_eq!(
        body.to_canonical(),
        r#"{"kind":"log.continued","sd":{},"v":"bookguard.event/1"}"#
    );
    assert!(body.verify(&leaf(sealed.commit), &sealed.salt).is_ok());
}

#[test]
fn every_kind_is_read_back_from_its_name() {
    for kind in LeafKind::ALL {
        assert_eq!(kind.to_string().parse(), Ok(kind));
    }
    for bad in ["", "booking.Created", "booking.created ", "booking"] {
        assert_eq!(
            bad.parse::<LeafKind>(),
            Err(EventError::Kind(bad.to_owned()))
        );
    }
}

proptest! {
    #[test]
    fn commitments_are_those_of_the_definition(
        values in prop::collection::btree_map(
            prop_oneof!["[a-zA-Z]{1,12}", any::<String>(), "[\u{e000}\u{ffff}\u{10000}\"\\\\\\n]{0,3}"],
            crate::ledger::jcs::tests::any_value(),
            0..8,
        ),
        kind in prop::sample::select(LeafKind::ALL.to_vec()),
    ) {
        let fields: Map<String, Value> = values.into_iter().collect();
        let sealed = seal(kind, &fields, counting()).unwrap();
        let mut salts = counting();
        let salts: Vec<_> = (0..=fields.len()).map(|_| salts()).collect();
        let pairs: Vec<_> = fields.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        let (body_json, commit) = by_definition(kind.as_str(), &pairs, &salts);
        prop_assert_eq!(sealed.commit, commit);
        let disclosures = disclosures(&fields, &sealed);
        let body = body(kind, &disclosures);
        prop_assert_eq!(body.to_canonical(), body_json);
        prop_assert_eq!(body.verify(&leaf(commit), &sealed.salt), Ok(()));
        for disclosure in &disclosures {
            let text = serde_json::to_string(disclosure).unwrap();
            let read: Disclosure = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(verify_disclosure(&body, &read), Ok(()));
        }
    }
}
