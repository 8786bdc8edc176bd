//! The JSON Schema of policies (draft 2020-12): their form for editors, generators and people.
//!
//! The reader judges, not the schema. Invariant, held by a test with a validator of others: what the reader takes passes the
//! schema, written out too; and what passes is refused only for what no schema can know (zones and currencies there are,
//! decimals of a currency, the order of deadlines, a currency for fixed amounts, names of nothing but spaces).

#[cfg(feature = "openapi")]
mod openapi;

/// The text of the schema, as it is served. Its patterns use no look-around, which many engines have not.
pub const SCHEMA: &str = include_str!("policy.schema.json");
/// What the schema is called in the interface document.
pub const POLICY_SCHEMA: &str = "CancellationPolicy";
