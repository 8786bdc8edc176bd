//! Somebody at a browser: keeps the cookie, follows nothing, and says of which site a form is.

use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

use bookguard_tests::caller::Caller;
use bookguard_tests::test_server::TestServer;
use reqwest::RequestBuilder;
use reqwest::header::HeaderMap;

use super::html::{Form, Tag, forms, tags};
use super::world::{Places, operator_places, places};

/// A browser.
pub struct Browser {
    caller: Caller,
    /// Whether it is at the operator's console.
    at_operator: bool,
    cookie: Mutex<Option<String>>,
}

/// What a browser got.
#[derive(Debug)]
pub struct Seen {
    pub asked: String,
    pub status: u16,
    pub headers: HeaderMap,
    pub html: String,
}

/// Fields as a form is sent.
pub fn encoded<'f>(fields: impl IntoIterator<Item = (&'f str, &'f str)>) -> String {
    let escaped = |text: &str| {
        text.bytes().fold(String::new(), |mut out, byte| {
            match byte.is_ascii_alphanumeric() {
                true => out.push(char::from(byte)),
                false => write!(out, "%{byte:02X}").expect("a string takes all"),
            }
            out
        })
    };
    let pairs = fields
        .into_iter()
        .map(|(name, text)| format!("{}={}", escaped(name), escaped(text)));
    pairs.collect::<Vec<_>>().join("&")
}

impl Form {
    /// The body with which it is sent.
    pub fn body(&self) -> String {
        encoded(
            self.fields
                .iter()
                .map(|(name, text)| (name.as_str(), text.as_str())),
        )
    }
}

impl Browser {
    pub fn new(server: &TestServer) -> Self {
        Self {
            caller: server.caller(),
            at_operator: false,
            cookie: Mutex::default(),
        }
    }

    /// A browser at the operator's console.
    pub fn at_operator(url: &str) -> Self {
        Self {
            caller: Caller::new(url),
            at_operator: true,
            cookie: Mutex::default(),
        }
    }

    /// The same browser at the other console, with the cookie under this name.
    pub fn moved(&self, to: &Self, name: &str) -> Self {
        let cookie = self.cookie().expect("somebody is signed in");
        let (_, value) = cookie.split_once('=').expect("a cookie has a value");
        Self {
            caller: to.caller.clone(),
            at_operator: to.at_operator,
            cookie: Mutex::new(Some(format!("{name}={value}"))),
        }
    }

    /// The places of its console.
    pub fn places(&self) -> Places {
        match self.at_operator {
            true => operator_places(),
            false => places(),
        }
    }

    /// Somebody who is signed in with this key.
    pub async fn signed_in(server: &TestServer, key: &str) -> Self {
        let browser = Self::new(server);
        let sent = browser.post("/sign-in", &[("apiKey", key)]).await;
        sent.leads_to("");
        browser
    }

    /// The same person with the cookie of now, which does not change.
    pub fn copy(&self) -> Self {
        Self {
            caller: self.caller.clone(),
            at_operator: self.at_operator,
            cookie: Mutex::new(self.cookie()),
        }
    }

    /// The address of the server.
    pub fn base(&self) -> &str {
        self.caller.base()
    }

    /// The cookie, as it is sent.
    pub fn cookie(&self) -> Option<String> {
        let cookie = self.cookie.lock().unwrap_or_else(PoisonError::into_inner);
        cookie.clone()
    }

    /// A request for an address of the console, with the cookie.
    pub fn request(&self, method: &str, address: &str) -> RequestBuilder {
        let address = match address.starts_with("/console") {
            true => address.to_owned(),
            false => format!("/console{address}"),
        };
        let request = self.caller.request(method, &address);
        match self.cookie() {
            Some(cookie) => request.header("cookie", cookie),
            None => request,
        }
    }

    /// A form as a page of the console sends it.
    pub fn form(&self, address: &str, body: impl Into<String>) -> RequestBuilder {
        let request = self.request("POST", address);
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        request
            .header("sec-fetch-site", "same-origin")
            .body(body.into())
    }

