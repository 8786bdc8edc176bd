//! The certificates of the authority.

use crate::Kind;
use crate::der::{bits, generalized_time, integer, object, octets, sequence, set, tlv};
use crate::key::Key;

const YEAR: i64 = 366 * 24 * 3600 * 1000;
/// 2026-01-01T00:00:00Z
const START: i64 = 1_767_225_600_000;

/// How the certificates are made. By default they are right, and valid for years from 2026 on.
#[derive(Debug, Clone)]
pub struct Chain {
    /// The root.
    pub root: Issuer,
    /// The authority below it.
    pub intermediate: Issuer,
    /// The signer's key.
    pub kind: Kind,
    /// The purposes in the signer's certificate, as dotted identifiers.
    pub purposes: Vec<&'static str>,
    /// Whether they are marked critical.
    pub critical: bool,
    /// The bits of what the signer's key is for.
    pub usage: u8,
    /// From when until when the signer's certificate is valid, in milliseconds since 1970.
    pub valid: (i64, i64),
    /// Whether it says that it may vouch for others.
    pub authority: bool,
    /// An extension that nobody knows, marked critical.
    pub unknown: bool,
}

/// How a certificate is made that vouches for others.
#[derive(Debug, Clone)]
pub struct Issuer {
    /// Whether it may.
    pub authority: bool,
    /// How many others may stand below it.
    pub path: Option<u8>,
    /// From when until when it is valid, in milliseconds since 1970.
    pub valid: (i64, i64),
    /// The purposes it is limited to.
    pub purposes: Vec<&'static str>,
    /// The bits of what its key is for; `None` leaves that open.
    pub usage: Option<u8>,
}

/// The purpose of an authority for time-stamps.
const TIME_STAMPING: &str = "1.3.6.1.5.5.7.3.8";

impl Default for Issuer {
    fn default() -> Self {
        Self {
            authority: true,
            path: None,
            valid: (START, START + 40 * YEAR),
            purposes: Vec::new(),
            usage: Some(0x06),
        }
    }
}

impl Default for Chain {
    fn default() -> Self {
        Self {
            root: Issuer::default(),
            intermediate: Issuer {
                path: Some(0),
                valid: (START, START + 20 * YEAR),
                ..Issuer::default()
            },
            kind: Kind::P256,
            purposes: vec![TIME_STAMPING],
            critical: true,
            usage: 0x80,
            valid: (START, START + 10 * YEAR),
            authority: false,
            unknown: false,
        }
    }
}

pub fn name(common: &str) -> Vec<u8> {
    sequence(&[&set(&[&sequence(&[
        &object("2.5.4.3"),
        &tlv(0x0c, &[common.as_bytes()]),
    ])])])
}

/// The identifier of a key, and of its certificate.
pub fn key_id(public: &[u8]) -> Vec<u8> {
    ring::digest::digest(&ring::digest::SHA256, public).as_ref()[..20].to_vec()
}

/// The serial number of a certificate, as DER.
pub fn serial(public: &[u8]) -> Vec<u8> {
    tlv(0x02, &[&[0x40], &key_id(public)[..8]])
}

pub fn issuer(subject: &str, key: &Key, issuer: &str, signer: &Key, how: &Issuer) -> Vec<u8> {
    let mut extensions = vec![
        constraints(how.authority, how.path),
        extension("2.5.29.14", false, &octets(&key_id(&key.public()))),
    ];
    if let Some(bits) = how.usage {
        extensions.push(usage(bits));
    }
    if !how.purposes.is_empty() {
        extensions.push(purposes(&how.purposes, false));
    }
    certificate(subject, key, issuer, signer, how.valid, &extensions)
}

pub fn signer(subject: &str, key: &Key, issuer: &str, issuer_key: &Key, chain: &Chain) -> Vec<u8> {
    let mut extensions = vec![
        usage(chain.usage),
        extension("2.5.29.14", false, &octets(&key_id(&key.public()))),
    ];
    if !chain.purposes.is_empty() {
        extensions.push(purposes(&chain.purposes, chain.critical));
    }
    if chain.authority {
        extensions.push(constraints(true, None));
    }
    if chain.unknown {
        extensions.push(extension("1.3.6.1.4.1.1.1", true, &[0x05, 0]));
    }
    certificate(subject, key, issuer, issuer_key, chain.valid, &extensions)
}

fn constraints(authority: bool, path: Option<u8>) -> Vec<u8> {
    let authority: &[u8] = if authority { &[0x01, 1, 0xff] } else { &[] };
    let path = path.map(integer).unwrap_or_default();
    extension("2.5.29.19", true, &sequence(&[authority, &path]))
}

fn usage(bits: u8) -> Vec<u8> {
    let unused = u8::try_from(bits.trailing_zeros()).unwrap();
    extension("2.5.29.15", true, &[0x03, 2, unused, bits])
}

fn purposes(purposes: &[&str], critical: bool) -> Vec<u8> {
    let list = purposes
        .iter()
        .flat_map(|purpose| object(purpose))
        .collect::<Vec<u8>>();
    extension("2.5.29.37", critical, &sequence(&[&list]))
}

fn extension(id: &str, critical: bool, value: &[u8]) -> Vec<u8> {
    let critical: &[u8] = if critical { &[0x01, 1, 0xff] } else { &[] };
    sequence(&[&object(id), critical, &octets(value)])
}

fn certificate(
    subject: &str,
    key: &Key,
    issuer: &str,
    signer: &Key,
    valid: (i64, i64),
    extensions: &[Vec<u8>],
) -> Vec<u8> {
    let algorithm = signer.algorithm(None);
    let public = key.public();
    let tbs = sequence(&[
        &tlv(0xa0, &[&integer(2)]),
        &serial(&public),
        &algorithm,
        &name(issuer),
        &sequence(&[&time(valid.0), &time(valid.1)]),
        &name(subject),
        &public,
        &tlv(0xa3, &[&sequence(&[&extensions.concat()])]),
    ]);
    let signature = signer.sign(&tbs);
    sequence(&[&tbs, &algorithm, &bits(&signature)])
}

/// As certificates have it: the short form until 2049.
fn time(millis: i64) -> Vec<u8> {
    let long = generalized_time(millis - millis.rem_euclid(1000));
    if &long[2..6] < b"2050" {
        tlv(0x17, &[&long[4..]])
    } else {
        long
    }
}
