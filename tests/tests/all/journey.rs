//! Partner journeys over HTTP, from the first request on.
//!
//! | module | the journey |
//! |---|---|
//! | `story` | from registration to evidence that verifies without the service |
//! | `cancellation` | the quoted result is recorded once; a pending resolution is decided once |
//! | `outcomes` | every outcome of a cancellation, in currencies with every number of decimals |
//! | `reschedules` | events moved to another date |
//! | `acceptances` | terms shown in words and accepted |
//! | `items` | what a partner adds to the evidence, and its files |
//! | `erasures` | personal data that is erased, and legal holds that prevent it |
//! | `exports` | everything of a partner as one archive |
//! | `shares` | links to a booking's evidence for people without an account |
//! | `metrics` | what an operator measures |
//! | `activity` | a partner's last day in numbers, and what is open |
//! | `audit` | who changed what |
//! | `operator` | the operator interface: whose keys open it, and what can be done there |
//! | `keys` | registration modes, scopes, key rotation and revocation |
//! | `console_sessions` | links that sign people in to the console, and how sessions end |
//! | `policies` | a partner's own policies and defaults, and which of them a booking uses |
//! | `quotas` | a partner's quotas, and what is refused beyond them |
//! | `finding` | bookings found by words, and resolutions that wait for a person |
//! | `reading` | bookings in pages, and their ETags |
//! | `listed_events` | events that are made only while an endpoint lists their type |
//! | `event_log` | a partner's events as a log that can be read and waited on |
//! | `endpoints` | endpoints that change, are disabled and come back; secrets that are replaced |
//! | `notifications` | the outcomes of deliveries as evidence in the booking's packet |
//! | `webhooks` | deliveries that succeed, fail, wait, and are tried again |
//! | `faults` | every fault of a receiver, and how it is recorded |
//! | `suspension` | endpoints that only fail: their suspension and how they are resumed |
//! | `verification` | endpoints that have not accepted a delivery yet, and duplicate addresses |
//! | `retention` | old events lose their payload and attempts |
//! | `forward_proxy` | deliveries through the operator's proxy |
//! | `timestamps` | the ledger stamped by authorities, good ones and others |
//! | `retries` | the results of a manual retry |
//! | `recoveries` | missed events sent again |

mod acceptances;
mod activity;
mod audit;
mod cancellation;
mod completeness;
mod console_sessions;
mod endpoints;
mod erasures;
mod event_log;
mod exports;
mod faults;
mod finding;
mod forward_proxy;
mod items;
mod keys;
mod listed_events;
mod metrics;
mod notifications;
mod operator;
mod outcomes;
mod policies;
mod quotas;
mod reading;
mod recoveries;
mod reschedules;
mod retention;
mod retries;
mod shares;
mod story;
mod suspension;
mod timestamps;
mod verification;
mod webhooks;