    pub async fn send(&self, request: RequestBuilder) -> Seen {
        let (client, request) = request.build_split();
        let request = request.expect("tests make requests that can be sent");
        let asked = format!("{} {}", request.method(), request.url());
        let response = client.execute(request).await.expect("the server answers");
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        for cookie in headers.get_all("set-cookie") {
            let pair = cookie
                .to_str()
                .expect("cookies are ASCII")
                .split(';')
                .next();
            let pair = pair.expect("a cookie has a value").to_owned();
            assert!(pair.len() < 4000, "a browser would drop it: {asked}");
            let kept = Some(pair).filter(|pair| !pair.ends_with('='));
            *self.cookie.lock().unwrap_or_else(PoisonError::into_inner) = kept;
        }
        let body = response.bytes().await.expect("a whole answer");
        assert!(status < 500, "{asked}: {status}");
        Seen {
            asked,
            status,
            headers,
            html: String::from_utf8_lossy(&body).into_owned(),
        }
    }

    pub async fn get(&self, address: &str) -> Seen {
        self.send(self.request("GET", address)).await
    }

    /// A page that must be there.
    pub async fn page(&self, address: &str) -> Seen {
        let seen = self.get(address).await;
        seen.is(200);
        seen
    }

    pub async fn post(&self, address: &str, fields: &[(&str, &str)]) -> Seen {
        let body = encoded(fields.iter().copied());
        self.send(self.form(address, body)).await
    }

    /// Sends a form of a page.
    pub async fn submit(&self, form: &Form) -> Seen {
        self.send(self.form(&form.action, form.body())).await
    }

    /// Opens a page, fills in its form whose address ends so, and sends it.
    pub async fn fill(&self, page: &str, end: &str, typed: &[(&str, &str)]) -> Seen {
        let form = self.page(page).await.form(end).with(typed);
        self.submit(&form).await
    }
}

impl Seen {
    #[track_caller]
    pub fn is(&self, status: u16) -> &Self {
        assert_eq!(self.status, status, "{}: {}", self.asked, self.html);
        self
    }

    /// Asserts that the answer sends the browser to this address of the console.
    #[track_caller]
    pub fn leads_to(&self, address: &str) -> &Self {
        self.is(303);
        assert_eq!(self.location(), format!("/console{address}"));
        self
    }

    pub fn location(&self) -> &str {
        self.header("location")
    }

    /// A header; empty if there is none.
    pub fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default()
    }

    /// Asserts that these words are on the page.
    #[track_caller]
    pub fn says(&self, words: &[&str]) -> &Self {
        for word in words {
            assert!(
                self.html.contains(word),
                "no {word} at {}: {}",
                self.asked,
                self.html
            );
        }
        self
    }

    /// Asserts that none of these words are on the page.
    #[track_caller]
    pub fn lacks(&self, words: &[&str]) -> &Self {
        for word in words {
            assert!(
                !self.html.contains(word),
                "{word} at {}: {}",
                self.asked,
                self.html
            );
        }
        self
    }

    pub fn tags(&self) -> Vec<Tag> {
        tags(&self.html)
    }

    pub fn forms(&self) -> Vec<Form> {
        forms(&self.html)
    }

    /// The last of its forms whose address ends so.
    #[track_caller]
    pub fn form(&self, end: &str) -> Form {
        let found = self
            .forms()
            .into_iter()
            .rfind(|form| form.action.ends_with(end));
        found.unwrap_or_else(|| panic!("no form for {end} at {}: {}", self.asked, self.html))
    }

    /// The value that people copy from it.
    #[track_caller]
    pub fn copied(&self) -> String {
        self.is(200);
        let found = self
            .tags()
            .into_iter()
            .find(|tag| tag.get("data-copy").is_some());
        found
            .unwrap_or_else(|| panic!("nothing to copy: {}", self.html))
            .text
    }

    /// The field with this name.
    #[track_caller]
    pub fn field(&self, name: &str) -> Tag {
        let mut tags = self.tags().into_iter();
        let found = tags.find(|tag| tag.get("name") == Some(name));
        found.unwrap_or_else(|| panic!("no field {name}: {}", self.html))
    }
}
