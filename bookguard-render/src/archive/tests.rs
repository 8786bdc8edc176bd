//! What an archive says about the files of its items.

use bookguard_core::model::MediaType;

use super::*;

const KEY: &str = include_str!("../../../tests/vectors/packets/ledger.vkey");
const PACKET: &str = include_str!("../../../tests/vectors/packets/good/items.json");

/// The packet's only item with a file, and the file.
fn stored(media_type: MediaType) -> (ItemId, FileState) {
    let read: Packet = serde_json::from_str(PACKET).unwrap();
    let item = &read.items[0];
    let file = FileState {
        file_id: FileId::named(&read.booking.partner_id, item.sha256.as_deref().unwrap()).unwrap(),
        size: 1_500_009,
        media_type,
        crc: 1,
        parts: 6,
        at: item.added_at,
    };
    (item.item_id, file)
}

/// The readable part of an archive.
fn text(packet: &str, files: &[(ItemId, FileState)]) -> String {
    let segments = archive(packet, KEY, files, &Maker::default()).unwrap();
    let bytes = segments.iter().filter_map(|segment| match segment {
        Segment::Bytes(bytes) => Some(String::from_utf8_lossy(bytes)),
        Segment::File(_) => None,
    });
    bytes.collect()
}

#[test]
fn its_page_links_to_the_files_beside_it_and_says_which_are_absent() {
    for (media_type, extension) in [(MediaType::Pdf, "pdf"), (MediaType::Binary, "bin")] {
        let file = stored(media_type);
        let made = text(PACKET, &[file]);
        let name = format!("files/{}.{extension}", file.0);
        let link = format!("<a href=\"{name}\" download>{name}</a>, 1500009 bytes");
        assert_eq!(made.matches(&link).count(), 1);
        assert_eq!(made.matches(" href=").count(), 1);
        assert!(made.contains(&format!("{}  {name}\n", "5c".repeat(32))));
        // A list that is not signed must not be what the files are compared with.
        assert!(made.contains("--files .\n") && made.contains("only a copy"));
        let make = || archive(PACKET, KEY, &[file], &Maker::default());
        assert_eq!(make(), make());
    }
    let made = text(PACKET, &[]);
    assert!(!made.contains("<a href") && made.contains("not in this archive"));
    assert!(made.contains(&format!(
        "{}  {}\n",
        "5c".repeat(32),
        stored(MediaType::Pdf).0
    )));
}

#[test]
fn a_file_that_the_packet_does_not_name_stays_out() {
    let known = stored(MediaType::Pdf);
    let (item_id, file) = known;
    let later = ItemId::new(file.at.plus_ms(1), [7; 10]);
    let other = FileState {
        file_id: FileId::of(&file.file_id.partner_id(), &[7; 32]),
        ..file
    };
    let make = |files: &[_]| archive(PACKET, KEY, files, &Maker::default()).unwrap();
    for unnamed in [(later, file), (later, other), (item_id, other)] {
        assert_eq!(make(&[known, unnamed]), make(&[known]));
        assert_eq!(make(&[unnamed]), make(&[]));
    }
    assert_ne!(make(&[known]), make(&[]));
}

#[test]
fn a_page_without_files_beside_it_is_the_same_as_ever() {
    let created = include_str!("../../../tests/vectors/packets/good/created.json");
    let page = page::page(created, KEY, &Maker::default()).unwrap();
    assert!(text(created, &[]).contains(&page));
    assert!(
        !page::page(PACKET, KEY, &Maker::default())
            .unwrap()
            .contains("id=\"files\"")
    );
}

#[test]
fn a_title_is_never_markup_and_a_link_never_what_an_item_says() {
    let title = "</strong><a href=\\\"javascript:alert(1)\\\" onclick='x'>";
    let hostile = PACKET.replacen(
        "\"title\":\"Signed contract\"",
        &format!("\"title\":\"{title}\""),
        1,
    );
    assert_ne!(hostile, PACKET);
    let read: Packet = serde_json::from_str(&hostile).unwrap();
    let section = section(&read, &[stored(MediaType::Text)]);
    assert_eq!(section.matches("<a ").count(), 1);
    assert!(section.contains(
        "&lt;/strong&gt;&lt;a href=&quot;javascript:alert(1)&quot; onclick=&#39;x&#39;&gt;"
    ));
}
