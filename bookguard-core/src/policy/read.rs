//! Reads a policy as an author writes it and fills in its defaults.
//!
//! Every fault is reported by JSON pointer with a fix. Rules across fields (currency, order of tiers) are checked here too,
//! so that every existing document can be evaluated.

use std::cell::Cell;

use super::document::{
    Deposit, DepositSize, Document, Floor, ForceMajeure, Grace, OrganizerRules, PartnerRules,
    Reschedule, TalentRules, Tier,
};
use super::duration::{Duration, TimeOfDay};
use super::lint;
use super::outcome::{FixedAmount, Outcome, Rounding, Split};
use super::zone::Zone;
use crate::input::{Draft, Form, Value, shorten};
use crate::limits::{POLICY_NAME_CHARS, POLICY_SPLITS, POLICY_TIERS, TIME_ZONE_CHARS};
use crate::model::{Amount, Currency};
use crate::text::has_double_mark;

/// Whose words are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    /// An author's, who can still write other ones.
    Now,
    /// Those of a policy that was accepted before. Rules on words that came later do not apply.
    Before,
}

/// Reads the whole policy; `known_id` is the id it must have, if that is known from elsewhere.
pub(super) fn document(
    form: &mut Form<'_, '_>,
    known_id: Option<&str>,
    written: Written,
) -> Option<Document> {
    let policy_id = match known_id {
        Some(id) if !form.has("policyId") => {
            // Bound even so, so that the form knows and describes the field.
            form.optional("policyId", policy_id);
            Some(id.to_owned())
        }
        Some(id) => form.optional("policyId", |v| same_id(v, id)),
        None => form.required("policyId", policy_id),
    };
    // The caller of the first version may say that there is none before it.
    let least = i64::from(known_id.is_none());
    let version = form.optional("version", |v| v.integer(least, i64::from(u32::MAX)));
    let name = form.optional("name", |v| name(v, written));
    let time_zone = form.optional("timeZone", time_zone);
    let money = Money {
        currency: form.optional("currency", currency),
        currency_is_there: form.has("currency"),
        wanted: Cell::new(false),
    };
    let anchor_time = form.optional("anchorTime", time_of_day);
    let rounding = form.optional("rounding", |v| v.choice(Rounding::WORDS));
    let claim_window = form.optional("claimWindow", duration);
    let backdate_tolerance = form.optional("backdateTolerance", exact_duration);
    let grace = form.optional_object("grace", grace);
    let deposit = form.optional_object("deposit", |f| deposit(f, &money));
    let organizer = form.required_object("organizer", |f| organizer(f, &money));
    let talent = form.optional_object("talent", |f| talent(f, &money));
    let partner = form.optional_object("partner", |f| {
        Some(f.optional_object("cancel", |f| outcome(f, &money)))
    });
    let force_majeure = form.optional_object("forceMajeure", |f| force_majeure(f, &money));
    let floor = form.optional_object("reschedule", |f| {
        Some(f.optional("floor", |v| v.choice(Floor::WORDS)))
    });
    if money.wanted.get() && !money.currency_is_there {
        form.fault_at(
            "currency",
            "policy_currency_missing",
            "is missing, and the policy holds a fixed amount",
            "Add \"currency\": the ISO 4217 code of the fixed amounts.",
        );
    }
    let cancel = partner.flatten().unwrap_or(Outcome::FULL_REFUND);
    Some(Document {
        policy_id: policy_id?,
        version: version.and_then(|n| u32::try_from(n).ok()).unwrap_or(1),
        name,
        time_zone,
        anchor_time: anchor_time.unwrap_or(TimeOfDay::MIDNIGHT),
        rounding: rounding.unwrap_or(Rounding::HalfUp),
        claim_window: claim_window.or_else(|| Duration::parse("P14D"))?,
        backdate_tolerance: backdate_tolerance.or_else(|| Duration::parse("PT1H"))?,
        grace,
        deposit,
        organizer: organizer?,
        talent: talent.unwrap_or(TalentRules {
            cancel: Outcome::FULL_REFUND,
            no_show: Outcome::FULL_REFUND,
        }),
        partner: PartnerRules { cancel },
        force_majeure: force_majeure.unwrap_or(ForceMajeure {
            outcome: Outcome::FULL_REFUND,
            requires_evidence: true,
        }),
        reschedule: Reschedule {
            floor: floor.flatten().unwrap_or(Floor::KeepReachedTier),
        },
        currency: money.currency,
    })
}

