//! API keys and their scopes.
//!
//! A key is `bgk_` (an operator's: `bgo_`) + 30 base62 characters (178 random bits) + 6 base62 characters of their CRC-32. So a mistyped or
//! truncated key can be told from a revoked one without reading the store, and scanners can find leaked keys. Only its
//! SHA-256 is stored: 178 bits need no slow hash.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

use super::{ApiKeyId, Timestamp};
use crate::limits;

/// One permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Scope {
    /// Read bookings and their policy evaluation.
    BookingsRead,
    /// Create and protect bookings.
    BookingsWrite,
    /// Read webhook events and endpoints.
    WebhooksRead,
    /// Manage endpoints and retry events.
    WebhooksWrite,
    /// Read policies.
    PoliciesRead,
    /// Write policies.
    PoliciesWrite,
    /// Read evidence packets.
    EvidenceRead,
    /// Make links that show a booking's evidence to anybody, and revoke them.
    EvidenceShare,
    /// Erase values of a booking's evidence, and place and release legal holds.
    EvidenceErase,
    /// List keys.
    ApiKeysRead,
    /// Create, rotate and revoke keys.
    ApiKeysWrite,
    /// Read the audit.
    AuditRead,
}

impl Scope {
    /// All scopes with their names.
    pub const ALL: [(Self, &'static str); 12] = [
        (Self::BookingsRead, "bookings:read"),
        (Self::BookingsWrite, "bookings:write"),
        (Self::WebhooksRead, "webhooks:read"),
        (Self::WebhooksWrite, "webhooks:write"),
        (Self::PoliciesRead, "policies:read"),
        (Self::PoliciesWrite, "policies:write"),
        (Self::EvidenceRead, "evidence:read"),
        (Self::EvidenceShare, "evidence:share"),
        (Self::EvidenceErase, "evidence:erase"),
        (Self::ApiKeysRead, "api-keys:read"),
        (Self::ApiKeysWrite, "api-keys:write"),
        (Self::AuditRead, "audit:read"),
    ];

    /// The scope's name.
    pub fn word(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    fn bit(self) -> u16 {
        1 << self as u8
    }
}

/// A set of scopes, kept in the words it was given in (`bookings:*` stays `bookings:*`). Every request clones that of its key, and a
/// clone shares the words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scopes {
    words: Arc<[String]>,
    bits: u16,
}

impl Scopes {
    /// Every scope: `*`.
    pub fn all() -> Self {
        Self {
            words: Arc::new(["*".to_owned()]),
            bits: (1 << Scope::ALL.len()) - 1,
        }
    }

    /// Parses words.
    ///
    /// # Errors
    /// The first word that is not a scope.
    pub fn parse<S: AsRef<str>>(words: &[S]) -> Result<Self, String> {
        let mut distinct: Vec<String> = Vec::with_capacity(words.len());
        let mut bits = 0;
        for word in words {
            let word = word.as_ref();
            bits |= Self::bits_of(word).ok_or_else(|| word.to_owned())?;
            if !distinct.iter().any(|seen| seen == word) {
                distinct.push(word.to_owned());
            }
        }
        let words = distinct.into();
        Ok(Self { words, bits })
    }

    fn bits_of(word: &str) -> Option<u16> {
        let bits = Scope::ALL
            .iter()
            .filter(|(_, w)| {
                word == "*"
                    || *w == word
                    || word.strip_suffix(":*").is_some_and(|resource| {
                        w.split_once(':').is_some_and(|(r, _)| r == resource)
                    })
            })
            .fold(0, |bits, (scope, _)| bits | scope.bit());
        (bits != 0).then_some(bits)
    }

    /// Every accepted word, for messages.
    pub fn vocabulary() -> Vec<&'static str> {
        let mut words: Vec<&str> = Scope::ALL.iter().map(|(_, word)| *word).collect();
        words.extend([
            "bookings:*",
            "webhooks:*",
            "policies:*",
            "evidence:*",
            "api-keys:*",
            "audit:*",
            "*",
        ]);
        words
    }

    /// Whether the set holds `scope`.
    pub fn allow(&self, scope: Scope) -> bool {
        self.bits & scope.bit() != 0
    }

