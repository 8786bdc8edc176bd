//! The published vectors, each check that can fail, and arbitrary inputs.

use proptest::prelude::*;
use serde::Deserialize;

use super::*;

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Vectors {
    x_service_signature: Vec<BodyVector>,
    standard_webhooks: Vec<StandardVector>,
}

#[derive(Deserialize)]
struct BodyVector {
    secret: String,
    body: String,
    header: String,
}

#[derive(Deserialize)]
struct StandardVector {
    secret: String,
    id: String,
    timestamp: i64,
    body: String,
    signature: String,
}

const NOW: i64 = 1_800_000_000;
const BODY: &str = r#"{"eventId":"evt_1"}"#;

fn vectors() -> Vectors {
    serde_json::from_str(include_str!("../../../../tests/vectors/webhooks.json")).unwrap()
}

fn ours(byte: u8) -> Secret {
    Secret::from_bytes([byte; 32])
}

fn check(secrets: &[Secret], timestamp: &str, signature: &str) -> Result<(), VerifyError> {
    verify_standard(
        secrets,
        StandardHeaders {
            id: "evt_1",
            timestamp,
            signature,
        },
        BODY,
        NOW,
        None,
    )
}

#[test]
fn body_vectors_sign_and_verify() {
    let vectors = vectors().x_service_signature;
    assert!(!vectors.is_empty());
    for vector in vectors {
        let secret = Secret::new(vector.secret);
        assert_eq!(sign_body(&secret, &vector.body), vector.header);
        assert_eq!(verify(&secret, &vector.header, &vector.body), Ok(()));
        assert_eq!(
            verify(
                &secret,
                vector.header.replace("sha256=", "SHA256="),
                &vector.body
            ),
            Err(VerifyError::MissingPrefix)
        );
    }
}

#[test]
fn standard_vectors_sign_and_verify() {
    let vectors = vectors().standard_webhooks;
    assert!(!vectors.is_empty());
    for vector in vectors {
        let secret = Secret::new(vector.secret);
        assert_eq!(
            sign_standard(&secret, &vector.id, vector.timestamp, &vector.body).as_ref(),
            Ok(&vector.signature)
        );
        let timestamp = vector.timestamp.to_string();
        let headers = StandardHeaders {
            id: &vector.id,
            timestamp: &timestamp,
            signature: &vector.signature,
        };
        assert_eq!(
            verify_standard(&secret, headers, &vector.body, vector.timestamp, None),
            Ok(())
        );
        assert_eq!(
            verify_standard(&secret, headers, vector.body + " ", vector.timestamp, None),
            Err(VerifyError::Mismatch)
        );
    }
}

#[test]
fn the_body_signature_says_which_check_failed() {
    let secret = ours(1);
    let good = sign_body(&secret, BODY);
    let upper = format!("sha256={}", good["sha256=".len()..].to_uppercase());
    #[rustfmt::skip]
    let table: &[(&str, Result<(), VerifyError>)] = &[
        (&good, Ok(())),
        (&upper, Ok(())),
        ("", Err(VerifyError::MissingPrefix)),
        (&good[7..], Err(VerifyError::MissingPrefix)),
        (&good[..70], Err(VerifyError::WrongLength { found: 63 })),
        ("sha256=", Err(VerifyError::WrongLength { found: 0 })),
        (&format!("{good} "), Err(VerifyError::WrongLength { found: 65 })),
        (&format!("sha256={}", "g".repeat(64)), Err(VerifyError::NotHex)),
        (&format!("sha256={}", "é".repeat(32)), Err(VerifyError::NotHex)),
        (&format!("sha256={}", "0".repeat(64)), Err(VerifyError::Mismatch)),
    ];
    for (header, expected) in table {
        assert_eq!(verify(&secret, header, BODY), *expected, "{header}");
    }
}

#[test]
fn any_of_several_secrets_fits_and_none_of_none() {
    let (old, new, other) = (ours(1), ours(2), ours(3));
    let header = sign_body(&old, BODY);
    assert_eq!(verify(&[old.clone(), new.clone()], &header, BODY), Ok(()));
    assert_eq!(verify(&vec![new.clone(), old], &header, BODY), Ok(()));
    assert_eq!(
        verify(&[new, other], &header, BODY),
        Err(VerifyError::Mismatch)
    );
    assert_eq!(verify([], &header, BODY), Err(VerifyError::NoSecret));
}

