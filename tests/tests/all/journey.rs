//! What partners do, from their first request on, over HTTP.
//!
//! | module | the journey |
//! |---|---|
//! | `story` | from registration to evidence that verifies without the service |
//! | `cancellation` | what was shown happens once; what was left open is decided once |
//! | `outcomes` | every way a cancellation can come out, and in money of every number of decimals |
//! | `keys` | registration modes, scopes, keys that are handed on and revoked |
//! | `policies` | a partner's own policies and what it decides, and what bookings take of them |
//! | `quotas` | what a partner may have, and what is refused beyond it |
//! | `reading` | bookings in pages, and told apart when nothing changed |
//! | `event_log` | a partner's events as a log to read from and to wait at |
//! | `endpoints` | endpoints that change and come back, secrets that replace each other |
//! | `notifications` | how deliveries ended, as evidence of their bookings |
//! | `webhooks` | deliveries that succeed, fail, wait, and are tried again |
//! | `faults` | everything a receiver can do wrong, and what is said of it |
//! | `suspension` | endpoints that only fail, and how they come back |
//! | `verification` | endpoints nobody has accepted anything at yet, and no address twice |
//! | `retention` | old events lose payload and attempts |
//! | `forward_proxy` | deliveries through the operator's proxy |
//! | `retries` | what a manual retry comes to |
//! | `recoveries` | what was missed for a while, delivered once more |

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