    /// The names of the scopes that `other` has and this set lacks.
    pub fn lacks(&self, other: &Self) -> Vec<&'static str> {
        Scope::ALL
            .iter()
            .filter(|(scope, _)| other.allow(*scope) && !self.allow(*scope))
            .map(|(_, word)| *word)
            .collect()
    }

    /// The scopes that both sets have, in this set's words if the other has them all.
    #[must_use]
    pub fn within(&self, other: &Self) -> Self {
        let beyond = other.lacks(self);
        if beyond.is_empty() {
            return self.clone();
        }
        let common = Scope::ALL
            .iter()
            .filter(|(scope, _)| self.allow(*scope) && other.allow(*scope));
        Self {
            words: common.clone().map(|(_, word)| (*word).to_owned()).collect(),
            bits: common.fold(0, |bits, (scope, _)| bits | scope.bit()),
        }
    }

    /// The words as given.
    pub fn words(&self) -> &[String] {
        &self.words
    }
}

impl Serialize for Scopes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.words().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Scopes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let words = Vec::<String>::deserialize(deserializer)?;
        Self::parse(&words)
            .map_err(|word| serde::de::Error::custom(format_args!("\"{word}\" is not a scope")))
    }
}

/// A key as lists show it: never its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
pub struct ApiKey {
    /// The key's id.
    pub api_key_id: ApiKeyId,
    /// The name it was given.
    pub name: String,
    /// The scopes of the key.
    pub scopes: Scopes,
    /// The last four characters of the secret, to tell keys apart.
    pub hint: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// From then on it opens nothing. Absent if it works until it is revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// When it was last used, to within 15 minutes. Absent if it never was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<Timestamp>,
    /// When it was revoked, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Timestamp>,
}

impl ApiKey {
    /// Whether it has expired by then.
    pub fn has_expired(&self, at: Timestamp) -> bool {
        self.expires_at.is_some_and(|end| end <= at)
    }

    /// For how many milliseconds it was made, if it expires.
    pub(crate) fn lives_ms(&self) -> Option<i64> {
        self.expires_at.map(|end| end.ms() - self.created_at.ms())
    }

    /// When to tell that it will expire: a week before, or if it lives for less than ten weeks, when a tenth of its life is left.
    pub(crate) fn notice_at(&self) -> Option<Timestamp> {
        let notice_ms = (self.lives_ms()? / 10).min(limits::KEY_NOTICE_MS);
        self.expires_at.map(|end| end.plus_ms(-notice_ms))
    }

    /// When it stopped working, if it has by then.
    pub fn stopped_at(&self, at: Timestamp) -> Option<Timestamp> {
        let expired_at = self.expires_at.filter(|end| *end <= at);
        self.revoked_at.into_iter().chain(expired_at).min()
    }

    /// Whether it opens anything then.
    pub fn works(&self, at: Timestamp) -> bool {
        self.stopped_at(at).is_none()
    }
}

/// The secret text of a key, a partner's or the operator's. Debug does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKeySecret(String);

const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const PREFIX: &str = "bgk_";
const OPERATOR_PREFIX: &str = "bgo_";
const RANDOM_CHARS: usize = 30;
const CHECK_CHARS: usize = 6;

impl ApiKeySecret {
    /// A new key of a partner from a cryptographic source of bytes.
    pub fn generate(random_byte: impl FnMut() -> u8) -> Self {
        Self::with_prefix(PREFIX, random_byte)
    }

    /// A new key of the operator.
    pub fn of_operator(random_byte: impl FnMut() -> u8) -> Self {
        Self::with_prefix(OPERATOR_PREFIX, random_byte)
    }

    fn with_prefix(prefix: &str, mut random_byte: impl FnMut() -> u8) -> Self {
        let mut text = String::with_capacity(prefix.len() + RANDOM_CHARS + CHECK_CHARS);
        text.push_str(prefix);
        while text.len() < prefix.len() + RANDOM_CHARS {
            // 248 is the largest multiple of 62 in a byte: bytes above it would favour some letters.
            let byte = random_byte();
            if byte < 248 {
                text.push(char::from(BASE62[usize::from(byte % 62)]));
            }
        }
        text.push_str(&check_of(&text[prefix.len()..]));
        Self(text)
    }

