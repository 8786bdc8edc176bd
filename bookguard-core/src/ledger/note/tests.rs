//! Notes against the published vectors, and every way to misspell them.

use super::*;

const TEXT: &str = "first line\n\nlast line\n";

fn signer() -> Signer {
    Signer::from_seed("example.com/log", &[3; 32]).unwrap()
}

fn other() -> Signer {
    Signer::from_seed("example.com/witness", &[4; 32]).unwrap()
}

fn line(signer: &Signer, text: &str) -> String {
    let note = signer.sign(text).unwrap();
    note[text.len() + 1..].to_owned()
}

#[test]
fn the_published_note_verifies() {
    let vectors: serde_json::Value =
        serde_json::from_str(include_str!("../../../../tests/vectors/ledger.json")).unwrap();
    let vector = |name: &str| vectors["signedNote"][name].as_str().unwrap().to_owned();
    let key: VerifierKey = vector("vkey").parse().unwrap();
    assert_eq!(key.to_string(), vector("vkey"));
    let note = vector("note");
    assert_eq!(key.open(&note).unwrap(), "This is an example message.\n");
}

#[test]
fn a_note_opens_under_the_key_that_signed_it_and_no_other() {
    let note = signer().sign(TEXT).unwrap();
    assert_eq!(signer().verifier().open(&note), Ok(TEXT));
    let name = other().name().to_owned();
    assert_eq!(
        other().verifier().open(&note),
        Err(NoteError::Unsigned { name })
    );
    // Same name and another key give another id.
    let namesake = Signer::from_seed("example.com/log", &[4; 32]).unwrap();
    assert!(matches!(
        namesake.verifier().open(&note),
        Err(NoteError::Unsigned { .. })
    ));
    // Same key, other name.
    let alias = Signer::from_seed("example.com/alias", &[3; 32]).unwrap();
    assert!(matches!(
        alias.verifier().open(&note),
        Err(NoteError::Unsigned { .. })
    ));
}

#[test]
fn signatures_of_other_keys_are_read_and_ignored() {
    let own = line(&signer(), TEXT);
    let foreign = line(&other(), TEXT);
    let bogus = line(&other(), "another text\n");
    let key = signer();
    let key = key.verifier();
    for lines in [
        format!("{own}{foreign}"),
        format!("{foreign}{own}"),
        format!("{bogus}{own}{foreign}{bogus}"),
        format!("{own}{}", foreign.repeat(MAX_SIGNATURES - 1)),
    ] {
        assert_eq!(key.open(&format!("{TEXT}\n{lines}")), Ok(TEXT));
    }
    let many = format!("{TEXT}\n{own}{}", foreign.repeat(MAX_SIGNATURES));
    assert_eq!(key.open(&many), Err(NoteError::TooManySignatures));
    let twice = format!("{TEXT}\n{own}{own}");
    assert!(matches!(key.open(&twice), Err(NoteError::Malformed(_))));
    let name = key.name().to_owned();
    let wrong = format!("{TEXT}\n{}{foreign}", line(&signer(), "another text\n"));
    assert_eq!(key.open(&wrong), Err(NoteError::Signature { name }));
}

#[test]
fn a_note_in_any_other_form_is_refused() {
    let own = line(&signer(), TEXT);
    let (head, signature) = own.trim_end().rsplit_once(' ').unwrap();
    let short = STANDARD.encode([0; 4]);
    for note in [
        String::new(),
        "\n\n".to_owned(),
        TEXT.to_owned(),
        format!("{TEXT}{own}"),
        format!("{TEXT}\n"),
        format!("{TEXT}\n{}", own.trim_end()),
        format!("{TEXT}\n{own} "),
        format!("{TEXT}\n{own}\n"),
        format!("{TEXT}\n{own}x\n"),
        format!("{TEXT}\r\n\r\n{own}"),
        format!("\0{TEXT}\n{own}"),
        format!("{TEXT}\n- {}", &own["\u{2014} ".len()..]),
        format!("{TEXT}\n\u{2013} {}", &own["\u{2014} ".len()..]),
        format!("{TEXT}\n\u{2014}  {}", &own["\u{2014} ".len()..]),
        format!("{TEXT}\n {own}"),
        format!("{TEXT}\n{head}  {signature}\n"),
        format!("{TEXT}\n{head} {signature} \n"),
        format!("{TEXT}\n{head} {signature}\r\n"),
        format!("{TEXT}\n{head} {signature}=\n"),
        format!("{TEXT}\n{head} {}\n", signature.trim_end_matches('=')),
        format!("{TEXT}\n{head} {short}\n"),
        format!("{TEXT}\n{head}\n"),
        format!("{TEXT}\n{own}\u{2014} a+b {signature}\n"),
        format!("{TEXT}\n{own}\u{2014} a\u{a0}b {signature}\n"),
        format!("{TEXT}\n{own}\u{2014}  {signature}\n"),
    ] {
        let refused = signer().verifier().open(&note).unwrap_err();
        assert!(
            matches!(refused, NoteError::Malformed(_)),
            "{note:?} {refused}"
        );
    }
    let long = format!("{}\n\n{own}", "x".repeat(MAX_NOTE_BYTES));
    assert_eq!(signer().verifier().open(&long), Err(NoteError::TooLong));
    for text in ["", "no newline", "tab\there\n", "cr\r\n"] {
        assert!(signer().sign(text).is_err(), "{text:?}");
    }
    // A signature shortened by a byte is valid base64, but not a signature.
    let mut bytes = STANDARD.decode(signature).unwrap();
    bytes.pop();
    let cut = format!("{TEXT}\n{head} {}\n", STANDARD.encode(bytes));
    assert!(matches!(
        signer().verifier().open(&cut),
        Err(NoteError::Signature { .. })
    ));
}

