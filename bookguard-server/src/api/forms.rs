//! The forms of an answer besides JSON, made of its JSON: of a packet, the page and the two PDFs that people read, and the
//! archive of everything that belongs to it.
//!
//! A form is chosen by the `Accept` header, and one of two PDFs by the query's `form`. Invariant: JSON is what a client gets that prefers no other
//! form, neither by that header nor by a word that is not the default.

use bookguard_core::error::Error;
use bookguard_core::evidence::Packet;
use bookguard_core::input::not_allowed;
use bookguard_core::model::{FileState, ItemId};
use bookguard_core::operation::duplicate;
use bookguard_render::{Maker, PdfForm, Segment, page};
use poem::Response;
use poem::http::header::{
    CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};

use crate::incoming::choose;
use crate::media::{HTML, JSON, PDF, ZIP};
use crate::refusal::Refusal;

/// The query's parameter that chooses one of several forms of a media type, and its words. The first is the default.
pub(crate) const PARAMETER: &str = "form";
pub(crate) const WORDS: [&str; 2] = ["bank", "archive"];

/// A form of an answer.
pub(crate) struct AnswerForm {
    /// Its media type.
    pub(crate) media_type: &'static str,
    /// The word that chooses it, if there are several of its media type.
    pub(crate) word: Option<&'static str>,
    mark: &'static str,
    /// How it is made.
    pub(crate) make: Make,
    /// The headers that it needs, given the booking's id.
    pub(crate) headers: fn(&str) -> Vec<(HeaderName, HeaderValue)>,
}

impl AnswerForm {
    /// The end of its entity tag, which differs for each form and each maker.
    pub(super) fn mark(&self, maker: &Maker) -> String {
        format!("{}{}", self.mark, maker.mark(self.media_type == PDF))
    }
}

/// How a form is made.
#[derive(Clone, Copy)]
pub(crate) enum Make {
    /// Of the answer's JSON and its maker alone.
    Json(fn(&[u8], &Maker) -> Result<Vec<u8>, Error>),
    /// Of a packet and the stored files of its booking. No two are the same once another file is stored, so it has no ETag.
    Archive,
}

/// The forms of a packet.
pub(crate) static PACKET_FORMS: [AnswerForm; 4] = [
    AnswerForm {
        media_type: HTML,
        word: None,
        mark: "-html",
        make: Make::Json(make_page),
        headers: page_headers,
    },
    AnswerForm {
        media_type: PDF,
        word: Some(WORDS[0]),
        mark: "-bank",
        make: Make::Json(|packet, maker| make_pdf(packet, PdfForm::Bank, maker)),
        headers: pdf_headers,
    },
    AnswerForm {
        media_type: PDF,
        word: Some(WORDS[1]),
        mark: "-archive",
        make: Make::Json(|packet, maker| make_pdf(packet, PdfForm::Archive, maker)),
        headers: pdf_headers,
    },
    AnswerForm {
        media_type: ZIP,
        word: None,
        mark: "-zip",
        make: Make::Archive,
        headers: |_| Vec::new(),
    },
];

/// The words by which people choose a packet, or a form that is made of it alone, with the place of each among its forms.
pub(crate) const PACKET_WORDS: [(&str, Option<usize>); 4] = [
    ("page", Some(0)),
    (WORDS[0], Some(1)),
    (WORDS[1], Some(2)),
    (PACKET, None),
];
pub(crate) const PACKET: &str = "packet";

/// A response with the packet of this booking, to be saved, or with a form of it.
pub(crate) fn packet_response(
    form: Option<&AnswerForm>,
    booking_id: &str,
    made: Vec<u8>,
) -> Response {
    let mut response = Response::from(made);
    let headers = response.headers_mut();
    let media_type = form.map_or(JSON, |form| form.media_type);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    match form {
        Some(form) => headers.extend((form.headers)(booking_id)),
        None => {
            let name = HeaderValue::from_static("attachment; filename=\"packet.json\"");
            headers.insert(CONTENT_DISPOSITION, name);
        }
    }
    response
}

