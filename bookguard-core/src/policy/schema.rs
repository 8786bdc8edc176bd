//! The JSON Schema of policies (draft 2020-12), for editors, generators and people.
//!
//! The reader decides, not the schema. A test with an independent validator holds the invariant: whatever the reader
//! accepts passes the schema, also with its defaults written out; and whatever passes the schema is refused only for what
//! no schema can express (existing zones and currencies, decimals of a currency, the order of deadlines, a currency for
//! fixed amounts, names of spaces only, with piles of marks or with two single quotation marks side by side).

#[cfg(feature = "openapi")]
mod openapi;

/// The text of the schema, as it is served. Its patterns use no look-around, which many engines lack.
pub const SCHEMA: &str = include_str!("policy.schema.json");
/// The schema's name in the interface document.
pub const POLICY_SCHEMA: &str = "CancellationPolicy";