/// The terms in words, which people accept, hold the name between straight quotation marks, in each wording. So a
/// name with such a mark could end there and go on as if it were a term.
fn name(v: &mut Value<'_, '_>, written: Written) -> Option<String> {
    if written == Written::Before {
        return v.accepted_text(POLICY_NAME_CHARS);
    }
    let name = v.text(POLICY_NAME_CHARS)?;
    match has_double_mark(&name) {
        false => Some(name),
        true => v.fault(
            "quotation_mark",
            "holds a double quotation mark, or what looks like one, but the terms in words quote the name",
            "Leave it out, or write single quotation marks: ‘ and ’, one at a time.",
        ),
    }
}

/// The currency of fixed amounts, and whether there were any.
struct Money {
    currency: Option<Currency>,
    currency_is_there: bool,
    wanted: Cell<bool>,
}

fn grace(form: &mut Form<'_, '_>) -> Option<Grace> {
    let within = form.required("within", duration);
    let min_notice = form.optional("minNotice", duration);
    Some(Grace {
        within: within?,
        min_notice,
    })
}

fn deposit(form: &mut Form<'_, '_>, money: &Money) -> Option<Deposit> {
    let bps = form.optional("bps", basis_points);
    let amount = form.optional("amount", |v| money.amount(v));
    let non_refundable = form.optional("nonRefundable", |v| v.boolean());
    if form.has("bps") == form.has("amount") {
        return form.fault_here(
            "bad_deposit",
            "must have exactly one of \"bps\" and \"amount\"",
            "Send \"bps\" (basis points of the value) or \"amount\" (a fixed amount).",
        );
    }
    let size = match amount {
        Some(amount) => DepositSize::Amount(amount),
        None => DepositSize::Bps(bps?),
    };
    Some(Deposit {
        size,
        non_refundable: non_refundable.unwrap_or(false),
    })
}

fn organizer(form: &mut Form<'_, '_>, money: &Money) -> Option<OrganizerRules> {
    let mut previous: Option<Tier> = None;
    let tiers = form.optional("tiers", |v| {
        v.array(POLICY_TIERS, |item| {
            let tier = item.object(|f| tier(f, previous.as_ref(), money))?;
            previous = Some(tier.clone());
            Some(tier)
        })
    });
    let late = form.required_object("late", |f| outcome(f, money));
    let no_show = form.optional_object("noShow", |f| outcome(f, money));
    let late = late?;
    Some(OrganizerRules {
        tiers: tiers.unwrap_or_default(),
        no_show: no_show.unwrap_or_else(|| late.clone()),
        late,
    })
}

fn tier(form: &mut Form<'_, '_>, previous: Option<&Tier>, money: &Money) -> Option<Tier> {
    let before = form.required("before", duration);
    let cutoff_time = form.optional("cutoffTime", time_of_day);
    let outcome = form.required_object("outcome", |f| outcome(f, money));
    let tier = Tier {
        before: before?,
        cutoff_time,
        outcome: outcome?,
    };
    if let Some(previous) = previous.filter(|previous| !lint::may_follow(previous, &tier)) {
        form.fault_at(
            "before",
            "tiers_not_ordered",
            format!(
                "puts the deadline no later than that of the tier before it (\"{}\")",
                previous.before
            ),
            "Order the tiers from the earliest deadline (the longest \"before\") to the latest, each deadline once.",
        );
    }
    Some(tier)
}

fn talent(form: &mut Form<'_, '_>, money: &Money) -> Option<TalentRules> {
    let cancel = form.optional_object("cancel", |f| outcome(f, money));
    let no_show = form.optional_object("noShow", |f| outcome(f, money));
    let cancel = cancel.unwrap_or(Outcome::FULL_REFUND);
    Some(TalentRules {
        no_show: no_show.unwrap_or_else(|| cancel.clone()),
        cancel,
    })
}

