//! A packet as one HTML file that checks the packet when it is opened: no request to anybody, from a server or from a disk.
//!
//! The page holds the packet (base64) and the verifier of `docs/verifiers/verify.js`. The script also compares what the page
//! says in words with the packet, part by part (`data-from`): that notices a translation or a slip, not a forger, who can
//! change the script. Invariants: every value is escaped; the policy in the page allows its
//! own scripts and style by their digests, and nothing else; the same packet and key give the same bytes.

use std::fmt::Write as _;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bookguard_core::evidence::Packet;
use bookguard_core::ledger::VerifierKey;
use bookguard_core::policy::TermsDisclosure;
use sha2::{Digest as _, Sha256};

use crate::others::Others;
use crate::words::{self, Fact, Value};
use crate::{Maker, VERIFIER, fingerprint};

const TEMPLATE: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/style.css");
const SCRIPT: &str = include_str!("page/page.js");

/// The Content-Security-Policy in every page. A server that sends a page sends at most this much permission with it.
pub static POLICY: LazyLock<String> = LazyLock::new(|| {
    let digest = |text: &str| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)));
    format!(
        "default-src 'none'; script-src {} {}; style-src {}; base-uri 'none'; form-action 'none'",
        digest(VERIFIER),
        digest(SCRIPT),
        digest(STYLE)
    )
});

/// Makes the page of a packet, which checks the packet against the log's verifier key, `name+id+base64`.
///
/// # Errors
/// A sentence, if this is not a packet or not a key. Whether the packet is genuine is not checked here.
pub fn page(packet: &str, vkey: &str, maker: &Maker) -> Result<String, String> {
    beside(&read(packet)?, packet, vkey, maker, "")
}

/// Reads a packet.
///
/// # Errors
/// A sentence, if this is not a packet.
pub(crate) fn read(packet: &str) -> Result<Packet, String> {
    serde_json::from_str(packet).map_err(|e| format!("The packet cannot be read: {e}."))
}

/// As [`page`] of a packet that was read, with a section about the files that lie beside the page.
///
/// # Errors
/// A sentence, if this is not a key.
pub(crate) fn beside(
    read: &Packet,
    packet: &str,
    vkey: &str,
    maker: &Maker,
    files: &str,
) -> Result<String, String> {
    let shown = PagePacket(read);
    let key: VerifierKey = vkey
        .trim()
        .parse()
        .map_err(|e| format!("The verifier key cannot be read: {e}."))?;
    let others = Others::of(read, packet, &key, maker);
    Ok(fill(TEMPLATE, |name| match name {
        "policy" => POLICY.clone(),
        "style" => STYLE.to_owned(),
        "verifier" => VERIFIER.to_owned(),
        "script" => SCRIPT.to_owned(),
        "packet" => STANDARD.encode(packet),
        "vkey" => escape(&key.to_string()),
        "origin" => escape(key.name()),
        "fingerprint" => fingerprint(&key),
        "booking" => shown.0.booking.booking_id.to_string(),
        "made" => escape(shown.0.made_in_words()),
        "headline" => sentence(&shown.0.summary.headline),
        "facts" => shown.facts(),
        "story heading" => words::STORY.to_owned(),
        "terms heading" => words::TERMS.to_owned(),
        "timeline heading" => words::TIMELINE.to_owned(),
        "timeline note" => words::ENTRIES.to_owned(),
        "others heading" => words::OTHERS.to_owned(),
        "scope heading" => words::SCOPE.to_owned(),
        "proves heading" => words::PROVES.to_owned(),
        "limits heading" => words::LIMITS.to_owned(),
        "story" => shown.story(),
        "terms" => shown.terms_in_words(),
        "timeline" => shown.timeline(),
        "files" => files.to_owned(),
        "stamps" => each("p", &others.stamps),
        "witnesses" => witnesses(&others),
        "proves" => each("li", &read.proves()) + &each("li", &others.proves),
        "limits" => each("li", &read.does_not_prove()) + &each("li", &others.limits),
        _ => String::new(),
    }))
}

/// A packet, as the page shows it.
struct PagePacket<'a>(&'a Packet);

