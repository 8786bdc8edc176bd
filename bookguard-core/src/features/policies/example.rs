//! An example of a booking, for which the check of a policy shows the schedule.

use super::check::PolicyCheck;
use crate::error::Error;
use crate::input::{amount, amount_fault, shorten};
use crate::limits;
use crate::model::{Amount, AmountError, Currency, Timestamp};
use crate::operation::{IN_URL, QueryForm, QueryParam, QueryReader, Request, query_value};
use crate::policy::{Booked, EventDate, MissingZone, Policy, PolicySource, Terms, Zone};

/// The value of an example that has none, in whole units of its currency.
const VALUE: &str = "1000";
/// The pointer of the faults in its value.
const VALUE_POINTER: &str = "?bookingValue";

/// The parameters that describe the example, named as in a booking.
pub(super) const PARAMETERS: [QueryParam; 4] = [
    QueryParam {
        name: "eventDate",
        description: "Show the `schedule` of a booking that is recorded now, of an event at this date: RFC 3339 with an offset, or a \
                      local date-time or date.",
        form: QueryForm::EventDate,
    },
    QueryParam {
        name: "bookingValue",
        description: "The value of that booking, a decimal number; 1000 when not given.",
        form: QueryForm::Decimal,
    },
    QueryParam {
        name: "currency",
        description: "Its ISO 4217 code; the policy's when not given, or USD.",
        form: QueryForm::Words("Currency"),
    },
    QueryParam {
        name: "timeZone",
        description: "The IANA time zone of that event; the policy's when not given, or the partner's, or that of the date, or UTC.",
        form: QueryForm::Text(limits::TIME_ZONE_CHARS),
    },
];

/// A booking that nobody made.
#[derive(Debug)]
pub struct ExampleBooking {
    event_date: EventDate,
    value: String,
    currency: Option<Currency>,
    time_zone: Option<String>,
}

impl ExampleBooking {
    /// Reads the query's parameters; `None` without any.
    ///
    /// # Errors
    /// Every fault of a parameter, and `missing_field` for others without `eventDate`.
    pub fn read(request: &Request) -> Result<Option<Self>, Error> {
        let mut params = QueryReader::of(request);
        let given = |name| query_value(request, name);
        let read = |text| EventDate::parse(text).filter(|date| date.is_in_range());
        let event_date = given("eventDate").map(|text| read(text).ok_or(text));
        match event_date {
            Some(Err(text)) => params.fault_at(
                "eventDate",
                "invalid_date",
                format!("\"{}\" {}", shorten(text), EventDate::fault(text)),
                format!(
                    "Send RFC 3339 such as 2031-06-20T19:00:00Z, or a local date-time or date from 0001-01-02 to 9999-12-30{IN_URL}."
                ),
            ),
            None if PARAMETERS.iter().any(|other| given(other.name).is_some()) => {
                params.fault_at(
                    "eventDate",
                    "missing_field",
                    "is missing, and other parameters describe a booking",
                    "Add the date of the event, or leave the others out.",
                );
            }
            _ => {}
        }
        let currency = given("currency").and_then(|code| {
            let unknown = |e: AmountError| {
                let message = format!("\"{}\" {}", shorten(code), e.rule());
                let fix = "Send an ISO 4217 code such as USD.";
                params.fault_at("currency", e.code(), message, fix);
            };
            Currency::parse(code).map_err(unknown).ok()
        });
        let time_zone = params.text("timeZone", limits::TIME_ZONE_CHARS);
        if let Some(name) = time_zone.filter(|name| Zone::iana(name).is_none()) {
            let message = format!("\"{}\" is not an IANA time zone", shorten(name));
            params.fault_at("timeZone", "time_zone_unknown", message, Zone::fix(name));
        }
        let value = given("bookingValue").unwrap_or(VALUE);
        // How many decimals it may have, and how large it may be, can depend on the policy's currency.
        let in_dollars = Amount::parse(value, Currency::USD);
        if let Err(e @ (AmountError::NotANumber | AmountError::Negative)) = in_dollars {
            let currency = currency.unwrap_or(Currency::USD);
            params.add(amount_fault(VALUE_POINTER, value, e, currency));
        }
        params.end()?;
        let Some(Ok(event_date)) = event_date else {
            return Ok(None);
        };
        Ok(Some(Self {
            event_date,
            value: value.to_owned(),
            currency,
            time_zone: time_zone.map(str::to_owned),
        }))
    }

