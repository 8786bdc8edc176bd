//! Answers, and how to get them wrong.

use ring::digest::{self, digest};

use crate::der::{generalized_time, integer, object, octets, sequence, set, split, tlv};
use crate::{Authority, certificate};

const TST_INFO: &str = "1.2.840.113549.1.9.16.1.4";
const SHA256: &str = "2.16.840.1.101.3.4.2.1";

/// Which of the attributes name the signer's certificate, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Certificates {
    /// Neither.
    None,
    /// By SHA-1, RFC 2634.
    V1,
    /// By SHA-256, RFC 5035.
    V2,
    /// By both.
    Both,
    /// By SHA-256, with its issuer and serial number.
    Named,
    /// The SHA-1 of another certificate.
    OtherV1,
    /// The SHA-256 of another certificate.
    OtherV2,
    /// The right digest, and another serial number.
    OtherSerial,
    /// By SHA-1, where a better digest is stated.
    WeakV2,
}

/// What an answer looks like. The default is right.
#[derive(Debug, Clone)]
#[allow(missing_docs)] // each is what it says, and the test beside it says why it is wrong
pub struct Shape {
    pub status: u8,
    pub words: &'static str,
    pub token: bool,
    pub after: &'static [u8],
    pub indefinite: bool,
    pub version: u8,
    pub imprint: Option<Vec<u8>>,
    pub imprint_digest: &'static str,
    pub nonce: Option<Vec<u8>>,
    pub time: Option<Vec<u8>>,
    pub critical: bool,
    pub truth: u8,
    pub content: &'static str,
    pub content_type: Option<&'static str>,
    pub message_digest: Option<Vec<u8>>,
    pub no_message_digest: bool,
    pub certificates: Certificates,
    pub twice: bool,
    pub no_attributes: bool,
    pub by_key: bool,
    pub sid_serial: Option<u8>,
    pub digest: Option<&'static str>,
    pub algorithm: Option<&'static str>,
    pub salt: Option<u8>,
    pub flip: bool,
    pub signers: usize,
    pub signer_certificate: bool,
    pub signer_last: bool,
    pub intermediate: bool,
    pub no_certificates: bool,
    pub many_certificates: bool,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            status: 0,
            words: "",
            token: true,
            after: &[],
            indefinite: false,
            version: 1,
            imprint: None,
            imprint_digest: SHA256,
            nonce: None,
            time: None,
            critical: false,
            truth: 0xff,
            content: TST_INFO,
            content_type: Some(TST_INFO),
            message_digest: None,
            no_message_digest: false,
            certificates: Certificates::V2,
            twice: false,
            no_attributes: false,
            by_key: false,
            sid_serial: None,
            digest: None,
            algorithm: None,
            salt: None,
            flip: false,
            signers: 1,
            signer_certificate: true,
            signer_last: false,
            intermediate: true,
            no_certificates: false,
            many_certificates: false,
        }
    }
}

pub fn response(authority: &Authority, request: &[u8], at: i64, shape: &Shape) -> Vec<u8> {
    let words = if shape.words.is_empty() {
        Vec::new()
    } else {
        sequence(&[&tlv(0x0c, &[shape.words.as_bytes()])])
    };
    let status = sequence(&[&integer(shape.status), &words]);
    let token = if shape.token {
        token(authority, request, at, shape)
    } else {
        Vec::new()
    };
    [sequence(&[&status, &token]), shape.after.to_vec()].concat()
}

/// The imprint and the nonce (an INTEGER) of a request.
fn asked(request: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let (_, fields, _) = split(request);
    let (_, _, fields) = split(fields);
    let (_, imprint, mut rest) = split(fields);
    let (_, _, hash) = split(imprint);
    let mut nonce = Vec::new();
    while !rest.is_empty() {
        let (tag, _, after) = split(rest);
        if tag == 0x02 {
            nonce = rest[..rest.len() - after.len()].to_vec();
        }
        rest = after;
    }
    (split(hash).1.to_vec(), nonce)
}

fn token(authority: &Authority, request: &[u8], at: i64, shape: &Shape) -> Vec<u8> {
    let (imprint, nonce) = asked(request);
    let info = sequence(&[
        &integer(shape.version),
        &object("1.3.6.1.4.1.99999.1"),
        &sequence(&[
            &sequence(&[&object(shape.imprint_digest)]),
            &octets(shape.imprint.as_deref().unwrap_or(&imprint)),
        ]),
        &integer(7),
        &shape.time.clone().unwrap_or_else(|| generalized_time(at)),
        &sequence(&[&integer(1)]),
        &shape.nonce.clone().unwrap_or(nonce),
        &if shape.critical {
            tlv(
                0xa1,
                &[&sequence(&[
                    &object("1.2.3.4"),
                    &[0x01, 1, shape.truth],
                    &octets(&[5, 0]),
                ])],
            )
        } else {
            Vec::new()
        },
    ]);
    let algorithm = sequence(&[&object(shape.digest.unwrap_or(authority.key.digest().0))]);
    let content = sequence(&[&object(shape.content), &tlv(0xa0, &[&octets(&info)])]);
    let signer = signer_info(authority, &info, at, shape);
    let signers = vec![&signer[..]; shape.signers];
    let data = sequence(&[
        &integer(3),
        &set(&[&algorithm]),
        &content,
        &certificates(authority, shape),
        &set(&signers),
    ]);
    let info = [object("1.2.840.113549.1.7.2"), tlv(0xa0, &[&data])].concat();
    if shape.indefinite {
        [&[0x30, 0x80][..], &info, &[0, 0]].concat()
    } else {
        sequence(&[&info])
    }
}

