//! What the service can do, one folder each: its operations (route, request, reply), and beside them the rule that decides.
//!
//! An operation that writes is its own command: it names what it has to see, and its `rule` says what follows. Rules do no
//! I/O, read no clock and roll no dice.

pub mod acceptances;
pub mod api_keys;
pub mod attempts;
pub mod bookings;
pub mod cancellations;
pub mod deliveries;
pub mod endpoints;
pub mod evaluations;
pub mod events;
pub mod evidence;
#[cfg(test)]
pub(crate) mod fixture;
pub mod health;
pub mod ledger;
pub mod partners;
pub mod policies;
pub mod recoveries;
pub mod reschedules;
pub mod retention;
