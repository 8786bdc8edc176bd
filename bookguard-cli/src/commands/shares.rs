//! `evidence share`, `shares` and `unshare`: links with which people without an account see a booking's evidence.

use bookguard_core::evidence::{Share, Withheld};
use bookguard_core::features::shares::{CreateShare, ListShares, NewShare, RevokeShare};
use bookguard_core::input::quoted;

use super::declare::{CliCommand, operation};
use crate::args::period_ms;
use crate::output::table::{grouped, joined, or_dash, page_fn, record_fn, word};

pub(super) fn create_command() -> CliCommand {
    let about =
        "Make a link that shows a booking's evidence to anybody who has it; it is shown only once";
    operation::<CreateShare>("share", about, new_share).flags(|flags| {
        flags.read("expiresIn", EXPIRES_IN, lasts);
    })
}

const EXPIRES_IN: &str = "How long the link works, from 1m to 366d: such as 12h, 30d or 2w, or an ISO 8601 duration such as P30D [default: 30d]";

/// The period that was typed, as the ISO 8601 duration that the service reads.
fn lasts(typed: &str) -> Result<String, String> {
    // The service says what is wrong with one of its own form.
    if typed.starts_with('P') {
        return Ok(quoted(typed));
    }
    let whole = period_ms(typed).filter(|ms| ms % 60_000 == 0);
    let minutes = whole.map(|ms| ms / 60_000).ok_or_else(|| {
        format!("is \"{typed}\"; write whole minutes, such as 90m, 12h, 30d or 2w, or an ISO 8601 duration such as P30D")
    })?;
    let (hours, minutes) = (minutes / 60, minutes % 60);
    Ok(quoted(&format!(
        "P{}DT{}H{minutes}M",
        hours / 24,
        hours % 24
    )))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_works_for_a_period_in_either_form() {
        for (typed, sent) in [
            ("30d", "\"P30DT0H0M\""),
            ("2w", "\"P14DT0H0M\""),
            ("90m", "\"P0DT1H30M\""),
            ("P30D", "\"P30D\""),
        ] {
            assert_eq!(lasts(typed).as_deref(), Ok(sent));
        }
        for wrong in ["90s", "30", "30 days"] {
            assert!(lasts(wrong).unwrap_err().contains("P30D"), "{wrong}");
        }
    }
}
