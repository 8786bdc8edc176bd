//! Right and wrong answers of an authority.

#![allow(clippy::unwrap_used, missing_docs)]

use bookguard_test_authority::{Authority, Certificates, Chain, Issuer, Kind, Shape};
use bookguard_time::{Error, Request, Roots, Stamp, verify};
use proptest::prelude::*;

const IMPRINT: [u8; 32] = [0xab; 32];
/// 2026-06-01T12:00:00.250Z
const NOW: i64 = 1_780_315_200_250;
const YEAR: i64 = 366 * 24 * 3600 * 1000;

fn request() -> Request {
    Request::new(IMPRINT, [0x17; 8])
}

fn roots(authority: &Authority) -> Roots {
    Roots::from_pem(authority.root_pem().as_bytes()).unwrap()
}

fn answer(authority: &Authority, shape: &Shape) -> Result<Stamp, Error> {
    let request = request();
    request.verify(
        &authority.shaped(&request.to_der(), NOW, shape),
        &roots(authority),
        NOW,
    )
}

#[test]
fn every_kind_of_key_verifies() {
    for kind in [
        Kind::P256,
        Kind::P384,
        Kind::Rsa,
        Kind::RsaSha512,
        Kind::Pss,
    ] {
        let chain = Chain {
            kind,
            ..Chain::default()
        };
        let stamp = answer(&Authority::new(&chain), &Shape::default()).unwrap();
        assert_eq!(
            (stamp.time, stamp.valid_until, &*stamp.authority),
            (NOW, chain.valid.1, "Test Time"),
            "{kind:?}"
        );
    }
}

type Change = fn(&mut Shape);

#[test]
fn other_right_answers_verify() {
    let authority = Authority::new(&Chain::default());
    #[rustfmt::skip]
    let changes: [(&str, Change); 9] = [
        ("granted with modifications", |shape| shape.status = 1),
        ("the certificate by SHA-1", |shape| { shape.certificates = Certificates::V1 }),
        ("the certificate by both", |shape| { shape.certificates = Certificates::Both }),
        ("the certificate with its serial number", |shape| { shape.certificates = Certificates::Named }),
        ("the signer named by its key", |shape| shape.by_key = true),
        ("the signer's certificate after others, the root among them", |shape| shape.signer_last = true),
        ("words", |shape| shape.words = "at your service"),
        ("a little ahead", |shape| { shape.time = Some(time("20260601120400Z")) }),
        ("small fractions", |shape| { shape.time = Some(time("20260601120000.123456Z")) }),
    ];
    for (what, change) in changes {
        let mut shape = Shape::default();
        change(&mut shape);
        answer(&authority, &shape).unwrap_or_else(|why| panic!("{what}: {why}"));
    }
}

fn time(text: &str) -> Vec<u8> {
    [&[0x18, u8::try_from(text.len()).unwrap()], text.as_bytes()].concat()
}

