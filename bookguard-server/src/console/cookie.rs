//! The cookie that says who is signed in: the token of a console session, sealed with the time at which it was last used.
//!
//! The session itself is a row in the store, which ends it on every node. The cookie adds only how long nothing was done,
//! so that a page that is looked at writes nothing. Invariant: a cookie that this service did not make is as good as none, and
//! one that was not used for [`IDLE_MS`] only ends its session.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bookguard_core::model::Timestamp;
use bookguard_core::seal::Seal;
use bookguard_core::service::Service;
use poem::Response;
use poem::http::header::{COOKIE, HeaderMap, HeaderValue, SET_COOKIE};
use serde::{Deserialize, Serialize};

use super::parts::Tone;
use super::{Notice, Whose};

/// How long somebody stays signed in who does nothing: 30 minutes.
const IDLE_MS: i64 = 30 * 60 * 1000;
/// How old a cookie gets before a page replaces it.
const STALE_MS: i64 = 60 * 1000;
/// The context to which the seal binds cookies.
const OWNER: &[u8] = b"console cookie";
/// The context to which the seal binds cookies of the operator's console.
const OPERATOR: &[u8] = b"operator console cookie";

/// Makes and reads the cookie of one console.
pub(super) struct Cookies {
    seal: Seal,
    owner: &'static [u8],
    name: &'static str,
    attributes: &'static str,
}

/// What a cookie holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Cookie {
    /// The session's token.
    pub(super) token: String,
    seen: Timestamp,
    /// Whether it was not used for too long.
    #[serde(skip)]
    pub(super) is_idle: bool,
    /// What was just done, for the next page to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) notice: Option<String>,
    /// How that looks. Beside it, so that a node of an older release reads the cookie too.
    #[serde(default)]
    pub(super) tone: Tone,
}

impl Cookies {
    /// The cookies of this person's console at this address. Over TLS, a browser keeps the cookie to this one host, and sends it over
    /// nothing else (RFC 6265bis, section 4.1.3.2). It sends it to each port of the host, so the two consoles name it differently.
    pub(super) fn new(service: &Service, whose: Whose, address: &str) -> Self {
        let secure = address.starts_with("https:");
        let (owner, name) = match (whose, secure) {
            (Whose::Partners, true) => (OWNER, "__Host-bookguard"),
            (Whose::Partners, false) => (OWNER, "bookguard"),
            (Whose::Operator, true) => (OPERATOR, "__Host-bookguard-operator"),
            (Whose::Operator, false) => (OPERATOR, "bookguard-operator"),
        };
        Self {
            seal: service.seal().clone(),
            owner,
            name,
            attributes: match secure {
                true => "; Path=/; HttpOnly; SameSite=Lax; Secure",
                false => "; Path=/; HttpOnly; SameSite=Lax",
            },
        }
    }

    /// The cookie of a request.
    pub(super) fn read(&self, headers: &HeaderMap, now: Timestamp) -> Option<Cookie> {
        let values = headers.get_all(COOKIE).iter();
        let texts = values.filter_map(|value| value.to_str().ok());
        let mut pairs = texts.flat_map(|text| text.split(';').map(str::trim));
        let text = pairs.find_map(|pair| pair.strip_prefix(self.name)?.strip_prefix('='))?;
        let sealed = URL_SAFE_NO_PAD.decode(text).ok()?;
        let mut cookie: Cookie =
            serde_json::from_slice(&self.seal.open(self.owner, &sealed)?).ok()?;
        let idle = now.ms() - cookie.seen.ms();
        cookie.is_idle = idle > IDLE_MS;
        // Another node's clock may be ahead.
        (idle >= -STALE_MS).then_some(cookie)
    }

    /// Whether a page should replace the cookie.
    pub(super) fn is_stale(&self, cookie: &Cookie, now: Timestamp) -> bool {
        now.ms() - cookie.seen.ms() > STALE_MS
    }

