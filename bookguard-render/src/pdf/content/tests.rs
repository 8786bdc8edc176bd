use super::*;

const KEY: &str = include_str!("../../../../tests/vectors/packets/ledger.vkey");
const MOVED: &str = include_str!(
    "../../../../tests/vectors/packets/good/moved-twice-accepted-before-and-after.json"
);

fn key() -> VerifierKey {
    KEY.trim().parse().unwrap()
}

fn told() -> Told {
    told_of(MOVED)
}

fn told_of(packet: &str) -> Told {
    let read = serde_json::from_str(packet).unwrap();
    Told::of(read, packet, &key(), &Maker::default())
}

/// The text of a block, as far as these tests need it.
fn text(block: &Block) -> Option<&str> {
    match block {
        Block::Section(text) | Block::Subsection(text) | Block::Paragraph(text) => Some(text),
        _ => None,
    }
}

#[test]
fn the_terms_in_force_come_first_and_former_ones_are_marked() {
    let told = told();
    let agreed = told.agreed().concat();
    let headings: Vec<&str> = (agreed.iter())
        .filter_map(|block| match block {
            Block::Subsection(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(
        headings,
        [
            "Cancellation terms of this booking",
            "The terms before move 2",
            "The terms before move 1",
        ]
    );
    let page = crate::page::page(MOVED, KEY, &Maker::default()).unwrap();
    assert!(headings[1..].iter().all(|heading| page.contains(heading)));
    let starts =
        |block: &&Block| text(block).is_some_and(|text| text.starts_with("The event starts on"));
    let starts: Vec<&str> = agreed.iter().filter(starts).filter_map(text).collect();
    let texts = told.packet.terms_disclosures.iter().rev();
    assert!(
        texts
            .zip(&starts)
            .all(|(told, start)| told.text.contains(start))
    );
    assert_eq!(starts.len(), 3);
}

/// Whether a block is not this section's heading.
fn is_before(heading: &'static str) -> impl Fn(&&Block) -> bool {
    move |block| !matches!(block, Block::Section(text) if text == heading)
}

/// What is printed of the terms.
fn printed_terms(told: &Told, limits: Limits) -> Vec<String> {
    let blocks = told.blocks(&key(), PdfForm::Bank, limits);
    let terms = blocks.iter().skip_while(is_before(words::TERMS)).skip(1);
    let terms = terms.take_while(is_before(words::TIMELINE));
    terms.map(|block| format!("{block:?}")).collect()
}

fn debugged(blocks: &[Block]) -> Vec<String> {
    blocks.iter().map(|block| format!("{block:?}")).collect()
}

#[test]
fn of_shortened_terms_the_end_is_missing_and_that_is_said() {
    let told = told();
    let texts = told.agreed();
    for agreed in 0..=texts[0].len() {
        let limits = Limits {
            agreed,
            former: 0,
            ..Limits::NONE
        };
        let printed = printed_terms(&told, limits);
        assert_eq!(printed[..agreed], debugged(&texts[0][..agreed]));
        let is_cut = agreed < texts[0].len();
        assert_eq!(printed.len(), agreed + usize::from(is_cut) + 1);
        assert_eq!(printed[agreed].contains(" these terms. "), is_cut);
    }
}

#[test]
fn terms_before_a_move_are_printed_whole_or_named_as_left_out() {
    let told = told();
    let texts = told.agreed();
    for (former, left_out) in [
        (0, Some(": 2 older texts of the terms. ")),
        (1, Some(": 1 older text of the terms. ")),
        (2, None),
    ] {
        let limits = Limits {
            former,
            ..Limits::NONE
        };
        let printed = printed_terms(&told, limits);
        let whole = debugged(&texts[..=former].concat());
        assert_eq!(printed[..whole.len()], whole);
        let rest = &printed[whole.len()..];
        assert_eq!(rest.len(), usize::from(left_out.is_some()));
        assert!(
            left_out.is_none_or(|said| rest[0].contains(said)),
            "{rest:?}"
        );
    }
}

#[test]
fn page_and_pdf_begin_with_the_same_facts() {
    let told = told();
    let names: Vec<&str> = (words::facts(&told.packet).iter())
        .map(|fact| fact.name)
        .collect();
    let opening = told.opening();
    let Some(Block::Table(table)) = opening.last() else {
        panic!("{opening:?}")
    };
    let printed = table.rows.iter().map(|row| row[0].paragraphs[0].as_str());
    assert_eq!(printed.collect::<Vec<_>>(), names);
    let page = crate::page::page(MOVED, KEY, &Maker::default()).unwrap();
    let shown = page.split("<dt>").skip(1);
    let shown = shown.map(|part| part.split('<').next().unwrap());
    assert_eq!(shown.collect::<Vec<_>>(), names);
}

#[test]
fn page_and_pdf_say_alike_where_a_moment_is_from_and_which_text_was_accepted() {
    let packet = include_str!("../../../../tests/vectors/packets/good/notified.json");
    let told = told_of(packet);
    let blocks = told.blocks(&key(), PdfForm::Bank, Limits::NONE);
    let printed = format!("{blocks:?}");
    let page = crate::page::page(packet, KEY, &Maker::default()).unwrap();
    let moments = told.packet.summary.timeline.iter();
    let stated = moments.filter(|moment| moment.entry.is_none()).count();
    assert!(stated > 1);
    let digest = &told.packet.terms_disclosures[0].disclosure_hash;
    let digest = digest.trim_start_matches("sha256:");
    for (said, times) in [
        (words::ENTRIES, 1),
        (words::STATEMENT, stated),
        (words::TERMS_DIGEST, 1),
        (digest, 1),
    ] {
        assert_eq!(printed.matches(said).count(), times, "{said}");
        assert_eq!(page.matches(said).count(), times, "{said}");
    }
}

#[test]
fn the_result_comes_before_the_account_and_each_paragraph_names_its_entry() {
    let told = told_of(include_str!(
        "../../../../tests/vectors/packets/good/canceled-decided.json"
    ));
    let blocks = told.blocks(&key(), PdfForm::Bank, Limits::NONE);
    let mut story = told.packet.summary.story.clone();
    for (at, entry) in [(0, 11), (1, 18), (2, 19), (3, 20)] {
        story[at] += &format!(" (Entry {entry})");
    }
    let [recorded, canceled, result, decision, sent] = story.as_slice() else {
        panic!("{story:?}")
    };
    let printed: Vec<&str> = blocks.iter().filter_map(text).collect();
    let first: [&str; 7] = [
        words::RESULT,
        result,
        decision,
        words::STORY,
        recorded,
        canceled,
        sent,
    ];
    assert_eq!(printed[..7], first);
}

#[test]
fn entries_are_named_in_a_row() {
    for (entries, named) in [
        (&[][..], ""),
        (&[142][..], " (Entry 142)"),
        (&[54, 58][..], " (Entries 54 and 58)"),
        (&[1, 2, 30][..], " (Entries 1, 2 and 30)"),
    ] {
        assert_eq!(words::sources(entries), named);
    }
}

#[test]
fn a_reader_of_paper_learns_where_the_key_and_a_verifier_are() {
    let told = told();
    for form in [PdfForm::Bank, PdfForm::Archive] {
        let closing = format!("{:?}", told.closing(&key(), form));
        for place in [
            "the page /verify of the service",
            "at /verify/verify.js of the service",
            "at /v1/ledger/key",
            "ask the platform for it",
        ] {
            assert!(closing.contains(place), "{place}: {closing}");
        }
    }
}
