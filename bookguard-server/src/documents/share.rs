//! `/s/…`: a booking's evidence for whoever has a link to it, without an account.
//!
//! A GET that accepts a page gets one that says nothing about the booking, because chat programs and mail scanners follow
//! links by themselves to show a preview. A person opens the evidence with a button of that page, a POST, which such programs
//! do not send; and since the address in the address bar stays the same, one that is copied from there shows nothing to them
//! either. A program names the media type that it wants, and gets it from a GET.
//!
//! Invariants: the evidence is sent only after its view is recorded. A link that shows nothing gets the same answer for
//! whatever reason. No answer here may be cached, indexed, or named as a referrer. The token is in the path alone, and the path
//! is in no log.

use std::sync::{Arc, LazyLock};

use bookguard_core::error::Error;
use bookguard_core::evidence::{Share, ViewForm};
use bookguard_core::features::shares;
use bookguard_core::operation::duplicate;
use bookguard_core::service::Service;
use poem::endpoint::{BoxEndpoint, make};
use poem::http::Method;
use poem::http::header::HeaderMap;
use poem::{EndpointExt as _, Request, Response};

use crate::api::forms::{
    AnswerForm, Make, PACKET, PACKET_FORMS, PACKET_WORDS, PARAMETER, not_a_form, packet_response,
};
use crate::app::{App, RequestCost};
use crate::incoming;
use crate::media;
use crate::pages;
use crate::readers::ReadClass;
use crate::refusal::Refusal;

/// The path, in the router's syntax. Whatever follows the prefix is looked up.
pub(super) const PATH: &str = "/s/*token";
static COVER: LazyLock<String> =
    LazyLock::new(|| pages::link_page(include_str!("pages/share.html")));
/// The media types of a GET, the default first.
const TYPES: [&str; 3] = [media::HTML, media::JSON, media::PDF];

/// What a visitor asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// The page that says nothing yet.
    Cover,
    /// The evidence: the packet, or the form of it that this word chooses.
    Evidence(&'static str),
}

/// A visit of a link.
struct Visit {
    app: Arc<App>,
    cost: Arc<RequestCost>,
    token: String,
    /// Whether only the headers are asked for: then nothing is made, and it is not a view.
    is_head: bool,
}

pub(super) fn endpoint(app: &Arc<App>) -> BoxEndpoint<'static> {
    let app = Arc::clone(app);
    let call = move |mut request: Request| {
        let app = Arc::clone(&app);
        async move {
            let body = request.take_body();
            incoming::discard(request.headers(), body).await;
            let mut response = answer(&app, &request)
                .await
                .unwrap_or_else(Refusal::respond);
            pages::unlist(response.headers_mut());
            response
        }
    };
    make(call).boxed()
}

async fn answer(app: &Arc<App>, request: &Request) -> Result<Response, Refusal> {
    let payer = app.admit_visitor(incoming::address(request))?;
    let query = incoming::query(request.uri().query())?;
    let wanted = wanted(request.method(), request.headers(), &query)?;
    let token = request.uri().path().strip_prefix(pages::LINKS);
    let visit = Visit {
        app: Arc::clone(app),
        cost: app.cost(payer),
        token: token.unwrap_or_default().to_owned(),
        is_head: request.method() == Method::HEAD,
    };
    Ok(visit.answer(wanted).await?)
}

/// What a request asks for: a POST names it, a GET by the media type it accepts. A word that names no form is refused whatever
/// is accepted. Other parameters are ignored, because programs through which links pass add their own.
fn wanted(
    method: &Method,
    headers: &HeaderMap,
    query: &[(String, String)],
) -> Result<Wanted, Refusal> {
    let named = query.iter().find(|(name, _)| name == PARAMETER);
    let named = named.map(|(_, word)| word.as_str());
    if let Some(named) = named {
        word_of(named, &PACKET_WORDS)?;
    }
    if query.iter().filter(|(name, _)| name == PARAMETER).count() > 1 {
        return Err(Error::faults(vec![duplicate(PARAMETER)]).into());
    }
    let place = match method == Method::POST {
        true => None,
        false => Some(incoming::choose(headers, &TYPES)?),
    };
    let (allowed, default) = match place {
        Some(0) => return Ok(Wanted::Cover),
        Some(1) => return Ok(Wanted::Evidence(PACKET)),
        Some(_) => (&PACKET_WORDS[1..3], "bank"),
        None => (&PACKET_WORDS[..], "page"),
    };
    Ok(Wanted::Evidence(word_of(
        named.unwrap_or(default),
        allowed,
    )?))
}

