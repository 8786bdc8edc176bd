//! `evidence share`, `shares` and `unshare`: links with which people without an account see a booking's evidence.

use bookguard_core::evidence::{Share, Withheld};
use bookguard_core::features::shares::{CreateShare, ListShares, NewShare, RevokeShare};

use super::declare::{CliCommand, operation};
use crate::output::table::{grouped, joined, or_dash, page_fn, record_fn, word};

pub(super) fn create_command() -> CliCommand {
    let about =
        "Make a link that shows a booking's evidence to anybody who has it; it is shown only once";
    operation::<CreateShare>("share", about, new_share)
}

pub(super) fn list_command() -> CliCommand {
    let about = "List a booking's shares and their views, newest first, without the links";
    operation::<ListShares>("shares", about, shares)
}

pub(super) fn revoke_command() -> CliCommand {
    let about = "Revoke a share: its link shows nothing from then on";
    operation::<RevokeShare>("unshare", about, share)
}

fn withheld(values: &[Withheld]) -> Option<String> {
    joined(values.iter().map(word), ", ")
}

record_fn! { fn new_share(new: &NewShare), "\n\nKeep the link now: it is not shown again. Whoever has it sees the evidence." =>
    "share" => new.share_id,
    "booking" => new.booking_id,
    "link" => new.url,
    "withholds" => withheld(&new.withhold),
    "note" => new.note,
    "created" => new.created_at,
    "expires" => new.expires_at,
}

// Shows one share and its latest views.
record_fn! { fn share(share: &Share) =>
    "share" => share.share_id,
    "booking" => share.booking_id,
    "withholds" => withheld(&share.withhold),
    "note" => share.note,
    "created" => share.created_at,
    "expires" => share.expires_at,
    "revoked" => share.revoked_at,
    "views" => grouped(share.views),
    "last view" => share.last_viewed_at,
}

page_fn! { fn shares(share: &Share), "shares" =>
    "SHARE" => share.share_id,
    "NOTE" => or_dash(share.note.as_ref()),
    "WITHHOLDS" => or_dash(withheld(&share.withhold)),
    "CREATED" => share.created_at,
    "EXPIRES" => share.expires_at,
    "REVOKED" => or_dash(share.revoked_at),
    "VIEWS" => grouped(share.views),
    "LAST VIEW" => or_dash(share.last_viewed_at),
}