    /// Reads a partner's key; `None` if its form or its checksum is wrong, so that it cannot be one of ours.
    pub fn parse(text: &str) -> Option<Self> {
        Self::after_prefix(PREFIX, text)
    }

    /// Reads an operator's key in the same way.
    pub fn parse_operators(text: &str) -> Option<Self> {
        Self::after_prefix(OPERATOR_PREFIX, text)
    }

    fn after_prefix(prefix: &str, text: &str) -> Option<Self> {
        let rest = text.strip_prefix(prefix)?;
        if rest.len() != RANDOM_CHARS + CHECK_CHARS
            || !rest.bytes().all(|b| b.is_ascii_alphanumeric())
        {
            return None;
        }
        let (random, check) = rest.split_at(RANDOM_CHARS);
        (check_of(random) == check).then(|| Self(text.to_owned()))
    }

    /// The hash that the store keeps: SHA-256 of the text.
    pub fn hash(&self) -> [u8; 32] {
        Sha256::digest(self.0.as_bytes()).into()
    }

    /// The last four characters.
    pub fn hint(&self) -> String {
        self.0[self.0.len() - 4..].to_owned()
    }

    /// The text itself, to show once.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ApiKeySecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKeySecret(…)")
    }
}

fn check_of(random: &str) -> String {
    let mut crc = crc32fast::hash(random.as_bytes());
    let mut check = [0_u8; CHECK_CHARS];
    for slot in check.iter_mut().rev() {
        *slot = BASE62[(crc % 62) as usize];
        crc /= 62;
    }
    check.iter().map(|b| char::from(*b)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> ApiKeySecret {
        let mut n = 0_u8;
        ApiKeySecret::generate(|| {
            n = n.wrapping_add(37);
            n
        })
    }

    #[test]
    fn every_changed_character_of_a_key_is_noticed() {
        let text = key().reveal().to_owned();
        assert_eq!(text.len(), 40);
        assert!(ApiKeySecret::parse(&text).is_some());
        for i in 0..text.len() {
            for c in ['0', 'z', '-'] {
                let mut other = text.clone();
                other.replace_range(i..=i, &c.to_string());
                assert!(
                    other == text || ApiKeySecret::parse(&other).is_none(),
                    "{i} {c}"
                );
            }
        }
    }

    #[test]
    fn a_partner_s_key_is_no_operator_s_nor_the_other_way_round() {
        let own = ApiKeySecret::of_operator(|| 7);
        assert!(ApiKeySecret::parse_operators(own.reveal()).is_some());
        assert!(ApiKeySecret::parse(own.reveal()).is_none());
        assert!(ApiKeySecret::parse_operators(key().reveal()).is_none());
    }

    #[test]
    fn debug_never_shows_the_secret() {
        assert!(!format!("{:?}", key()).contains(&key().reveal()[4..10]));
    }

    #[test]
    fn scopes_cover_what_their_words_say() {
        let scopes = |words: &[&str]| Scopes::parse(words).unwrap();
        let all = scopes(&["*"]);
        assert!(all.allow(Scope::ApiKeysWrite));
        assert!(std::ptr::eq(all.words(), all.clone().words()));
        assert!(scopes(&["bookings:*"]).allow(Scope::BookingsRead));
        assert!(!scopes(&["bookings:read"]).allow(Scope::BookingsWrite));
        let lacks = |own: &[&str], other: &[&str]| scopes(own).lacks(&scopes(other));
        assert!(lacks(&["*"], &["webhooks:*", "evidence:read"]).is_empty());
        assert_eq!(
            lacks(&["webhooks:*"], &["webhooks:read", "policies:*"]),
            ["policies:read", "policies:write"]
        );
        assert!(scopes(&[]).words().is_empty() && !scopes(&[]).allow(Scope::BookingsRead));
        for word in [
            "",
            ":",
            ":*",
            "bookings",
            "bookings:",
            "Bookings:read",
            "bookings:delete",
            "**",
        ] {
            assert_eq!(Scopes::parse(&[word]), Err(word.to_owned()));
        }
        for (i, (scope, word)) in Scope::ALL.iter().enumerate() {
            assert_eq!((*scope as usize, scope.word()), (i, *word));
        }
    }
}