#[test]
fn a_note_with_any_bit_flipped_never_opens() {
    let note = signer().sign(TEXT).unwrap();
    for at in 0..note.len() {
        for bit in 0..8 {
            let mut bytes = note.clone().into_bytes();
            bytes[at] ^= 1 << bit;
            if let Ok(flipped) = String::from_utf8(bytes) {
                assert!(signer().verifier().open(&flipped).is_err(), "{flipped:?}");
            }
        }
    }
}

#[test]
fn a_verifier_key_in_any_other_form_is_refused() {
    let good = signer().verifier().to_string();
    for text in [
        good.clone(),
        format!("{good}\n"),
        format!("{good}\r\n"),
        format!(" {good}\n\n"),
    ] {
        let parsed = text.parse::<VerifierKey>();
        assert_eq!(parsed.as_ref(), Ok(signer().verifier()), "{text:?}");
    }
    let mut parts = good.splitn(3, '+');
    let (name, id, key) = (
        parts.next().unwrap(),
        parts.next().unwrap(),
        parts.next().unwrap(),
    );
    let raw = STANDARD.decode(key).unwrap();
    let retyped = |kind: u8| STANDARD.encode([&[kind], &raw[1..]].concat());
    let short = STANDARD.encode(&raw[..32]);
    let identity = {
        let mut point = [0; 33];
        (point[0], point[1]) = (ED25519, 1);
        STANDARD.encode(point)
    };
    for (text, error) in [
        (String::new(), KeyError::Form),
        (format!("{name}+{id}"), KeyError::Form),
        (format!("+{id}+{key}"), KeyError::Name),
        (format!("a b+{id}+{key}"), KeyError::Name),
        (format!("a\u{2003}b+{id}+{key}"), KeyError::Name),
        (format!("a\nb+{id}+{key}"), KeyError::Name),
        (format!("{}+{id}+{key}", "n".repeat(256)), KeyError::Name),
        (format!("{name}+{}+{key}", id.to_uppercase()), KeyError::Id),
        (format!("{name}+0{id}+{key}"), KeyError::Id),
        (format!("{name}+00000000+{key}"), KeyError::Id),
        (format!("{name}x+{id}+{key}"), KeyError::Id),
        (format!("{name}+{id}+{key}\n{name}"), KeyError::Form),
        (format!("{name}+{id}+{short}"), KeyError::Form),
        (
            format!("{name}+{id}+{}", retyped(4)),
            KeyError::Kind {
                found: 4,
                expected: 1,
            },
        ),
        (format!("{name}+{id}+{identity}"), KeyError::Point),
    ] {
        assert_eq!(text.parse::<VerifierKey>(), Err(error), "{text:?}");
    }
    for at in 0..good.len() {
        for bit in 0..8 {
            let mut bytes = good.clone().into_bytes();
            bytes[at] ^= 1 << bit;
            if let Ok(flipped) = String::from_utf8(bytes) {
                assert!(flipped.parse::<VerifierKey>().is_err(), "{flipped:?}");
            }
        }
    }
    assert_eq!(
        Signer::from_seed("a+b", &[0; 32]).unwrap_err(),
        KeyError::Name
    );
}

#[test]
fn the_secret_is_not_in_what_debugging_shows() {
    let signer = Signer::from_seed("example.com/log", &[0xab; 32]).unwrap();
    let shown = format!("{signer:?} {signer:#?}").to_lowercase();
    for secret in [
        "abab",
        "171, 171",
        "secret",
        &STANDARD.encode([0xab; 30]).to_lowercase(),
    ] {
        assert!(!shown.contains(secret), "{shown}");
    }
    assert!(shown.contains("example.com/log"));
}