    /// The header that gives a browser this cookie.
    pub(super) fn seal(&self, token: &str, seen: Timestamp, notice: Option<Notice>) -> HeaderValue {
        let tone = notice.as_ref().map_or(Tone::default(), |told| told.tone);
        let cookie = Cookie {
            token: token.to_owned(),
            seen,
            is_idle: false,
            notice: notice.map(|told| told.text),
            tone,
        };
        let plain = bookguard_core::operation::to_json(&cookie);
        let sealed = URL_SAFE_NO_PAD.encode(self.seal.seal(self.owner, &plain));
        self.header(&sealed, "")
    }

    /// Gives a browser this cookie with a response.
    pub(super) fn set(
        &self,
        response: &mut Response,
        token: &str,
        seen: Timestamp,
        notice: Option<Notice>,
    ) {
        let cookie = self.seal(token, seen, notice);
        response.headers_mut().append(SET_COOKIE, cookie);
    }

    /// The header that removes the cookie.
    pub(super) fn remove(&self) -> HeaderValue {
        self.header("", "; Max-Age=0")
    }

    fn header(&self, value: &str, more: &str) -> HeaderValue {
        let text = format!("{}={value}{}{more}", self.name, self.attributes);
        HeaderValue::try_from(text).expect("base64 and these attributes are visible ASCII")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cookies(seed: u8) -> Cookies {
        Cookies {
            seal: Seal::derive(&[seed; 32]),
            owner: OWNER,
            name: "bookguard",
            attributes: "; Path=/",
        }
    }

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_ms(1_800_000_000_000 + ms)
    }

    fn sent(header: &HeaderValue) -> HeaderMap {
        let pair = header.to_str().unwrap().split(';').next().unwrap();
        let pair = format!("other=1; {pair}; bookguard2=x");
        HeaderMap::from_iter([(COOKIE, HeaderValue::try_from(pair).unwrap())])
    }

    #[test]
    fn a_cookie_holds_for_half_an_hour_after_it_was_last_used() {
        let cookies = cookies(1);
        let told = Notice {
            text: "Not accepted.".to_owned(),
            tone: Tone::Bad,
        };
        let header = cookies.seal("token", at(0), Some(told));
        for (later, idle) in [
            (0, Some(false)),
            (IDLE_MS, Some(false)),
            (IDLE_MS + 1, Some(true)),
            (-STALE_MS - 1, None),
        ] {
            let found = cookies.read(&sent(&header), at(later));
            assert_eq!(found.map(|cookie| cookie.is_idle), idle, "{later}");
        }
        let found = cookies.read(&sent(&header), at(0)).unwrap();
        assert_eq!(
            (found.token.as_str(), found.notice.as_deref(), found.tone),
            ("token", Some("Not accepted."), Tone::Bad)
        );
        assert!(
            !cookies.is_stale(&found, at(STALE_MS)) && cookies.is_stale(&found, at(STALE_MS + 1))
        );
    }

    #[test]
    fn each_console_reads_its_own_cookie_only() {
        let own = cookies(1);
        let operators = Cookies {
            owner: OPERATOR,
            name: "bookguard-operator",
            ..cookies(1)
        };
        let renamed = Cookies {
            owner: OPERATOR,
            ..cookies(1)
        };
        let header = own.seal("token", at(0), None);
        let others = operators.seal("token", at(0), None);
        assert!(own.read(&sent(&header), at(0)).is_some());
        assert!(operators.read(&sent(&others), at(0)).is_some());
        for (reader, header) in [(&own, &others), (&operators, &header), (&renamed, &header)] {
            assert_eq!(reader.read(&sent(header), at(0)), None, "{header:?}");
        }
    }

    #[test]
    fn what_another_key_sealed_or_nobody_is_no_cookie() {
        let header = cookies(2).seal("token", at(0), None);
        assert_eq!(cookies(1).read(&sent(&header), at(0)), None);
        for value in ["", "bookguard=", "bookguard=e30", "bookguard=%%"] {
            let headers = HeaderMap::from_iter([(COOKIE, HeaderValue::from_static(value))]);
            assert_eq!(cookies(1).read(&headers, at(0)), None, "{value}");
        }
    }
}
