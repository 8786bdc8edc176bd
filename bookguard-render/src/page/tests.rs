use std::fs;
use std::path::Path;

use super::*;

#[test]
fn no_script_or_style_ends_the_element_it_stands_in() {
    for text in [STYLE, VERIFIER, SCRIPT] {
        let lower = text.to_ascii_lowercase();
        for end in ["</script", "</style", "<!--", "{{"] {
            assert!(!lower.contains(end), "{end}");
        }
    }
}

#[test]
fn a_value_never_becomes_markup_or_a_place_to_fill() {
    let filled = fill("a {{x}} b {{y}} c", |name| match name {
        "x" => "{{y}}".to_owned(),
        _ => escape("</script><img src=x onerror='alert(\"1\")'>&"),
    });
    assert_eq!(
        filled,
        "a {{y}} b &lt;/script&gt;&lt;img src=x onerror=&#39;alert(&quot;1&quot;)&#39;&gt;&amp; c"
    );
}

#[test]
fn quotations_are_isolated_and_amounts_stay_on_one_line() {
    for (text, html) in [
        ("They recorded it: 5 < 6.", "They recorded it: 5 &lt; 6."),
        (
            "\u{201c}e\u{201d} (the talent) canceled. They noted: \u{201c}R&B\u{201d}",
            "\u{201c}<bdi>e</bdi>\u{201d} (the talent) canceled. They noted: \u{201c}<bdi>R&amp;B</bdi>\u{201d}",
        ),
        (
            "Half, USD 1,200.50, of \u{201c}USD 1\u{201d} (USD 2.00).",
            "Half, <span class=\"amount\">USD 1,200.50,</span> of \u{201c}<bdi>USD 1</bdi>\u{201d} \
             <span class=\"amount\">(USD 2.00).</span>",
        ),
        (" 50 % of it", " <span class=\"amount\">50 %</span> of it"),
        // No packet of ours has it; nothing is lost.
        ("\u{201c}open & left", "\u{201c}<bdi>open &amp; left</bdi>"),
    ] {
        assert_eq!(sentence(text), html);
    }
}

#[test]
fn a_page_does_not_name_what_its_packet_withholds() {
    let key = include_str!("../../../tests/vectors/packets/ledger.vkey");
    let packet = include_str!("../../../tests/vectors/packets/good/withheld.json");
    let page = page(packet, key, &Maker::default()).unwrap();
    assert_eq!(page.matches("<dd>Not shown in this copy</dd>").count(), 2);
    for name in ["Ana María", "Band", "203.0.113.9", "Ortiz", "Browser/1.0"] {
        assert!(!page.contains(name), "{name}");
        assert!(!packet.contains(name), "{name}");
    }
}

#[test]
fn what_the_page_takes_from_its_packet_names_its_place_there() {
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors/packets");
    let read = |path: &Path| fs::read_to_string(path).unwrap();
    let key = read(&vectors.join("ledger.vkey"));
    let mut judged = 0;
    for entry in fs::read_dir(vectors.join("good")).unwrap() {
        let path = entry.unwrap().path();
        let packet = read(&path);
        let Ok(page) = page(&packet, &key, &Maker::default()) else {
            continue;
        };
        let packet: serde_json::Value = serde_json::from_str(&packet).unwrap();
        let text = |pointer: &str| packet.pointer(pointer).and_then(|value| value.as_str());
        for part in page.split(" data-from=\"").skip(1) {
            let pointer = part.split('"').next().unwrap();
            assert!(text(pointer).is_some(), "{path:?}: {pointer}");
        }
        let within: Vec<&str> = page.split(" data-within=\"/summary/headline\">").collect();
        assert_eq!(within.len(), 3, "{path:?}");
        for part in &within[1..] {
            let part = part.split('<').next().unwrap();
            let headline = escape(text("/summary/headline").unwrap());
            assert!(headline.contains(&format!(" {part}")), "{path:?}: {part}");
        }
        for pointer in [
            "/partnerName",
            "/booking/eventType",
            "/booking/status",
            "/booking/bookingId",
        ] {
            let said = escape(text(pointer).unwrap());
            let shown = format!(" data-from=\"{pointer}\">{said}</");
            let is_erased = said == "erased";
            assert_eq!(page.contains(&shown), !is_erased, "{path:?}: {pointer}");
        }
        // A name would stand there as if the service said it.
        assert!(page.contains("<h1>Evidence of a booking</h1>"), "{path:?}");
        for pointer in ["/booking/talent/name", "/booking/organizer/id"] {
            let shown = format!(" data-from=\"{pointer}\">");
            let is_hidden = ["withheld", "erased"].contains(&text(pointer).unwrap());
            assert_eq!(page.contains(&shown), !is_hidden, "{path:?}: {pointer}");
        }
        judged += 1;
    }
    assert!(judged > 20, "{judged}");
}
