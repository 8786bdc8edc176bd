//! The two PDFs, as programs that are not ours read them: qpdf, poppler's pdftotext, and the Python packages `page-validation`
//! (PDF/A and PDF/UA) and pikepdf.
//!
//! If one is not installed, what needs it is skipped with a line of output; with `BOOKGUARD_TEST_LANGUAGES=required` it
//! fails. The Python packages are in the folder that `BOOKGUARD_TEST_LIBRARIES` names.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::{Path, PathBuf};
use std::process::Command;

use bookguard_render::{Fonts, Maker, PdfForm, RenderError, pdf};
use serde_json::{Value, json};
use tempfile::TempDir;

const PACKET: &str = include_str!("../../tests/vectors/packets/good/canceled-final.json");
const KEY: &str = include_str!("../../tests/vectors/packets/ledger.vkey");

/// Names as people and attackers choose them.
const NAMES: [&str; 9] = [
    "Zoë & the Ñandús – Ελλάδα, Україна “Café” Łódź",
    "張偉 Orchestra、東京事変",
    "عبد الرحمن 2030",
    "שָׁלוֹם",
    "👩🏽\u{200d}🚀 & 🏳\u{fe0f}\u{200d}🌈",
    "Acme\u{202e}moc.liva \u{2066}\u{200b}\u{e000}\u{fffe}\u{0}\u{1b}[31m\r\n",
    "\u{301}\u{200d}\u{fe0f}\u{feff} a\u{308}\u{308}\u{308} नमस्ते ไทย \u{1F1E9}\u{1F1EA} \u{10ffff}",
    "<script>alert(1)</script> (\\) %PDF-1.7 endstream endobj << /JS >> ]]>&amp;\"'",
    "",
];

/// The packet, so changed. The PDFs do not depend on its signature.
fn packet(change: impl FnOnce(&mut Value)) -> String {
    let mut packet: Value = serde_json::from_str(PACKET).unwrap();
    change(&mut packet);
    packet.to_string()
}

fn named(name: &str) -> String {
    packet(|packet| {
        packet["partnerName"] = json!(name);
        packet["booking"]["talent"]["name"] = json!(name);
        packet["booking"]["organizer"]["name"] = json!(format!("{name}{}", "W".repeat(200)));
        packet["summary"]["headline"] =
            json!(format!("{name} booked {name} for USD 4500.00, {name}."));
        packet["summary"]["story"] = json!([name, format!("{name}, who paid USD 4500.00.")]);
    })
}

/// A packet with this many moments and paragraphs.
fn long(moments: usize, paragraphs: usize) -> String {
    packet(|packet| {
        let sentence = |what: &str, number: usize| {
            format!(
                "{what} {number} of a long booking, of which there is a good deal to tell, in USD 12.50."
            )
        };
        let moment = |number| json!({"at": "2026-11-22T21:43:15.458Z", "when": "22 November 2026, 16:43:15 (21:43:15 UTC)", "entry": number, "text": sentence("Moment", number)});
        packet["summary"]["timeline"] = (0..moments).map(moment).collect();
        packet["summary"]["story"] = (0..paragraphs)
            .map(|number| sentence("Paragraph", number))
            .collect();
    })
}

fn printed(packet: &str, form: PdfForm) -> Vec<u8> {
    pdf(packet, KEY, form, &Maker::default()).unwrap()
}

fn with(fonts: Fonts) -> Maker {
    Maker {
        fonts,
        ..Maker::default()
    }
}

fn font(name: &str) -> Vec<u8> {
    std::fs::read(
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/fonts")
            .join(name),
    )
    .unwrap()
}

/// Files that go when they are dropped.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn keep(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

fn all_required() -> bool {
    std::env::var("BOOKGUARD_TEST_LANGUAGES").is_ok_and(|set| set == "required")
}

/// Runs a program and returns what it prints; `None` if it is not there.
fn run(command: &mut Command) -> Option<String> {
    match command.output() {
        Ok(ran) => {
            let stderr = String::from_utf8_lossy(&ran.stderr);
            assert!(
                ran.status.success(),
                "{command:?}: {stderr}{}",
                String::from_utf8_lossy(&ran.stdout)
            );
            Some(String::from_utf8_lossy(&ran.stdout).into_owned())
        }
        Err(error) => {
            assert!(!all_required(), "{command:?}: {error}");
            println!("{command:?} is not on this machine: what it would say is not known");
            None
        }
    }
}

/// What a program says of a PDF, whose file stands between these arguments.
fn said(program: &str, before: &str, pdf: &[u8], after: &str) -> Option<String> {
    let files = Files::new();
    let mut command = Command::new(program);
    command.args(before.split_whitespace());
    command.arg(files.keep("a.pdf", pdf));
    run(command.args(after.split_whitespace()))
}