#[test]
fn both_signatures_treat_an_empty_secret_alike() {
    let (good, other) = (ours(1), ours(2));
    let now = NOW.to_string();
    let standard = sign_standard(&good, "evt_1", NOW, BODY).unwrap();
    for text in ["", " \n", "whsec_", "whsec_ ", " whsec_\n"] {
        let empty = Secret::new(text);
        let forged = sign_body(&empty, BODY);
        let both = |secrets: &[Secret], header: &str| {
            let (short, standard) = (
                verify(secrets, header, BODY),
                check(secrets, &now, &standard),
            );
            assert_eq!(short, standard, "{text:?}");
            short
        };
        let genuine = sign_body(&good, BODY);
        let alone = std::slice::from_ref(&empty);
        assert_eq!(both(alone, &forged), Err(VerifyError::NoSecret));
        assert_eq!(
            both(&[other.clone(), empty.clone()], &forged),
            Err(VerifyError::NoSecret)
        );
        assert_eq!(both(&[good.clone(), empty.clone()], &genuine), Ok(()));
        assert_eq!(both(&[empty, good.clone()], &genuine), Ok(()));
    }
}

#[test]
fn the_standard_signature_says_which_check_failed() {
    let secrets = [ours(1)];
    let good = sign_standard(&secrets[0], "evt_1", NOW, BODY).unwrap();
    let now = NOW.to_string();
    assert_eq!(check(&secrets, &now, &good), Ok(()));
    let refused = |signature: &str, error| {
        let checked = check(&secrets, &now, signature);
        assert_eq!(checked, Err(error), "{signature}");
    };
    for signature in ["", " ", "v2,abc", "v1a,abc", "v1", &good[3..]] {
        refused(signature, VerifyError::NoV1Signature);
    }
    for signature in [
        "v1,",
        "v1,???",
        "v1,AAAA",
        &good[..46],
        &format!("{good}A"),
        &good.replace("v1,", "v1, "),
    ] {
        refused(signature, VerifyError::Mismatch);
    }
    #[rustfmt::skip]
    let no_numbers = ["", "now", "-1", "+1", " 1", "1.5", "99999999999999999999", "١"];
    for timestamp in no_numbers {
        let checked = check(&secrets, timestamp, &good);
        assert_eq!(
            checked,
            Err(VerifyError::TimestampNotANumber),
            "{timestamp}"
        );
    }
    for id in ["", "evt.1"] {
        let headers = StandardHeaders {
            id,
            timestamp: &now,
            signature: &good,
        };
        assert_eq!(
            verify_standard(&secrets, headers, BODY, NOW, None),
            Err(VerifyError::InvalidId)
        );
    }
    assert_eq!(check(&[], &now, &good), Err(VerifyError::NoSecret));
    let plain = check(&[Secret::new("plain text")], &now, &good);
    assert_eq!(plain, Err(VerifyError::SecretNotBase64));
}

#[test]
fn one_fitting_signature_of_a_list_and_one_fitting_secret_are_enough() {
    let (old, new) = (ours(1), ours(2));
    let sign = |secret: &Secret| sign_standard(secret, "evt_1", NOW, BODY).unwrap();
    let now = NOW.to_string();
    let both = format!("v1a,later {} {} v0,", sign(&old), sign(&new));
    assert_eq!(check(std::slice::from_ref(&old), &now, &both), Ok(()));
    assert_eq!(check(std::slice::from_ref(&new), &now, &both), Ok(()));
    assert_eq!(
        check(&[Secret::new("plain text"), new.clone()], &now, &both),
        Ok(())
    );
    assert_eq!(
        check(&[Secret::new("plain text"), new], &now, &sign(&old)),
        Err(VerifyError::SecretNotBase64)
    );
    assert_eq!(check(&[ours(3)], &now, &both), Err(VerifyError::Mismatch));
}