fn certificates(authority: &Authority, shape: &Shape) -> Vec<u8> {
    let mut list: Vec<&[u8]> = Vec::new();
    if shape.signer_certificate {
        list.push(&authority.signer);
    }
    if shape.intermediate {
        list.push(&authority.intermediate);
    }
    // As DER wants a set; not every authority does it.
    list.sort();
    if shape.signer_last {
        list = vec![
            &authority.root[..],
            &authority.intermediate,
            &authority.signer,
        ];
    }
    if shape.many_certificates {
        list.extend([&authority.intermediate[..]; 20]);
    }
    if shape.no_certificates {
        Vec::new()
    } else {
        tlv(0xa0, &list)
    }
}

fn attribute(id: &str, value: &[u8]) -> Vec<u8> {
    sequence(&[&object(id), &set(&[value])])
}

fn signer_info(authority: &Authority, info: &[u8], at: i64, shape: &Shape) -> Vec<u8> {
    let (digest_id, algorithm) = authority.key.digest();
    let mut attributes = vec![attribute("1.2.840.113549.1.9.5", &generalized_time(at))];
    if let Some(id) = shape.content_type {
        attributes.push(attribute("1.2.840.113549.1.9.3", &object(id)));
    }
    if !shape.no_message_digest {
        let hash = shape
            .message_digest
            .clone()
            .unwrap_or_else(|| digest(algorithm, info).as_ref().to_vec());
        attributes.push(attribute("1.2.840.113549.1.9.4", &octets(&hash)));
    }
    if shape.twice {
        attributes.push(attribute(
            "1.2.840.113549.1.9.4",
            &octets(digest(algorithm, info).as_ref()),
        ));
    }
    attributes.extend(signing_certificates(authority, shape.certificates));
    let attributes: Vec<&[u8]> = attributes.iter().map(Vec::as_slice).collect();
    let signed = set(&attributes);
    let mut signature = authority
        .key
        .sign(if shape.no_attributes { info } else { &signed });
    if shape.flip {
        let last = signature.len() - 1;
        signature[last] ^= 1;
    }
    let public = authority.key.public();
    let serial = shape
        .sid_serial
        .map_or_else(|| certificate::serial(&public), integer);
    let (version, sid) = if shape.by_key {
        (3, tlv(0x80, &[&certificate::key_id(&public)]))
    } else {
        (1, sequence(&[&authority.signer_issuer, &serial]))
    };
    let mut tagged = signed.clone();
    tagged[0] = 0xa0;
    if shape.no_attributes {
        tagged.clear();
    }
    let signed_by = shape.algorithm.map_or_else(
        || authority.key.algorithm(shape.salt),
        |id| sequence(&[&object(id)]),
    );
    sequence(&[
        &integer(version),
        &sid,
        &sequence(&[&object(shape.digest.unwrap_or(digest_id))]),
        &tagged,
        &signed_by,
        &octets(&signature),
    ])
}

fn signing_certificates(authority: &Authority, which: Certificates) -> Vec<Vec<u8>> {
    let v1 = |certificate: &[u8]| {
        let hash = octets(digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, certificate).as_ref());
        attribute(
            "1.2.840.113549.1.9.16.2.12",
            &sequence(&[&sequence(&[&sequence(&[&hash])])]),
        )
    };
    let v2 = |parts: &[&[u8]]| {
        attribute(
            "1.2.840.113549.1.9.16.2.47",
            &sequence(&[&sequence(&[&sequence(parts)])]),
        )
    };
    let hash = |certificate: &[u8]| octets(digest(&digest::SHA256, certificate).as_ref());
    let named = |serial: &[u8]| {
        sequence(&[
            &sequence(&[&tlv(0xa4, &[&authority.signer_issuer])]),
            serial,
        ])
    };
    let right = hash(&authority.signer);
    match which {
        Certificates::None => Vec::new(),
        Certificates::V1 => vec![v1(&authority.signer)],
        Certificates::V2 => vec![v2(&[&right])],
        Certificates::Both => vec![v1(&authority.signer), v2(&[&right])],
        Certificates::Named => vec![v2(&[
            &sequence(&[&object(SHA256)]),
            &right,
            &named(&certificate::serial(&authority.key.public())),
        ])],
        Certificates::OtherV1 => vec![v1(&authority.intermediate), v2(&[&right])],
        Certificates::OtherV2 => vec![v2(&[&hash(&authority.intermediate)])],
        Certificates::OtherSerial => vec![v2(&[&right, &named(&integer(9))])],
        Certificates::WeakV2 => {
            let weak =
                octets(digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, &authority.signer).as_ref());
            vec![v2(&[&sequence(&[&object("1.3.14.3.2.26")]), &weak])]
        }
    }
}
