//! What partners do, from their first request on, over HTTP.
//!
//! | module | the journey |
//! |---|---|
//! | `story` | from registration to evidence that verifies without the service |
//! | `cancellation` | the result that was shown is recorded once; an open result is decided once |
//! | `outcomes` | every outcome of a cancellation, in currencies with every number of decimals |
//! | `reschedules` | events that are moved |
//! | `acceptances` | terms that are shown in words and accepted |
//! | `keys` | registration modes, scopes, keys that are handed on and revoked |
//! | `policies` | a partner's own policies and defaults, and which of them bookings take |
//! | `quotas` | a partner's quotas, and what is refused beyond them |
//! | `reading` | bookings in pages, and their ETags |
//! | `event_log` | a partner's events as a log to read and to wait for |
//! | `endpoints` | endpoints that change and come back, secrets that are replaced |
//! | `notifications` | the ends of deliveries, as evidence of their bookings |
//! | `webhooks` | deliveries that succeed, fail, wait, and are tried again |
//! | `faults` | every fault of a receiver, and how it is recorded |
//! | `suspension` | endpoints that only fail, and how they come back |
//! | `verification` | endpoints that have not accepted a delivery yet, and duplicate addresses |
//! | `retention` | old events lose payload and attempts |
//! | `forward_proxy` | deliveries through the operator's proxy |
//! | `retries` | the results of a manual retry |
//! | `recoveries` | missed events sent again |

mod acceptances;
mod cancellation;
mod endpoints;
mod event_log;
mod faults;
mod forward_proxy;
mod keys;
mod notifications;
mod outcomes;
mod policies;
mod quotas;
mod reading;
mod recoveries;
mod reschedules;
mod retention;
mod retries;
mod story;
mod suspension;
mod verification;
mod webhooks;
