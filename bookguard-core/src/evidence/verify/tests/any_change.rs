//! No byte and no field of a packet can be changed unnoticed, whoever signs it.

use super::*;

/// The bytes to change: of a word its first, every eighth and its last byte, and all between words. A word is what nothing
/// separates, as a hash in Base64. The digest of the whole notices a change wherever it is, so every seventh of these stands for the others.
fn bytes_to_change(text: &[u8]) -> Vec<usize> {
    let in_word = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=".contains(byte);
    let mut begun = 0;
    let mut places = Vec::new();
    for (at, byte) in text.iter().enumerate() {
        if !in_word(byte) {
            begun = at + 1;
        }
        let is_last = !text.get(at + 1).is_some_and(in_word);
        if is_long() || at < begun || (at - begun) % 8 == 0 || is_last {
            places.push(at);
        }
    }
    let every = if is_long() { 1 } else { 7 };
    places.into_iter().step_by(every).collect()
}

#[test]
fn a_packet_with_any_byte_changed_never_verifies() {
    let fixture = Fixture::new();
    // A packet with many parts: protected, canceled, decided.
    let genuine = text(&fixture.decided(), &fixture.signer).into_bytes();
    let vkey = fixture.vkey();
    assert!(verify(&genuine, &vkey).verified());
    let places = bytes_to_change(&genuine);
    shared_out(
        &places,
        || genuine.clone(),
        |changed, &at| {
            let byte = genuine[at];
            let others = [byte ^ 1, [byte ^ 0x20, b' ', b'0'][at % 3]];
            let tried = if is_long() {
                &others[..]
            } else {
                &others[at % 2..][..1]
            };
            for &other in tried.iter().filter(|other| **other != byte) {
                changed[at] = other;
                let report = verify(changed, &vkey);
                assert!(!report.verified(), "byte {at}, {byte} to {other}");
            }
            changed[at] = byte;
        },
    );
    for at in (0..genuine.len()).step_by(61) {
        assert!(!verify(&genuine[..at], &vkey).verified(), "cut at {at}");
    }
    for more in ["x", "\0", "{}"] {
        assert!(!verify(&[&genuine, more.as_bytes()].concat(), &vkey).verified());
    }
}

/// Collects every place in a document, as the names and numbers that lead to it.
fn places(value: &Value, path: Vec<String>, out: &mut Vec<Vec<String>>) {
    let steps: Vec<(String, &Value)> = match value {
        Value::Object(members) => members.iter().map(|(k, v)| (k.clone(), v)).collect(),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(i, v)| (i.to_string(), v))
            .collect(),
        _ => Vec::new(),
    };
    for (step, value) in steps {
        let mut path = path.clone();
        path.push(step);
        places(value, path.clone(), out);
        out.push(path);
    }
}

/// What may stand in place of the `nth` value, or not stand there.
fn others(nth: usize, value: &Value) -> Vec<Option<Value>> {
    // Every reader of a value refuses another kind in one way, so one kind stands for the others.
    let kinds = [Value::Null, json!("x"), json!(7), json!({}), json!([])].map(Some);
    let mut others = vec![None];
    others.extend(if is_long() {
        kinds.to_vec()
    } else {
        vec![kinds[nth % kinds.len()].clone()]
    });
    match value {
        Value::String(text) => others.push(Some(json!(format!("{text} ")))),
        Value::Number(number) => others.push(Some(json!(number.as_f64().unwrap() + 1.0))),
        Value::Bool(b) => others.push(Some(json!(!b))),
        Value::Array(items) => {
            others.push(Some(items.iter().rev().cloned().collect()));
            others.push(Some(items.iter().chain(items.last()).cloned().collect()));
            others.push(Some(items.iter().skip(1).cloned().collect()));
        }
        Value::Object(members) => {
            let mut more = members.clone();
            more.insert("more".to_owned(), Value::Null);
            others.push(Some(Value::Object(more)));
        }
        Value::Null => {}
    }
    others.retain(|other| other.as_ref() != Some(value));
    others
}

/// What a service can change under its own key, with `N` for every number, and why.
#[rustfmt::skip]
const STATED: &[(&str, &str)] = &[
    ("/signature", "it is made anew"),
    ("/deliveries", "in what order they are told"),
    ("/deliveries/N", "that an event went nowhere is recorded nowhere"),
    ("/deliveries/N/url", "an address is the partner's to change, and stands in no entry"),
    ("/deliveries/N/history", "attempts are not kept for ever"),
    ("/deliveries/N/history/N", "the same"),
    ("/deliveries/N/history/N/statusCode", "only the attempt with which a delivery ended is recorded"),
    ("/deliveries/N/history/N/error", "the same"),
];