#[test]
fn a_timestamp_holds_for_the_tolerance_in_both_directions() {
    let secret = ours(1);
    let at = |signed: i64, tolerance| {
        let signature = sign_standard(&secret, "evt_1", signed, BODY).unwrap();
        let timestamp = signed.to_string();
        let headers = StandardHeaders {
            id: "evt_1",
            timestamp: &timestamp,
            signature: &signature,
        };
        verify_standard(&secret, headers, BODY, NOW, tolerance)
    };
    let ten = Some(Duration::from_secs(10));
    let old = |seconds| Err(VerifyError::TimestampTooOld { seconds });
    let new = |seconds| Err(VerifyError::TimestampTooNew { seconds });
    for (signed, tolerance, expected) in [
        (NOW - 300, None, Ok(())),
        (NOW + 300, None, Ok(())),
        (NOW - 301, None, old(301)),
        (NOW + 301, None, new(301)),
        (NOW - 11, ten, old(11)),
        (NOW + 10, ten, Ok(())),
        (0, Some(Duration::MAX), Ok(())),
        (i64::MAX, Some(Duration::ZERO), new((i64::MAX - NOW) as u64)),
    ] {
        assert_eq!(at(signed, tolerance), expected, "{signed}");
    }
}

#[test]
fn every_failure_has_its_own_code_and_sentence() {
    let all = [
        VerifyError::NoSecret,
        VerifyError::MissingPrefix,
        VerifyError::WrongLength { found: 3 },
        VerifyError::NotHex,
        VerifyError::Mismatch,
        VerifyError::InvalidId,
        VerifyError::TimestampNotANumber,
        VerifyError::TimestampTooOld { seconds: 400 },
        VerifyError::TimestampTooNew { seconds: 400 },
        VerifyError::NoV1Signature,
        VerifyError::SecretNotBase64,
    ];
    let codes: std::collections::BTreeSet<_> = all.iter().map(VerifyError::code).collect();
    let sentences: std::collections::BTreeSet<_> = all.iter().map(ToString::to_string).collect();
    assert_eq!((codes.len(), sentences.len()), (all.len(), all.len()));
}

proptest! {
    #[test]
    fn whatever_arrives_is_refused_without_a_panic(
        secret in ".*",
        header in prop::collection::vec(any::<u8>(), 0..200),
        text in prop_oneof![Just("sha256=".to_owned()), Just("v1,".to_owned()), Just(String::new())],
        id in ".*", timestamp in prop_oneof![".*", "[0-9]{1,22}"], list in ".*", now: i64,
        body in prop::collection::vec(any::<u8>(), 0..64),
        seconds: u64,
    ) {
        let secret = Secret::new(secret);
        let header = [text.as_bytes(), &header].concat();
        prop_assert!(verify(&secret, header, &body).is_err());
        let signature = format!("{text}{list}");
        let headers = StandardHeaders { id: &id, timestamp: &timestamp, signature: &signature };
        prop_assert!(verify_standard(&secret, headers, &body, now, Some(Duration::from_secs(seconds))).is_err());
    }

    #[test]
    fn a_signed_text_verifies_and_any_changed_bit_fails(
        key: [u8; 32], body in prop::collection::vec(any::<u8>(), 1..64), at: usize, bit in 0..8u8,
    ) {
        let secret = Secret::from_bytes(key);
        let header = sign_body(&secret, &body);
        let standard = sign_standard(&secret, "evt_1", NOW, &body).unwrap();
        let now = NOW.to_string();
        let headers = StandardHeaders { id: "evt_1", timestamp: &now, signature: &standard };
        prop_assert_eq!(verify(&secret, &header, &body), Ok(()));
        prop_assert_eq!(verify_standard(&secret, headers, &body, NOW, None), Ok(()));

        let mut other = body;
        let index = at % other.len();
        other[index] ^= 1 << bit;
        prop_assert_eq!(verify(&secret, &header, &other), Err(VerifyError::Mismatch));
        prop_assert_eq!(verify_standard(&secret, headers, &other, NOW, None), Err(VerifyError::Mismatch));
    }
}