/// The allowed word that is named.
fn word_of(
    named: &str,
    allowed: &[(&'static str, Option<usize>)],
) -> Result<&'static str, Refusal> {
    let words: Vec<&'static str> = allowed.iter().map(|(word, _)| *word).collect();
    let known = words.iter().find(|word| **word == named);
    known
        .copied()
        .ok_or_else(|| not_a_form(named, &words).into())
}

impl Visit {
    async fn answer(&self, wanted: Wanted) -> Result<Response, Error> {
        let share = self.find().await?;
        match wanted {
            Wanted::Cover => {
                let mut response = Response::default();
                pages::show(&mut response, COVER.clone());
                Ok(response)
            }
            Wanted::Evidence(word) => self.evidence(share, word).await,
        }
    }

    async fn find(&self) -> Result<Share, Error> {
        let (service, token) = (Arc::clone(&self.app.service), self.token.clone());
        let find = move || shares::find(&service, &token);
        self.app.read(&self.cost, ReadClass::Short, find).await
    }

    async fn evidence(&self, share: Share, word: &str) -> Result<Response, Error> {
        let place = PACKET_WORDS.iter().find(|(known, _)| *known == word);
        let form = place.and_then(|(_, place)| Some(&PACKET_FORMS[(*place)?]));
        let booking_id = share.booking_id.to_string();
        // The headers say nothing of what is made but its length, which the answer to a HEAD may omit (RFC 9110 section 9.3.2). Nor does the
        // answer tell whether it can be made now.
        if self.is_head {
            return Ok(packet_response(form, &booking_id, Vec::new()));
        }
        let (app, of) = (Arc::clone(&self.app), share.clone());
        let make = move || {
            let packet = shares::packet(&app.service, &of)?
                .text()
                .as_bytes()
                .to_vec();
            match form.map(|form| form.make) {
                None => Ok(packet),
                Some(Make::Json(make)) => make(&packet, &app.maker),
                Some(Make::Archive) => Err(Error::internal("a link shows no files")),
            }
        };
        let made = self.app.read(&self.cost, ReadClass::Long, make).await?;
        self.record(&share, viewed(form)).await?;
        Ok(packet_response(form, &booking_id, made))
    }

    /// Records the view, and waits until it is recorded. To make the evidence may have taken long, and the link may have been
    /// revoked since: then this refuses, also where a view repeats one and is not recorded.
    async fn record(&self, share: &Share, form: ViewForm) -> Result<(), Error> {
        let service = &self.app.service;
        match shares::view(service, share, form) {
            Some(view) => Service::outcome(service.submit(view)?).await.map(drop),
            None => self.find().await.map(drop),
        }
    }
}

fn viewed(form: Option<&AnswerForm>) -> ViewForm {
    match form {
        None => ViewForm::Packet,
        Some(form) if form.word.is_some() => ViewForm::Pdf,
        Some(_) => ViewForm::Page,
    }
}

#[cfg(test)]
mod tests {
    use poem::http::header::{ACCEPT, HeaderValue};

    use super::*;

    fn asked(method: Method, accept: &str, query: &str) -> Result<Wanted, String> {
        let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_str(accept).unwrap())]);
        let query = incoming::query(Some(query)).unwrap();
        wanted(&method, &headers, &query).map_err(|refusal| refusal.code().to_owned())
    }

    #[test]
    fn a_get_shows_evidence_only_to_who_names_its_media_type() {
        let evidence = |word| Ok(Wanted::Evidence(word));
        #[rustfmt::skip]
        let cases = [
            ("text/html,application/xhtml+xml,*/*;q=0.8", "", Ok(Wanted::Cover)),
            ("*/*", "", Ok(Wanted::Cover)),
            ("*/*", "form=page", Ok(Wanted::Cover)),
            ("*/*", "form=pages", Err("not_allowed".to_owned())),
            ("*/*", "form=", Err("not_allowed".to_owned())),
            ("text/html, application/json", "", Ok(Wanted::Cover)),
            ("application/json", "", evidence("packet")),
            ("application/json", "fbclid=x", evidence("packet")),
            ("application/json", "form=zip", Err("not_allowed".to_owned())),
            ("application/pdf", "", evidence("bank")),
            ("application/pdf", "form=archive", evidence("archive")),
            ("application/pdf", "form=page", Err("not_allowed".to_owned())),
            ("image/png", "", Err("not_acceptable".to_owned())),
        ];
        for (accept, query, expected) in cases {
            assert_eq!(
                asked(Method::GET, accept, query),
                expected,
                "{accept} {query}"
            );
            assert_eq!(
                asked(Method::HEAD, accept, query),
                expected,
                "{accept} {query}"
            );
        }
        for (query, expected) in [
            ("", evidence("page")),
            ("form=page", evidence("page")),
            ("utm_source=x&form=bank", evidence("bank")),
            ("form=archive", evidence("archive")),
            ("form=packet", evidence("packet")),
            ("form=", Err("not_allowed".to_owned())),
        ] {
            assert_eq!(asked(Method::POST, "text/html", query), expected, "{query}");
        }
    }

    #[test]
    fn the_cover_runs_nothing_and_offers_every_form() {
        assert!(COVER.contains("<title>Evidence</title>"));
        for found in ["og:", "twitter:", "<script", "style=", "{", "http"] {
            assert!(!COVER.contains(found), "{found}");
        }
        for (word, _) in PACKET_WORDS {
            assert!(
                COVER.contains(&format!("formaction=\"?form={word}\"")),
                "{word}"
            );
        }
    }
}