#[test]
fn a_packet_with_any_field_changed_never_verifies_whoever_signs_it() {
    let fixture = Fixture::new();
    let (mut forms, mut stated) = (HashSet::new(), Vec::new());
    let mut tried = |packet: &Packet, is_tried: &dyn Fn(&str) -> bool| {
        stated.extend(no_field_is_free(&fixture, packet, is_tried, &mut forms));
    };
    tried(&fixture.decided(), &|_| true);
    // The parts that the other packets share with it need not be tried again.
    #[rustfmt::skip]
    let cases = [
        (fixture.rescheduled(), "booking.rescheduled", &["/booking", "/evaluation", "/formerTerms", "/summary", "/terms"][..]),
        (fixture.notified(), "webhook.settled", &["/deliveries", "/summary"]),
    ];
    for (packet, kind, own) in cases {
        let of_kind = |at: &str| {
            let entry = at
                .strip_prefix("/entries/")
                .and_then(|rest| rest.split('/').next());
            let entry = entry.and_then(|n| packet.entries.get(n.parse::<usize>().ok()?));
            entry.is_some_and(|entry| entry.body.kind == kind)
        };
        let is_own = |at: &str| of_kind(at) || own.iter().any(|part| at.starts_with(part));
        tried(&packet, &is_own);
    }
    for (place, why) in STATED {
        let needed = *place == "/signature" || stated.iter().any(|at| at == place);
        // A part of the changes cannot show that a line is needed by none.
        assert!(needed || !is_long(), "{place} is held all the same");
        assert!(!why.is_empty());
    }
}

/// A pointer with `N` for every number.
fn pattern(at: &str) -> String {
    let steps = at.split('/').map(|step| match step.parse::<usize>() {
        Ok(_) => "N",
        Err(_) => step,
    });
    steps.collect::<Vec<_>>().join("/")
}

/// Returns which places of [`STATED`] can be changed unnoticed. `forms` are the forms of places that were changed before.
fn no_field_is_free(
    fixture: &Fixture,
    packet: &Packet,
    is_tried: &dyn Fn(&str) -> bool,
    forms: &mut HashSet<String>,
) -> Vec<String> {
    let text = text(packet, &fixture.signer);
    let document: Value = jcs::parse(&text).unwrap();
    let mut all = Vec::new();
    places(&document, Vec::new(), &mut all);
    assert!(all.len() > 200);
    all.retain(|path| is_tried(&pointer(path)));
    let all: Vec<_> = (all.into_iter().enumerate())
        .map(|(nth, path)| {
            let is_first = forms.insert(pattern(&pointer(&path)));
            (nth, path, is_first)
        })
        .collect();
    let found = shared_out(&all, Vec::new, |stated, (nth, path, is_first)| {
        let at = pointer(path);
        let mut others = others(*nth, document.pointer(&at).unwrap());
        let one = nth % others.len();
        // Places of one form have one reader and one check: the first is changed in every way, each further one in the next way.
        if !is_first && !is_long() {
            others = vec![others.swap_remove(one)];
        }
        for (way, other) in others.into_iter().enumerate() {
            let changed = changed(&document, path, other.clone());
            // The digest of the whole notices a change that nobody signed anew, wherever and however it is: one of each form is tried.
            if is_long() || *is_first && way == one {
                let spelled = jcs::to_canonical(&changed).unwrap();
                assert!(
                    !verify(spelled.as_bytes(), &fixture.vkey()).verified(),
                    "{at}: {other:?}"
                );
            }
            let anew = signed_anew(&changed, &fixture.signer);
            if verify(&anew, &fixture.vkey()).verified() {
                let place = pattern(&at);
                let known = STATED.iter().any(|(known, _)| *known == place);
                assert!(known, "signed anew, {at}: {other:?}");
                stated.push(place);
            }
        }
    });
    found.into_iter().flatten().collect()
}

#[test]
fn a_field_given_twice_never_verifies() {
    let fixture = Fixture::new();
    let text = text(&fixture.protected(), &fixture.signer);
    let document: Value = jcs::parse(&text).unwrap();
    let mut all = Vec::new();
    places(&document, Vec::new(), &mut all);
    for path in all {
        let (name, parent) = path.split_last().unwrap();
        let Some(Value::Object(members)) = document.pointer(&pointer(parent)) else {
            continue;
        };
        let value = jcs::to_canonical(&members[name]).unwrap();
        let member = format!("{}:{value}", json!(name));
        for twice in [
            format!("{member},{member}"),
            format!("{}:null,{member}", json!(name)),
        ] {
            let doubled = text.replacen(&member, &twice, 1);
            assert_ne!(doubled, text, "{member}");
            assert_eq!(
                failures(doubled.as_bytes(), &fixture.vkey()),
                ["form"],
                "{member}"
            );
        }
    }
}