#[test]
fn wrong_tokens_are_refused() {
    const DER: &[&str] = &["is not well-formed DER"];
    #[rustfmt::skip]
    let cases: &[(&str, &[&str], Change)] = &[
        ("refused", &["refused with status 2: come back later"],
            |shape| (shape.status, shape.words, shape.token) = (2, "come\n back later", false)),
        ("refused with a token", &["refused with status 2"], |shape| shape.status = 2),
        ("no token", DER, |shape| shape.token = false),
        ("bytes after it", DER, |shape| shape.after = &[0]),
        ("BER", DER, |shape| shape.indefinite = true),
        ("another version", DER, |shape| shape.version = 2),
        ("another imprint", &["stamps something else"], |shape| { shape.imprint = Some(vec![0xac; 32]) }),
        ("another kind of imprint", &["stamps something else"], |shape| shape.imprint_digest = "2.16.840.1.101.3.4.2.3"),
        ("a weak imprint", &["weak"], |shape| { shape.imprint_digest = "1.3.14.3.2.26" }),
        ("another nonce", &["another request"], |shape| { shape.nonce = Some(vec![0x02, 1, 5]) }),
        ("no nonce", &["another request"], |shape| { shape.nonce = Some(Vec::new()) }),
        ("the future", &["has not come yet"], |shape| { shape.time = Some(time("20260601120501Z")) }),
        ("no time", DER, |shape| { shape.time = Some(time("20260230120000Z")) }),
        ("a fraction that ends in zero", DER, |shape| { shape.time = Some(time("20260601120000.10Z")) }),
        ("a local time", DER, |shape| { shape.time = Some(time("20260601120000+0200")) }),
        ("a time before its certificate", &["a certificate was not valid at 2025-12-31T23:59:59Z"],
            |shape| shape.time = Some(time("20251231235959Z"))),
        ("a time before all others", &["a certificate was not valid at"], |shape| shape.time = Some(time("00010101000000Z"))),
        ("an unknown extension", &["extension"], |shape| { shape.critical = true }),
        ("an extension with another truth value", DER, |shape| { (shape.critical, shape.truth) = (true, 1) }),
        ("other content", &["not a time-stamp"], |shape| { shape.content = "1.2.840.113549.1.7.1" }),
        ("content signed as another type", &["type of the content is another"],
            |shape| shape.content_type = Some("1.2.840.113549.1.7.1")),
        ("no content type", &["type of the content is not signed"], |shape| shape.content_type = None),
        ("another digest", &["digest is of another"], |shape| { shape.message_digest = Some(vec![1; 32]) }),
        ("no digest", &["digest of the content is not signed"], |shape| shape.no_message_digest = true),
        ("two digests", &["twice"], |shape| shape.twice = true),
        ("no attributes", &["no attributes"], |shape| { shape.no_attributes = true }),
        ("no certificate signed", &["certificate is not signed"], |shape| shape.certificates = Certificates::None),
        ("another certificate by SHA-1", &["certificate is another"], |shape| shape.certificates = Certificates::OtherV1),
        ("another certificate by SHA-256", &["certificate is another"], |shape| shape.certificates = Certificates::OtherV2),
        ("another serial number", &["certificate is another"], |shape| shape.certificates = Certificates::OtherSerial),
        ("SHA-1 where it need not be", &["weak"], |shape| { shape.certificates = Certificates::WeakV2 }),
        ("SHA-1 of the content", &["weak"], |shape| { shape.digest = Some("1.3.14.3.2.26") }),
        ("a signature with SHA-1", &["weak"], |shape| { shape.algorithm = Some("1.2.840.10045.4.1") }),
        ("a signature of another digest", &["weak"], |shape| { shape.algorithm = Some("1.2.840.10045.4.3.3") }),
        ("a signature of another kind of key", &["key"], |shape| { shape.algorithm = Some("1.2.840.113549.1.1.11") }),
        ("one bit of the signature", &["signature is wrong"], |shape| shape.flip = true),
        ("two signers", &["more than one signer"], |shape| { shape.signers = 2 }),
        ("no signer", DER, |shape| shape.signers = 0),
        ("no certificates", &["sent no certificate"], |shape| { shape.no_certificates = true }),
        ("too many certificates", &["too many"], |shape| { shape.many_certificates = true }),
        ("no certificate of the signer", &["certificate is not there"], |shape| shape.signer_certificate = false),
        ("a signer nobody knows", &["certificate is not there"], |shape| shape.sid_serial = Some(1)),
        ("no certificate between", &["no trusted root"], |shape| { shape.intermediate = false }),
    ];
    let authority = Authority::new(&Chain::default());
    for (what, says, change) in cases {
        let mut shape = Shape::default();
        change(&mut shape);
        let why = answer(&authority, &shape).expect_err(what).to_string();
        assert!(says.iter().all(|part| why.contains(part)), "{what}: {why}");
    }
    let pss = Authority::new(&Chain {
        kind: Kind::Pss,
        ..Chain::default()
    });
    let why = answer(
        &pss,
        &Shape {
            salt: Some(32),
            ..Shape::default()
        },
    )
    .unwrap_err();
    assert_eq!(why, Error::Algorithm("the signature's PSS parameters"));
}