/// The text of a PDF, each run of white space as one space.
fn text(pdf: &[u8]) -> Option<String> {
    let text = said("pdftotext", "-layout", pdf, "-")?;
    Some(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// The lines of a PDF's text.
fn lines(pdf: &[u8]) -> Option<Vec<String>> {
    let text = said("pdftotext", "-raw", pdf, "-")?;
    Some(text.lines().map(|line| line.trim().to_owned()).collect())
}

fn pages(pdf: &[u8]) -> Option<usize> {
    let pages = said("qpdf", "--show-npages", pdf, "")?;
    Some(pages.trim().parse().unwrap())
}

/// Has other programs judge archives.
fn judge(archives: &[(String, Vec<u8>)]) {
    let Some(libraries) = std::env::var_os("BOOKGUARD_TEST_LIBRARIES") else {
        assert!(!all_required(), "BOOKGUARD_TEST_LIBRARIES is not set");
        println!("BOOKGUARD_TEST_LIBRARIES is not set: nobody judged the archives");
        return;
    };
    let files = Files::new();
    let mut command = Command::new("python3");
    command.env("PYTHONPATH", Path::new(&libraries).join("python"));
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/judge.py"));
    for (number, (packet, pdf)) in archives.iter().enumerate() {
        command.arg(files.keep(&format!("{number}.pdf"), pdf));
        files.keep(&format!("{number}.pdf.json"), packet.as_bytes());
    }
    let verdicts = run(&mut command).unwrap_or_default();
    let bad: Vec<_> = verdicts
        .lines()
        .enumerate()
        .filter(|(_, verdict)| *verdict != "good")
        .collect();
    assert!(bad.is_empty(), "{bad:#?}");
    assert_eq!(verdicts.lines().count(), archives.len());
}

fn qpdf_finds_no_fault(pdf: &[u8]) {
    said("qpdf", "--check", pdf, "");
}

#[test]
fn the_same_packet_gives_the_same_bytes() {
    for form in [PdfForm::Bank, PdfForm::Archive] {
        let packet = packet(|_| {});
        assert!(printed(&packet, form) == printed(&packet, form), "{form:?}");
    }
}

/// Every genuine packet of the vectors.
fn genuine() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors/packets/good");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    files.sort();
    files
        .iter()
        .map(|file| std::fs::read_to_string(file).unwrap())
        .collect()
}

#[test]
fn what_a_packet_says_can_be_read_in_both() {
    let packets = genuine();
    assert!(packets.len() > 10);
    for packet in packets {
        let told: Value = serde_json::from_str(&packet).unwrap();
        let summary = &told["summary"];
        let story = summary["story"].as_array().unwrap().iter();
        let moments = summary["timeline"]
            .as_array()
            .unwrap()
            .iter()
            .map(|moment| &moment["text"]);
        let sentences: Vec<&str> = story
            .chain(moments)
            .chain([&summary["headline"]])
            .map(|text| text.as_str().unwrap())
            .collect();
        for form in [PdfForm::Bank, PdfForm::Archive] {
            let pdf = printed(&packet, form);
            let Some(lines) = lines(&pdf) else { return };
            let seen: String = lines.concat().split_whitespace().collect();
            for sentence in &sentences {
                // What the shipped fonts lack is the subject of another test.
                let shown = |c: char| {
                    c < '\u{590}' && !c.is_control() || ('\u{2000}'..'\u{2100}').contains(&c)
                };
                let wanted: String = sentence.split_whitespace().collect();
                // A sentence that goes on on the next page has a footer in it.
                let (start, end) = wanted.split_at(wanted.floor_char_boundary(wanted.len() / 2));
                let found = seen.contains(start) || seen.contains(end);
                assert!(
                    found || !sentence.chars().all(shown),
                    "{form:?}: {sentence} is not in {seen}"
                );
            }
            // No amount is broken over two lines.
            for line in &lines {
                assert!(!line.ends_with("USD"), "{line}");
            }
        }
    }
}

#[test]
fn page_one_has_the_facts_of_the_page() {
    let Some(text) = text(&printed(PACKET, PdfForm::Bank)) else {
        return;
    };
    for fact in [
        "Stage & Co",
        "The [U+1F3B8] \"Band\"[U+0007]",
        "Ana María",
        "concert",
        "USD 1,200.50",
        "Event starts Saturday 20 June 2026, 19:00 New York time (23:00 UTC)",
        "Status canceled",
        "Booking bkg_019ba87e2d7b74149414141414141414",
        "Packet made Monday 1 June 2026, 08:00 New York time (12:00 UTC)",
        "Page 1 of",
    ] {
        assert!(text.contains(fact), "{fact}: {text}");
    }
}

#[test]
fn the_story_begins_on_page_one() {
    let pdf = printed(&packet(|_| {}), PdfForm::Bank);
    if let Some(text) = said("pdftotext", "-raw -l 1", &pdf, "-") {
        assert!(
            text.contains("What happened") && text.contains("recorded the booking on"),
            "{text}"
        );
    }
}

#[test]
fn what_was_decided_stands_on_page_one() {
    let packet = include_str!("../../tests/vectors/packets/good/canceled-decided.json");
    let pdf = printed(packet, PdfForm::Bank);
    if let Some(text) = said("pdftotext", "-raw -l 1", &pdf, "-") {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for said in [
            "The result The service computed from the frozen terms",
            "a person must decide. (Entry 19)",
            "USD 200.25 is to be returned to the organizer",
            "(Entry 20)",
        ] {
            assert!(text.contains(said), "{said}: {text}");
        }
    }
}

#[test]
fn an_archive_keeps_its_standards_whatever_the_names() {
    // Outlines of TrueType; and of PostScript, in a collection.
    let added = ["ideographs.ttf", "ideographs.ttc"].map(|file| {
        let fonts = Fonts::default().with(font(file)).unwrap();
        with(fonts.with(font("arabic.ttf")).unwrap())
    });
    let mut archives = Vec::new();
    for name in NAMES {
        let packet = named(name);
        let plain = printed(&packet, PdfForm::Archive);
        qpdf_finds_no_fault(&plain);
        qpdf_finds_no_fault(&printed(&packet, PdfForm::Bank));
        archives.push((packet.clone(), plain));
        for maker in &added {
            let added = pdf(&packet, KEY, PdfForm::Archive, maker).unwrap();
            qpdf_finds_no_fault(&added);
            archives.push((packet.clone(), added));
        }
    }
    archives.extend(genuine().into_iter().map(|packet| {
        let pdf = printed(&packet, PdfForm::Archive);
        (packet, pdf)
    }));
    archives.push((long(60, 10), printed(&long(60, 10), PdfForm::Archive)));
    judge(&archives);
}

#[test]
fn a_character_without_a_font_is_printed_as_its_code_point() {
    let packet = named("張偉 & 👍 Co\u{202e}");
    let Some(plain) = text(&printed(&packet, PdfForm::Bank)) else {
        return;
    };
    assert!(
        plain.contains("[U+5F35][U+5049] & [U+1F44D] Co[U+202E]"),
        "{plain}"
    );
    for file in ["ideographs.ttf", "ideographs.ttc"] {
        let fonts = Fonts::default().with(font(file)).unwrap();
        let added = text(&pdf(&packet, KEY, PdfForm::Bank, &with(fonts)).unwrap()).unwrap();
        assert!(added.contains("張偉 & [U+1F44D] Co[U+202E]"), "{added}");
    }
}

#[test]
fn a_name_written_from_right_to_left_leaves_its_sentence_in_order() {
    let fonts = Fonts::default().with(font("arabic.ttf")).unwrap();
    let packet = packet(|packet| {
        packet["summary"]["story"] =
            json!(["StageHub paid “عبد الرحمن” 4500 times, then USD 12.50."]);
    });
    let pdf = pdf(&packet, KEY, PdfForm::Archive, &with(fonts)).unwrap();
    if let Some(text) = text(&pdf) {
        // pdftotext adds marks of direction, and counts spaces on the side where it sees them.
        let seen: String = text
            .chars()
            .filter(|c| c.is_ascii_graphic() || c.is_alphabetic())
            .collect();
        let told = "StageHubpaidعبدالرحمن4500times,thenUSD12.50.";
        assert!(seen.contains(told), "{text}");
    }
    judge(&[(packet, pdf)]);
}

#[test]
fn a_bank_gets_ten_pages_at_most_and_is_told_what_is_missing() {
    for (moments, paragraphs) in [(3, 2), (120, 10), (1_000, 10), (150, 400)] {
        let packet = long(moments, paragraphs);
        let pdf = printed(&packet, PdfForm::Bank);
        assert!(pdf.len() < 1_000_000, "{} bytes", pdf.len());
        let (Some(pages), Some(text)) = (pages(&pdf), text(&pdf)) else {
            return;
        };
        let case = format!("{moments} moments, {paragraphs} paragraphs: {pages} pages");
        assert!(pages <= 10, "{case}");
        assert!(
            text.contains("How to check it") && text.contains("It does not prove"),
            "{case}"
        );
        assert_eq!(text.contains("Left out here"), moments > 100, "{case}");
        if moments > 100 {
            assert!(pages == 10, "{case}");
        }
        if moments == 120 {
            assert!(
                text.contains("Moment 0 ") && text.contains("Moment 119 "),
                "{case}: {text}"
            );
        }
        let whole = printed(&packet, PdfForm::Archive);
        assert!(text_is_whole(&whole, moments), "{case}");
    }
}

#[test]
fn former_terms_are_left_out_before_what_happened() {
    let mut packet: Value = serde_json::from_str(&long(60, 10)).unwrap();
    let in_force = packet["termsDisclosures"][0].clone();
    let mut former = in_force.clone();
    let lines = "\n- What an older text of the terms says, and says at length.".repeat(40);
    former["text"] = json!(in_force["text"].as_str().unwrap().to_owned() + &lines);
    let mut texts = vec![former; 12];
    texts.push(in_force);
    packet["termsDisclosures"] = json!(texts);
    packet["formerTerms"] = json!(vec![packet["terms"].clone(); 12]);
    let mut moved = packet["entries"][0].clone();
    moved["body"]["kind"] = json!("booking.rescheduled");
    let entries = packet["entries"].as_array_mut().unwrap();
    entries.extend(vec![moved; 12]);
    let packet = packet.to_string();
    let pdf = printed(&packet, PdfForm::Bank);
    let (Some(pages), Some(text)) = (pages(&pdf), text(&pdf)) else {
        return;
    };
    assert!(pages <= 10, "{pages}");
    assert!(
        (0..60).all(|n| text.contains(&format!("Moment {n} "))),
        "{text}"
    );
    let left_out = "Left out here to keep this document at 10 pages: ";
    let (_, what) = text.split_once(left_out).unwrap();
    assert!(what.contains(" older texts of the terms."), "{what}");
    assert!(text_is_whole(&printed(&packet, PdfForm::Archive), 60));
}

fn text_is_whole(archive: &[u8], moments: usize) -> bool {
    let text = text(archive).unwrap();
    !text.contains("Left out here") && text.contains(&format!("Moment {} ", moments - 1))
}

#[test]
fn a_bank_gets_no_attachment_and_no_link() {
    let pdf = printed(&packet(|_| {}), PdfForm::Bank);
    if let Some(open) = said("qpdf", "--qdf --object-streams=disable", &pdf, "-") {
        for word in [
            "/EmbeddedFile",
            "/Annots",
            "/URI",
            "/JavaScript",
            "/OpenAction",
        ] {
            assert!(!open.contains(word), "{word}");
        }
    }
}

#[test]
fn the_attached_packet_is_the_packet_byte_for_byte() {
    let pdf = printed(PACKET, PdfForm::Archive);
    let shown = said("qpdf", "--show-attachment=packet.json", &pdf, "");
    assert!(shown.is_none_or(|shown| shown == PACKET));
}

#[test]
fn what_is_not_a_packet_a_key_or_a_font_is_refused() {
    let maker = Maker::default();
    for packet in ["", "{}", "[1]", "\u{0}", &PACKET[..1_000]] {
        let refused = pdf(packet, KEY, PdfForm::Bank, &maker);
        assert!(matches!(refused, Err(RenderError::Packet(_))), "{packet}");
    }
    let refused = pdf(PACKET, "not a key", PdfForm::Bank, &maker);
    assert!(matches!(refused, Err(RenderError::Key)));
    for file in [Vec::new(), vec![0; 10_000], b"OTTO\0\x0f\0\x80".to_vec()] {
        let refused = Fonts::default().with(file).unwrap_err();
        assert_eq!(refused, "is not a TrueType or OpenType font");
    }
}

/// The font, so changed in what its directory of tables calls this.
fn with_table(file: &str, table: &[u8; 4], change: impl FnOnce(&mut [u8], usize)) -> Vec<u8> {
    let mut font = font(file);
    let entry = font.windows(4).position(|name| name == table).unwrap();
    change(&mut font, entry);
    font
}

#[test]
fn a_font_that_cannot_or_may_not_be_embedded_is_refused() {
    let fs_type = |bits: u16| {
        with_table("arabic.ttf", b"OS/2", |font, entry| {
            let place = u32::from_be_bytes(font[entry + 8..entry + 12].try_into().unwrap());
            font[place as usize + 8..][..2].copy_from_slice(&bits.to_be_bytes());
        })
    };
    let without = |file, table| with_table(file, table, |font, entry| font[entry] = b'~');
    let not_permitted = "does not permit embedding in documents";
    let no_outlines = "has neither TrueType nor PostScript (CFF) outlines";
    #[rustfmt::skip]
    let cases = [
        ("installable", fs_type(0), None),
        ("restricted", fs_type(2), Some(not_permitted)),
        ("no parts", fs_type(0x100), Some(not_permitted)),
        ("no TrueType outlines", without("arabic.ttf", b"glyf"), Some(no_outlines)),
        ("no PostScript outlines", without("ideographs.ttc", b"CFF "), Some(no_outlines)),
    ];
    for (case, file, refused) in cases {
        assert_eq!(Fonts::default().with(file).err(), refused, "{case}");
    }
}
