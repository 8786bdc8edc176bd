//! The address of a time-stamp authority, as a setting.

use std::fmt;

use serde::Deserialize;

/// The address of a time-stamp authority, as it was written. If it has a query, which may hold a token, it is shown without its path
/// and its query.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Authority(pub String);

impl Authority {
    /// The address without what may be secret.
    pub(super) fn shown(&self) -> String {
        let Some((address, _)) = self.0.split_once('?') else {
            return self.0.clone();
        };
        let place: Vec<_> = address.split('/').take(3).collect();
        format!("{}/…", place.join("/"))
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.shown())
    }
}
