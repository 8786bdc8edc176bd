//! The address of a time-stamp authority, as a setting.

use std::fmt;

use serde::Deserialize;

/// The address of a time-stamp authority, as it was written. If it has a query, which may hold a token, it is shown without its path
/// and its query, and always without a password.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct AuthorityUrl(pub String);

impl AuthorityUrl {
    /// The address without what may be secret.
    pub(super) fn shown(&self) -> String {
        let (address, query) = match self.0.split_once('?') {
            Some((address, query)) => (address, Some(query)),
            None => (&*self.0, None),
        };
        let mut parts: Vec<_> = address.split('/').collect();
        // A password is refused, and not shown in the refusal.
        if let Some(place) = parts.get_mut(2) {
            *place = place.rsplit('@').next().unwrap_or(place);
        }
        match query {
            Some(_) => format!("{}/…", parts[..parts.len().min(3)].join("/")),
            None => parts.join("/"),
        }
    }
}

impl fmt::Debug for AuthorityUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.shown())
    }
}