type Flaw = fn(&mut Chain);

#[test]
fn wrong_certificates_are_refused() {
    #[rustfmt::skip]
    let cases: &[(&str, &str, Flaw)] = &[
        ("no purpose", "does not name its purpose", |chain| { chain.purposes.clear() }),
        ("another purpose", "is not for time-stamps", |chain| { chain.purposes = vec!["1.3.6.1.5.5.7.3.4"] }),
        ("any purpose", "is not for time-stamps", |chain| { chain.purposes = vec!["2.5.29.37.0"] }),
        ("two purposes", "not for time-stamps alone", |chain| { chain.purposes.push("1.3.6.1.5.5.7.3.4") }),
        ("a purpose that may be ignored", "not marked critical", |chain| chain.critical = false),
        ("a key for encryption", "something else than signatures", |chain| chain.usage = 0xa0),
        ("a critical extension", "the signer's certificate has a critical extension", |chain| chain.unknown = true),
        ("an authority for certificates", "is one of an authority for certificates", |chain| chain.authority = true),
        ("a signer that expired", "was not valid at 2026-06-01", |chain| chain.valid.1 = NOW - 1000),
        ("a signer from the future", "was not valid at 2026-06-01", |chain| chain.valid.0 = NOW + 1000),
        ("an authority that expired", "was not valid at 2026-06-01", |chain| chain.intermediate.valid.1 = NOW - 1000),
        ("a root that expired", "was not valid at 2026-06-01", |chain| chain.root.valid.1 = NOW - 1000),
        ("a root from the future", "was not valid at 2026-06-01", |chain| chain.root.valid.0 = NOW + 1000),
        ("an issuer that is not an authority", "do not lead to a trusted root", |chain| chain.intermediate.authority = false),
        ("an authority too many", "do not lead to a trusted root", |chain| chain.root.path = Some(0)),
        ("an authority for something else", "do not lead to a trusted root",
            |chain| chain.intermediate.purposes = vec!["1.3.6.1.5.5.7.3.4"]),
        ("an authority whose key is for lists of revoked certificates alone", "may not sign certificates",
            |chain| chain.intermediate.usage = Some(0x02)),
        ("a root whose key is for signatures alone", "may not sign certificates", |chain| chain.root.usage = Some(0x80)),
    ];
    for (what, says, change) in cases {
        let mut chain = Chain::default();
        change(&mut chain);
        let why = answer(&Authority::new(&chain), &Shape::default())
            .expect_err(what)
            .to_string();
        assert!(why.contains(says), "{what}: {why}");
    }
    let chain = Chain {
        root: Issuer {
            authority: false,
            ..Issuer::default()
        },
        ..Chain::default()
    };
    Roots::from_pem(Authority::new(&chain).root_pem().as_bytes()).unwrap_err();
}

#[test]
fn authorities_need_not_say_what_their_keys_are_for() {
    let mut chain = Chain::default();
    (chain.root.usage, chain.intermediate.usage) = (None, None);
    answer(&Authority::new(&chain), &Shape::default()).unwrap();
}

#[test]
fn another_root_of_the_same_name_is_refused() {
    let (authority, other) = (
        Authority::new(&Chain::default()),
        Authority::new(&Chain::default()),
    );
    let response = authority.answer(&request().to_der(), NOW);
    verify(&response, &IMPRINT, &roots(&other), NOW).unwrap_err();
    // Some editors put a mark before the text.
    let both = format!(
        "\u{feff}{}between them\n{}",
        authority.root_pem(),
        other.root_pem()
    );
    let both = Roots::from_pem(both.as_bytes()).unwrap();
    assert_eq!(both.count(), 2);
    verify(&response, &IMPRINT, &both, NOW).unwrap();
}

