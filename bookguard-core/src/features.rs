//! The service's features, one folder each: the operations (route, request, reply) and the rule that decides.
//!
//! An operation that writes is its own command: it names what it has to see, and its `rule` decides what follows. Rules do
//! no I/O, read no clock and roll no dice.

pub mod acceptances;
pub mod activity;
pub mod api_keys;
pub mod attempts;
pub mod audit;
pub mod bookings;
pub mod cancellations;
pub mod console;
pub mod cosignatures;
pub mod deliveries;
pub mod endings;
pub mod endpoints;
pub mod epochs;
pub mod erasures;
pub mod evaluations;
pub mod events;
pub mod evidence;
#[cfg(test)]
pub(crate) mod fixture;
pub mod health;
pub mod holds;
pub mod items;
pub mod key_notices;
pub mod ledger;
pub mod operator_keys;
pub mod operator_sessions;
pub mod partners;
pub mod policies;
pub mod recoveries;
pub mod reschedules;
pub mod retention;
pub mod shares;
pub mod system;
pub mod timestamps;
