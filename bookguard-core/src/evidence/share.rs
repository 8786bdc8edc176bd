//! Shares: links with which somebody without an account sees a booking's evidence, and the record of who looked.
//!
//! A share is the partner's access control, not evidence: it is in no ledger entry and in no packet. Invariants: a share does
//! not hold its token; its views only grow in number, and at most [`limits::SHARE_VIEWS`] of them are listed.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Withheld;
use crate::limits;
use crate::model::{BookingId, ShareId, Timestamp, vocabulary};

/// A link to a booking's evidence, without the token that opens it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
pub struct Share {
    /// The share's id.
    pub share_id: ShareId,
    /// The booking whose evidence it shows.
    pub booking_id: BookingId,
    /// When it was made.
    pub created_at: Timestamp,
    /// From then on it shows nothing.
    pub expires_at: Timestamp,
    /// When it was revoked, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Timestamp>,
    /// The values that it does not show, sorted by name.
    pub withhold: Vec<Withheld>,
    /// The partner's own note. Visitors do not see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// How many views are recorded. Repeated views in one form within a minute count once.
    pub views: u64,
    /// When the last recorded view was; absent before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_viewed_at: Option<Timestamp>,
    /// The latest views, newest first, 50 at most. Nothing is recorded about who looked.
    pub recent_views: Vec<ShareView>,
}

/// One recorded view of a share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
pub struct ShareView {
    /// When.
    pub at: Timestamp,
    /// What was opened.
    pub form: ViewForm,
}

vocabulary! {
    /// The form in which evidence was opened.
    ViewForm {
        /// The page.
        Page = "page",
        /// One of the PDFs.
        Pdf = "pdf",
        /// The packet itself.
        Packet = "packet",
    }
}

/// A share as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredShare {
    /// The share.
    pub share: Share,
    /// SHA-256 of its token.
    pub hash: [u8; 32],
}

impl Share {
    /// Whether it shows the evidence at `now`.
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && now < self.expires_at
    }

    /// Whether a view in this form at `at` is one of its own, not the repetition of one recorded within the last minute. After
    /// the clock was set back, it is.
    pub fn is_new_view(&self, form: ViewForm, at: Timestamp) -> bool {
        let last = self.recent_views.iter().find(|view| view.form == form);
        last.is_none_or(|view| !(0..limits::SHARE_VIEW_MS).contains(&(at.ms() - view.at.ms())))
    }

    /// The share after a view.
    #[must_use]
    pub fn viewed(mut self, form: ViewForm, at: Timestamp) -> Self {
        self.views += 1;
        self.last_viewed_at = Some(at);
        self.recent_views.insert(0, ShareView { at, form });
        self.recent_views.truncate(limits::SHARE_VIEWS);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_ms(1_700_000_000_000 + ms)
    }

    fn share() -> Share {
        Share {
            share_id: ShareId::from_bytes([1; 16]),
            booking_id: BookingId::from_bytes([2; 16]),
            created_at: at(0),
            expires_at: at(1_000),
            revoked_at: None,
            withhold: Vec::new(),
            note: None,
            views: 0,
            last_viewed_at: None,
            recent_views: Vec::new(),
        }
    }

    #[test]
    fn it_shows_until_it_expires_or_is_revoked() {
        for (revoked, ms, live) in [
            (None, 0, true),
            (None, 999, true),
            (None, 1_000, false),
            (Some(at(5)), 4, false),
            (Some(at(5)), 6, false),
        ] {
            let share = Share {
                revoked_at: revoked,
                ..share()
            };
            assert_eq!(share.is_live(at(ms)), live, "{revoked:?} {ms}");
        }
    }

    #[test]
    fn views_of_one_form_within_a_minute_are_one() {
        let seen = share().viewed(ViewForm::Page, at(0));
        let seen = seen.viewed(ViewForm::Pdf, at(30_000));
        for (form, ms, is_new) in [
            (ViewForm::Page, 0, false),
            (ViewForm::Page, limits::SHARE_VIEW_MS - 1, false),
            (ViewForm::Page, limits::SHARE_VIEW_MS, true),
            (ViewForm::Page, -1, true),
            (ViewForm::Pdf, limits::SHARE_VIEW_MS, false),
            (ViewForm::Packet, 0, true),
        ] {
            assert_eq!(seen.is_new_view(form, at(ms)), is_new, "{form:?} {ms}");
        }
    }

    #[test]
    fn the_latest_views_are_listed_and_all_are_counted() {
        let minute = limits::SHARE_VIEW_MS;
        let many = (1..=120).fold(share(), |share, n| {
            share.viewed(ViewForm::Page, at(n * minute))
        });
        assert_eq!(
            (many.views, many.recent_views.len()),
            (120, limits::SHARE_VIEWS)
        );
        assert_eq!(many.last_viewed_at, Some(at(120 * minute)));
        assert_eq!(many.recent_views[0].at, at(120 * minute));
        assert_eq!(many.recent_views[49].at, at(71 * minute));
    }
}