#[test]
fn a_stamp_is_good_for_as_long_as_its_certificates() {
    let authority = Authority::new(&Chain::default());
    let response = authority.answer(&request().to_der(), NOW);
    let until = verify(&response, &IMPRINT, &roots(&authority), NOW + 9 * YEAR)
        .unwrap()
        .valid_until;
    assert_eq!(
        verify(&response, &IMPRINT, &roots(&authority), until)
            .unwrap()
            .time,
        NOW
    );
    let late = verify(&response, &IMPRINT, &roots(&authority), until + 1000);
    assert_eq!(late, Err(Error::NotValidAt(until / 1000 + 1)));
    // Whoever reads it with a clock far behind cannot tell.
    assert_eq!(
        verify(&response, &IMPRINT, &roots(&authority), NOW - YEAR),
        Err(Error::Future(NOW))
    );
}

#[test]
fn roots_are_certificates_of_authorities() {
    let authority = Authority::new(&Chain::default());
    let [signer, _] = authority.chain_pem();
    for (wrong, says) in [
        (String::new(), "no certificate in it"),
        (signer, "certificate 1 is not an authority's"),
        (authority.key_pem(), "no certificate in it"),
        (
            authority.root_pem() + "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n",
            "certificate 2 is not PEM",
        ),
        (
            authority.root_pem() + "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n",
            "certificate 2: a certificate is not well-formed DER",
        ),
    ] {
        let why = Roots::from_pem(wrong.as_bytes()).unwrap_err().to_string();
        assert!(why.contains(says), "{why}");
    }
}

#[test]
fn no_changed_byte_changes_the_stamp() {
    // What the signature does not cover says nothing: changed, it is refused, or the stamp stays the same.
    let authority = Authority::new(&Chain::default());
    let (request, roots) = (request(), roots(&authority));
    let response = authority.answer(&request.to_der(), NOW);
    for at in 0..response.len() {
        for bit in [0x01, 0x80] {
            let mut changed = response.clone();
            changed[at] ^= bit;
            if let Ok(stamp) = request.verify(&changed, &roots, NOW) {
                assert_eq!(
                    (stamp.time, &*stamp.authority),
                    (NOW, "Test Time"),
                    "byte {at}"
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn bytes_of_a_stranger_never_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        (cut, at, value) in (0usize..2000, 0usize..2000, any::<u8>()),
    ) {
        let authority = Authority::new(&Chain::default());
        let roots = roots(&authority);
        prop_assert!(verify(&bytes, &IMPRINT, &roots, NOW).is_err());
        let mut response = authority.answer(&request().to_der(), NOW);
        response.truncate(cut);
        if let Some(byte) = response.get_mut(at) {
            *byte = value;
        }
        let _ = verify(&response, &IMPRINT, &roots, NOW);
    }
}

#[test]
fn what_is_read_is_what_is_verified() {
    let chain = Chain::default();
    let authority = Authority::new(&chain);
    let response = authority.answer(&request().to_der(), NOW);
    let claim = bookguard_time::read(&response).unwrap();
    assert_eq!(
        (claim.imprint, claim.time, claim.valid_until),
        (IMPRINT, NOW, chain.valid.1)
    );
    let flipped = Shape {
        flip: true,
        ..Shape::default()
    };
    let response = authority.shaped(&request().to_der(), NOW, &flipped);
    assert_eq!(bookguard_time::read(&response), Err(Error::Signature));
}

#[test]
fn a_long_response_is_not_read() {
    let authority = Authority::new(&Chain::default());
    assert_eq!(
        verify(
            &vec![0x30; bookguard_time::MAX_RESPONSE + 1],
            &IMPRINT,
            &roots(&authority),
            NOW
        ),
        Err(Error::TooLong)
    );
}