fn force_majeure(form: &mut Form<'_, '_>, money: &Money) -> Option<ForceMajeure> {
    let outcome = form.optional_object("outcome", |f| outcome(f, money));
    let requires_evidence = form.optional("requiresEvidence", |v| v.boolean());
    Some(ForceMajeure {
        outcome: outcome.unwrap_or(Outcome::FULL_REFUND),
        requires_evidence: requires_evidence.unwrap_or(true),
    })
}

/// Reads exactly one of the six kinds of outcome.
fn outcome(form: &mut Form<'_, '_>, money: &Money) -> Option<Outcome> {
    let lesser = form.optional("lesserOf", |v| splits(v, money));
    let greater = form.optional("greaterOf", |v| splits(v, money));
    let manual = form.optional("manual", only_true);
    let split = split(form, money, &["lesserOf", "greaterOf", "manual"])?;
    split
        .map(Outcome::Plain)
        .or_else(|| lesser.map(Outcome::LesserOf))
        .or_else(|| greater.map(Outcome::GreaterOf))
        .or_else(|| manual.map(|()| Outcome::Manual))
}

fn splits(value: &mut Value<'_, '_>, money: &Money) -> Option<Vec<Split>> {
    let splits = value.array(POLICY_SPLITS, |item| {
        item.object(|form| split(form, money, &[])?)
    })?;
    if splits.len() < 2 {
        return value.fault(
            "too_few",
            "has fewer than two outcomes, so there is nothing to compare",
            format!("Send 2 to {POLICY_SPLITS} outcomes."),
        );
    }
    Some(splits)
}

/// Reads a split; `Some(None)` if the object is one of the `other` kinds. It is a fault unless there is exactly one kind.
fn split(form: &mut Form<'_, '_>, money: &Money, other: &[&str]) -> Option<Option<Split>> {
    let refund = form.optional("refundBps", basis_points);
    let compensation_bps = form.optional("compensationBps", basis_points);
    let penalty = form.optional("penaltyAmount", |v| money.amount(v));
    let deposit = form.optional("keepDeposit", only_true);
    let mut kinds = vec!["refundBps", "penaltyAmount", "keepDeposit"];
    kinds.extend(other);
    let given = kinds.iter().filter(|kind| form.has(kind)).count();
    if given != 1 {
        return form.fault_here(
            "bad_outcome",
            format!("says {given} ways to divide the value; exactly one is required"),
            format!("Send exactly one of: {}.", kinds.join(", ")),
        );
    }
    if form.has("compensationBps") && !form.has("refundBps") {
        form.fault_at(
            "compensationBps",
            "bad_outcome",
            "is allowed only together with \"refundBps\"",
            "Remove it, or say the outcome as \"refundBps\".",
        );
    }
    let split = refund
        .map(|bps| Split::Refund {
            bps,
            compensation_bps,
        })
        .or_else(|| penalty.map(Split::Penalty))
        .or_else(|| deposit.map(|()| Split::KeepDeposit));
    Some(split)
}

impl Money {
    fn amount(&self, value: &mut Value<'_, '_>) -> Option<FixedAmount> {
        let text = value.string()?;
        self.wanted.set(true);
        let (whole, fraction) = text.split_once('.').unwrap_or((&text, "0"));
        let digits =
            |s: &str, max| (1..=max).contains(&s.len()) && s.bytes().all(|b| b.is_ascii_digit());
        let leading_zero = whole.len() > 1 && whole.starts_with('0');
        if !digits(whole, 15) || !digits(fraction, 4) || leading_zero {
            return value.fault(
                "bad_amount",
                format!("\"{}\" is not an amount", shorten(&text)),
                "Send digits as text, like \"150.00\": no sign, no leading zero, at most four decimals.",
            );
        }
        let minor = match self.currency.map(|own| (own, Amount::parse(&text, own))) {
            // A missing currency is already a fault, and there is no minor unit to count in.
            None => 0,
            Some((_, Ok(amount))) => amount.minor(),
            Some((currency, Err(error))) => {
                let fix = format!("{currency} has {} decimals.", currency.decimals());
                return value.fault(error.code(), format!("\"{text}\" {}", error.rule()), fix);
            }
        };
        let text = text.into();
        Some(FixedAmount { text, minor })
    }
}