    /// The terms that the booking would have; those of a date without a known time zone assume UTC.
    pub(super) fn terms(
        &self,
        policy: &Policy,
        partner_time_zone: Option<&str>,
        now: Timestamp,
    ) -> Result<Terms, Error> {
        let currency = self.currency.or(policy.document().currency);
        let booked = Booked {
            event_date: self.event_date,
            time_zone: self.time_zone.as_deref(),
            partner_time_zone,
            value: amount(
                VALUE_POINTER,
                &self.value,
                currency.unwrap_or(Currency::USD),
            )?,
            paid: None,
            created_at: now,
        };
        let policy = (policy.clone(), PolicySource::Named);
        let terms = Terms::freeze(Some(policy), &booked, MissingZone::AssumeUtc);
        terms.map_err(in_query)
    }
}

impl PolicyCheck {
    /// The check with the schedule of an example. A policy that cannot be used has none.
    ///
    /// # Errors
    /// The faults of the example that depend on the policy, such as another currency than that of its fixed amounts.
    pub fn with_example(
        mut self,
        example: &ExampleBooking,
        partner_time_zone: Option<&str>,
        now: Timestamp,
    ) -> Result<Self, Error> {
        if let Some(policy) = &self.normalized {
            let terms = example.terms(policy, partner_time_zone, now)?;
            self.schedule = Some(terms.schedule);
            self.assumptions = Some(terms.assumptions).filter(|all| !all.is_empty());
        }
        Ok(self)
    }
}