/// The form that the client prefers; `None` stands for JSON. Takes the word that chooses it out of the query, which the
/// operation does not know.
///
/// # Errors
/// 406 if it accepts none of them, 400 for a word that chooses none, or for two words.
pub(super) fn chosen(
    forms: &'static [AnswerForm],
    headers: &HeaderMap,
    query: &mut Vec<(String, String)>,
) -> Result<Option<&'static AnswerForm>, Refusal> {
    if forms.is_empty() {
        choose(headers, &[JSON])?;
        return Ok(None);
    }
    let asked = query.iter().position(|(name, _)| name == PARAMETER);
    let asked = asked.map_or_else(|| WORDS[0].to_owned(), |place| query.remove(place).1);
    if query.iter().any(|(name, _)| name == PARAMETER) {
        return Err(Error::faults(vec![duplicate(PARAMETER)]).into());
    }
    if !WORDS.contains(&asked.as_str()) {
        return Err(not_a_form(&asked, &WORDS).into());
    }
    let fits = |form: &&AnswerForm| form.word.is_none_or(|word| word == asked);
    let forms = forms.iter().filter(fits).map(Some);
    let mut forms: Vec<Option<&'static AnswerForm>> = [None].into_iter().chain(forms).collect();
    // Of forms that the client wants equally, it gets the first. Clients that are made of the interface document send the default
    // word too, and want JSON.
    if asked != WORDS[0] {
        forms.sort_by_key(|form| form.is_none_or(|form| form.word.is_none()));
    }
    let types = forms
        .iter()
        .map(|form| form.map_or(JSON, |form| form.media_type));
    let types: Vec<&str> = types.collect();
    Ok(forms[choose(headers, &types)?])
}

/// The refusal of a word that chooses none of the forms.
pub(crate) fn not_a_form(word: &str, allowed: &[&str]) -> Error {
    let (message, fix) = not_allowed(word, allowed);
    Error::fault(format!("?{PARAMETER}"), "not_allowed", message, fix)
}

/// The text of a packet and the key that it verifies under. The service made the packet, so the key is its own.
fn packet(json: &[u8]) -> Result<(&str, String), Error> {
    let text = std::str::from_utf8(json).map_err(|e| fault(&e))?;
    let packet: Packet = serde_json::from_str(text).map_err(|e| fault(&e))?;
    Ok((text, packet.log.vkey))
}

fn fault(why: &dyn std::fmt::Display) -> Error {
    Error::internal(format!("a document cannot be made of a packet: {why}"))
}

/// An archive of a packet and the files of its booking, as the pieces of a body, and its length.
pub(super) fn make_archive(
    json: &[u8],
    files: &[(ItemId, FileState)],
    maker: &Maker,
) -> Result<(Vec<Segment>, u64), Error> {
    let (text, vkey) = packet(json)?;
    let segments = bookguard_render::archive(text, &vkey, files, maker).map_err(|e| fault(&e))?;
    let length = bookguard_render::length(&segments);
    Ok((segments, length))
}

fn make_page(json: &[u8], maker: &Maker) -> Result<Vec<u8>, Error> {
    let (text, vkey) = packet(json)?;
    let page = page::page(text, &vkey, maker).map_err(|e| fault(&e))?;
    Ok(page.into_bytes())
}

fn make_pdf(json: &[u8], form: PdfForm, maker: &Maker) -> Result<Vec<u8>, Error> {
    let (text, vkey) = packet(json)?;
    bookguard_render::pdf(text, &vkey, form, maker).map_err(|e| fault(&e))
}

/// The name of the file holds the end of the booking's id. Some banks take only names of at most 16 letters and digits.
fn pdf_headers(booking_id: &str) -> Vec<(HeaderName, HeaderValue)> {
    let letters = booking_id.chars().filter(char::is_ascii_alphanumeric);
    let letters: Vec<char> = letters.collect();
    let end: String = letters[letters.len().saturating_sub(13)..].iter().collect();
    let name = HeaderValue::try_from(format!("attachment; filename=\"bkg{end}.pdf\""));
    vec![
        (
            CONTENT_DISPOSITION,
            name.expect("letters and digits are visible ASCII"),
        ),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    ]
}

fn page_headers(_: &str) -> Vec<(HeaderName, HeaderValue)> {
    // What a policy in the page itself cannot say is added.
    let policy = format!("{}; frame-ancestors 'none'", *page::POLICY);
    let policy =
        HeaderValue::try_from(policy).expect("digests in base64 and words are visible ASCII");
    vec![
        (CONTENT_SECURITY_POLICY, policy),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    ]
}