/// Whether a text is a policy id: 1 to 64 of `a-z 0-9 _ -`, beginning with a letter or digit.
pub fn is_policy_id(text: &str) -> bool {
    let word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let tail = |b: u8| word(b) || b == b'_' || b == b'-';
    let whole = (1..=64).contains(&text.len()) && text.bytes().all(tail);
    whole && text.bytes().next().is_some_and(word)
}

/// The pattern (ECMA 262) of what [`is_policy_id`] accepts.
pub const POLICY_ID_PATTERN: &str = "^[a-z0-9][a-z0-9_-]{0,63}$";

/// The fix for a text that [`is_policy_id`] refuses.
pub(crate) const POLICY_ID_FIX: &str =
    "Send 1 to 64 lower-case letters, digits, \"_\" and \"-\", beginning with a letter or digit.";

fn policy_id(value: &mut Value<'_, '_>) -> Option<String> {
    let text = value.string()?;
    if is_policy_id(&text) {
        return Some(text);
    }
    let message = format!("\"{}\" is not a policy id", shorten(&text));
    value.fault("bad_policy_id", message, POLICY_ID_FIX)
}

fn same_id(value: &mut Value<'_, '_>, id: &str) -> Option<String> {
    let text = policy_id(value)?;
    if text == id {
        return Some(text);
    }
    let message = format!("\"{text}\" is not the policy in the path");
    let fix = format!("Send \"{id}\", or leave it out.");
    value.fault("policy_id_mismatch", message, fix)
}

/// The pattern of IANA zone names.
const TIME_ZONE_PATTERN: &str = "^[A-Za-z][A-Za-z0-9_+/-]*$";

/// Reads the name of an IANA zone; its fault is `time_zone_unknown`.
pub(crate) fn time_zone(value: &mut Value<'_, '_>) -> Option<Zone> {
    let long = |draft: &mut Draft| draft.set("maxLength", TIME_ZONE_CHARS);
    let text = value.pattern(TIME_ZONE_PATTERN).describe(long).string()?;
    Zone::iana(&text).or_else(|| {
        let message = format!("\"{}\" is not an IANA time zone", shorten(&text));
        value.fault("time_zone_unknown", message, Zone::fix(&text))
    })
}

fn currency(value: &mut Value<'_, '_>) -> Option<Currency> {
    let text = value.string()?;
    match Currency::parse(&text) {
        Ok(currency) => Some(currency),
        Err(error) => value.fault(
            error.code(),
            format!("\"{}\" {}", shorten(&text), error.rule()),
            "Send an ISO 4217 code such as \"USD\".",
        ),
    }
}

fn time_of_day(value: &mut Value<'_, '_>) -> Option<TimeOfDay> {
    let text = value.string()?;
    TimeOfDay::parse(&text).or_else(|| {
        let message = format!("\"{}\" is not a time of day", shorten(&text));
        value.fault("bad_time", message, "Send HH:MM from 00:00 to 23:59.")
    })
}

/// Reads a duration.
pub(crate) fn duration(value: &mut Value<'_, '_>) -> Option<Duration> {
    let text = value.string()?;
    match Duration::parse(&text) {
        Some(duration) => Some(duration),
        None => value.fault(
            "bad_duration",
            format!("\"{}\" is not a duration", shorten(&text)),
            "Send weeks (at most 999), days (9999), hours (99999) and minutes (9999), such as \"P2W\", \"P7D\" or \"PT24H\"; there \
             are no months, years or seconds.",
        ),
    }
}

fn exact_duration(value: &mut Value<'_, '_>) -> Option<Duration> {
    let duration = duration(value)?;
    if !duration.is_exact() {
        return value.fault(
            "bad_duration",
            format!("\"{duration}\" holds calendar steps; only elapsed time is allowed here"),
            "Send hours and minutes such as \"PT1H\" or \"PT90M\".",
        );
    }
    Some(duration)
}

fn basis_points(value: &mut Value<'_, '_>) -> Option<u16> {
    value.integer(0, 10_000).and_then(|n| u16::try_from(n).ok())
}

fn only_true(value: &mut Value<'_, '_>) -> Option<()> {
    if value.boolean()? {
        return Some(());
    }
    value.fault(
        "not_allowed",
        "is false; only true has a meaning here",
        "Send true, or another outcome instead.",
    )
}

#[cfg(test)]
mod tests;
