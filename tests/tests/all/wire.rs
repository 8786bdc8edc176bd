//! The HTTP interface on the wire: every documented status, and bad input.
//!
//! | module | tests |
//! |---|---|
//! | `statuses` | each operation gives every status it documents, and no other |
//! | `world` | (the operations, and a server to call them on) |
//! | `documents` | discovery documents and unknown paths |
//! | `pages` | the pages that people and programs read before they know any operation |
//! | `bodies` | refusals of faulty JSON, one for each kind of fault |
//! | `objects` | refusals of bodies that are not JSON objects; each operation reads its own body |
//! | `policies` | refusals of invalid policies, and of decisions that a partner cannot make |
//! | `refusals` | refusals of cancellations, decisions, reschedules and acceptances |
//! | `queries` | refusals of query parameters and idempotency keys |
//! | `messages` | malformed and unusual HTTP |
//! | `connections` | which connections are closed when there are too many, and the address of a client behind a proxy |
//! | `overload` | refusals under overload |
//! | `fonts` | PDFs in the fonts that an operator adds |
//! | `packets` | when an evidence packet is made again, and when it is reused |
//! | `webhooks` | deliveries compared with the interface document |

mod bodies;
mod connections;
mod documents;
mod fonts;
mod messages;
mod objects;
mod overload;
mod packets;
mod pages;
mod policies;
mod queries;
mod refusals;
mod statuses;
mod webhooks;
pub(crate) mod world;