/// Attaches the refusal of terms to the parameter that caused it.
fn in_query(refusal: Error) -> Error {
    match &*refusal.code {
        "policy_currency_mismatch" => {
            refusal.at_field("?currency", "Send the policy's currency, or leave it out.")
        }
        _ => refusal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Assumption, Segment};

    const POLICY: &str = r#"{"policyId":"p","timeZone":"Europe/Berlin","currency":"EUR","organizer":{
        "tiers":[{"before":"P7D","outcome":{"refundBps":5000}}],"late":{"penaltyAmount":"150.00"}}}"#;

    fn asked(query: &[(&str, &str)]) -> Result<PolicyCheck, Error> {
        let pairs = query.iter();
        let request = Request {
            query: pairs
                .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
                .collect(),
            ..Request::default()
        };
        let check = PolicyCheck::of(POLICY.as_bytes())?;
        let now = Timestamp::parse("2026-10-01T00:00:00Z").unwrap();
        match ExampleBooking::read(&request)? {
            Some(example) => check.with_example(&example, Some("Asia/Tokyo"), now),
            None => Ok(check),
        }
    }

    #[test]
    fn the_schedule_is_that_of_a_booking_recorded_now() {
        assert_eq!(asked(&[]).unwrap().schedule, None);
        let steps = |query: &[(&str, &str)]| {
            let schedule = asked(query).unwrap().schedule.unwrap();
            let line = |step: &Segment| {
                let refund = step.refund.map_or_else(String::new, |sum| sum.to_string());
                format!("{} {} {refund}", step.rule_id, step.to)
            };
            schedule.iter().map(line).collect::<Vec<_>>()
        };
        assert_eq!(
            steps(&[("eventDate", "2026-11-01")]),
            [
                "organizer.tiers[0] 2026-10-24T22:00:00.000Z EUR 500.00",
                "organizer.late 2026-10-31T23:00:00.000Z EUR 850.00",
                "organizer.noShow 2026-11-14T23:00:00.000Z EUR 850.00",
            ]
        );
        let elsewhere = steps(&[
            ("eventDate", "2026-11-01T19:00"),
            ("timeZone", "America/New_York"),
            ("bookingValue", "200.1"),
        ]);
        assert_eq!(
            elsewhere[0],
            "organizer.tiers[0] 2026-10-25T23:00:00.000Z EUR 100.05"
        );
        let past = steps(&[("eventDate", "2020-01-01")]);
        assert_eq!(past, [] as [&str; 0], "nothing can be claimed any more");
    }

    #[test]
    fn a_time_zone_that_is_only_assumed_is_named() {
        let utc = Some(vec![Assumption::TimeZoneAssumedUtc]);
        let (local, instant) = ("2026-11-01T19:00", "2026-11-01T19:00:00Z");
        for (date, zone, partner, assumed) in [
            (local, None, None, utc),
            (local, Some("Europe/Paris"), None, None),
            (local, None, Some("Asia/Tokyo"), None),
            (instant, None, None, None),
        ] {
            let zone = zone.map(|zone: &str| ("timeZone".to_owned(), zone.to_owned()));
            let date = ("eventDate".to_owned(), date.to_owned());
            let request = Request {
                query: [date].into_iter().chain(zone).collect(),
                ..Request::default()
            };
            let example = ExampleBooking::read(&request).unwrap().unwrap();
            let policy = br#"{"policyId":"p","organizer":{"late":{"refundBps":0}}}"#;
            let check = PolicyCheck::of(policy).unwrap();
            let now = Timestamp::parse("2026-10-01T00:00:00Z").unwrap();
            let check = check.with_example(&example, partner, now).unwrap();
            assert_eq!(check.assumptions, assumed, "{request:?}");
        }
    }

    #[test]
    fn what_is_no_example_is_named() {
        let date = ("eventDate", "2026-11-01");
        #[rustfmt::skip]
        let cases = [
            (&[("eventDate", "soon")][..], "?eventDate", "invalid_date"),
            (&[("bookingValue", "5")], "?eventDate", "missing_field"),
            (&[date, ("bookingValue", "much")], "?bookingValue", "amount_not_a_number"),
            (&[date, ("bookingValue", "0.001")], "?bookingValue", "amount_precision"),
            (&[date, ("bookingValue", "-1e-323")], "?bookingValue", "amount_negative"),
            (&[date, ("currency", "eur")], "?currency", "currency_unknown"),
            (&[date, ("currency", "USD")], "?currency", "policy_currency_mismatch"),
            (&[date, ("timeZone", "Berlin")], "?timeZone", "time_zone_unknown"),
            (&[date, ("timeZone", "")], "?timeZone", "empty"),
        ];
        for (query, pointer, code) in cases {
            let refused = asked(query).unwrap_err();
            let fault = &refused.details[0];
            assert_eq!(
                (&*fault.pointer, &*fault.code),
                (pointer, code),
                "{query:?}"
            );
        }
    }

    #[test]
    fn what_is_no_example_is_refused_whatever_the_policy() {
        let date = ("eventDate".to_owned(), "2026-11-01".to_owned());
        for (name, text) in [
            ("bookingValue", "-1e-323"),
            ("bookingValue", "much"),
            ("timeZone", "Berlin"),
            ("currency", "eur"),
        ] {
            let request = Request {
                query: vec![date.clone(), (name.to_owned(), text.to_owned())],
                ..Request::default()
            };
            let refused = ExampleBooking::read(&request).unwrap_err();
            assert_eq!(refused.details[0].pointer, format!("?{name}"));
        }
    }

    #[test]
    fn a_policy_that_cannot_be_used_has_no_schedule() {
        let request = Request {
            query: vec![("eventDate".to_owned(), "2026-11-01".to_owned())],
            ..Request::default()
        };
        let example = ExampleBooking::read(&request).unwrap().unwrap();
        let check = PolicyCheck::of(b"{}").unwrap();
        let now = Timestamp::from_ms(0);
        assert_eq!(
            check.with_example(&example, None, now).unwrap().schedule,
            None
        );
    }
}
