//! Writes DER.

use std::fmt::Write;

pub fn tlv(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let value = parts.concat();
    let mut der = vec![tag];
    match value.len() {
        length @ 0..=0x7f => der.push(u8::try_from(length).unwrap()),
        length @ 0x80..=0xff => der.extend([0x81, u8::try_from(length).unwrap()]),
        length => {
            der.push(0x82);
            der.extend(u16::try_from(length).unwrap().to_be_bytes());
        }
    }
    der.extend(value);
    der
}

pub fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    tlv(0x30, parts)
}

/// A set, sorted as DER wants it.
pub fn set(parts: &[&[u8]]) -> Vec<u8> {
    let mut sorted = parts.to_vec();
    sorted.sort();
    tlv(0x31, &sorted)
}

/// An object identifier from its dotted text.
pub fn object(dotted: &str) -> Vec<u8> {
    let numbers: Vec<u64> = dotted
        .split('.')
        .map(|number| number.parse().unwrap())
        .collect();
    let mut value = Vec::new();
    for number in [&[numbers[0] * 40 + numbers[1]], &numbers[2..]].concat() {
        let mut groups = vec![u8::try_from(number & 0x7f).unwrap()];
        let mut rest = number >> 7;
        while rest > 0 {
            groups.push(u8::try_from(rest & 0x7f).unwrap() | 0x80);
            rest >>= 7;
        }
        value.extend(groups.into_iter().rev());
    }
    tlv(0x06, &[&value])
}

pub fn integer(value: u8) -> Vec<u8> {
    tlv(0x02, &[&[value]])
}

pub fn octets(value: &[u8]) -> Vec<u8> {
    tlv(0x04, &[value])
}

pub fn bits(value: &[u8]) -> Vec<u8> {
    tlv(0x03, &[&[0], value])
}

pub fn generalized_time(millis: i64) -> Vec<u8> {
    let time = chrono::DateTime::from_timestamp_millis(millis).unwrap();
    let mut text = time.format("%Y%m%d%H%M%S").to_string();
    if millis % 1000 != 0 {
        text += format!(".{:03}", millis.rem_euclid(1000)).trim_end_matches('0');
    }
    tlv(0x18, &[text.as_bytes(), b"Z"])
}

/// The element at the start of `der`: its tag, its value, and what follows.
pub fn split(der: &[u8]) -> (u8, &[u8], &[u8]) {
    let (length, header) = match der[1] {
        short @ 0..=0x7f => (usize::from(short), 2),
        0x81 => (usize::from(der[2]), 3),
        _ => (usize::from(der[2]) << 8 | usize::from(der[3]), 4),
    };
    (
        der[0],
        &der[header..header + length],
        &der[header + length..],
    )
}

pub fn pem(label: &str, der: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in der.chunks(3) {
        let word = chunk
            .iter()
            .fold(0u32, |word, byte| word << 8 | u32::from(*byte))
            << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let digit = ALPHABET[usize::try_from(word >> (18 - 6 * place) & 63).unwrap()];
            text.push(if place <= chunk.len() {
                char::from(digit)
            } else {
                '='
            });
        }
    }
    let mut pem = format!("-----BEGIN {label}-----\n");
    for line in text.as_bytes().chunks(64) {
        writeln!(pem, "{}", std::str::from_utf8(line).unwrap()).unwrap();
    }
    pem + &format!("-----END {label}-----\n")
}