impl PagePacket<'_> {
    fn facts(&self) -> String {
        let at = |pointer: &str, text: &str| {
            format!("<bdi data-from=\"{pointer}\">{}</bdi>", escape(text))
        };
        let mut html = String::new();
        for Fact { name, value } in words::facts(self.0) {
            let value = match &value {
                Value::At(pointer, text) => at(pointer, text),
                Value::OfHeadline(text) => format!(
                    "<span data-within=\"/summary/headline\">{}</span>",
                    escape(text)
                ),
                Value::Party(side, party) => format!(
                    "{} <span class=\"soft\">({})</span>",
                    at(&format!("/booking/{side}/name"), &party.name),
                    at(&format!("/booking/{side}/id"), &party.id)
                ),
                Value::Remarked(pointer, text, remark) => format!(
                    "{} <span class=\"soft\">({})</span>",
                    at(pointer, text),
                    escape(remark)
                ),
                Value::NotShown | Value::Erased => value.to_string(),
            };
            let _ = writeln!(html, "<dt>{name}</dt><dd>{value}</dd>");
        }
        html
    }

    fn story(&self) -> String {
        let paragraphs = self.0.summary.story.iter().enumerate().map(|(at, text)| {
            format!(
                "<p data-from=\"/summary/story/{at}\">{}</p>\n",
                sentence(text)
            )
        });
        paragraphs.collect()
    }

    fn terms_in_words(&self) -> String {
        let headings = words::headings(self.0);
        let mut told = self.0.terms_disclosures.iter().enumerate().rev();
        let mut html = told
            .next()
            .map_or_else(String::new, |(at, told)| Self::terms_text(at, told));
        for ((at, told), heading) in told.zip(headings.iter().rev()) {
            let _ = write!(
                html,
                "<details class=\"former\"><summary>{heading}</summary>\n{}</details>\n",
                Self::terms_text(at, told)
            );
        }
        html
    }

    /// A text of the terms, line by line.
    fn terms_text(at: usize, told: &TermsDisclosure) -> String {
        let lines = told.text.split_inclusive('\n').map(|line| {
            let kind = match line {
                "\n" => "gap",
                _ if line.starts_with("- ") => "item",
                _ => "line",
            };
            format!("<span class=\"{kind}\">{}</span>", sentence(line))
        });
        format!(
            "<div class=\"terms\" data-from=\"/termsDisclosures/{at}/text\">{}</div>\n<p class=\"note\">{} \
             <span class=\"code\" data-from=\"/termsDisclosures/{at}/disclosureHash\">{}</span></p>\n",
            lines.collect::<String>(),
            words::TERMS_DIGEST,
            escape(&told.disclosure_hash)
        )
    }

    fn timeline(&self) -> String {
        let items = self.0.summary.timeline.iter().enumerate().map(|(at, moment)| {
            let source = match moment.entry {
                Some(entry) => format!("Ledger entry {entry}"),
                None => words::STATEMENT.to_owned(),
            };
            format!(
                "<li><time datetime=\"{}\" data-from=\"/summary/timeline/{at}/when\">{}</time><div><p data-from=\"/summary/timeline/{at}/text\">{}</p><p class=\"source\">{source}</p></div></li>\n",
                moment.at,
                escape(&moment.when),
                sentence(&moment.text)
            )
        });
        items.collect()
    }
}

/// A sentence of the packet, with each quotation isolated from the writing direction around it, and each amount elsewhere on
/// one line. No quotation holds the mark that ends one: see [`quotable`](bookguard_core::text::quotable).
fn sentence(text: &str) -> String {
    let mut parts = text.split('\u{201c}');
    let mut html = unbroken(parts.next().unwrap_or_default());
    for part in parts {
        let (quotation, rest) = part.split_at(part.find('\u{201d}').unwrap_or(part.len()));
        let _ = write!(
            html,
            "\u{201c}<bdi>{}</bdi>{}",
            escape(quotation),
            unbroken(rest)
        );
    }
    html
}

/// Escapes a text, and keeps each amount on one line with its currency.
fn unbroken(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    // Where the words begin that stay together, and whether there are several.
    let (mut from, mut is_amount) = (0, false);
    let spaces = text.match_indices(' ').map(|(at, _)| at);
    for at in spaces.chain([text.len()]) {
        let space = text[at..].get(1..);
        if space.is_some_and(|after| words::is_amount(&text[..at], after)) {
            is_amount = true;
            continue;
        }
        let part = escape(&text[from..at]);
        html += &match is_amount {
            true => format!("<span class=\"amount\">{part}</span>"),
            false => part,
        };
        html += &text[at..(at + 1).min(text.len())];
        (from, is_amount) = (at + 1, false);
    }
    html
}

/// Each text in an element of this name.
fn each(name: &str, texts: &[impl AsRef<str>]) -> String {
    let element = |text: &str| format!("<{name}>{}</{name}>\n", escape(text));
    texts.iter().map(|text| element(text.as_ref())).collect()
}

fn witnesses(others: &Others) -> String {
    let mut html = each("p", &[&others.witnesses]);
    if !others.listed.is_empty() {
        let _ = write!(html, "<ul>\n{}</ul>\n", each("li", &others.listed));
        html += &each("p", &[others.unchecked]);
    }
    html
}

/// Escapes a text for an element or a quoted attribute.
pub(crate) fn escape(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            // A parser turns it into a line feed.
            '\r' => html.push_str("&#13;"),
            c => html.push(c),
        }
    }
    html
}

/// Replaces each `{{name}}`, in one pass: a value that looks like a name stays a value.
fn fill(template: &str, value: impl Fn(&str) -> String) -> String {
    let mut parts = template.split("{{");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once("}}").unwrap_or((part, ""));
        text.push_str(&value(name));
        text.push_str(rest);
    }
    text
}

#[cfg(test)]
mod tests;
