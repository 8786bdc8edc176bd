//! The HTTP interface on the wire: every documented status, and bad input.
//!
//! | module | tests |
//! |---|---|
//! | `statuses` | that each operation gives every status it documents, and no other |
//! | `world` | (the operations, and a server to call them on) |
//! | `documents` | what is served besides the operations |
//! | `pages` | the pages that people and programs find before they know an operation |
//! | `bodies` | refusals of faulty JSON, one for each kind of fault |
//! | `objects` | refusals of bodies that are not JSON objects; that each operation reads its own body |
//! | `policies` | refusals of invalid policies, and of decisions that a partner cannot make |
//! | `refusals` | refusals of cancellations, decisions, reschedules and acceptances |
//! | `queries` | refusals of query parameters and idempotency keys |
//! | `messages` | HTTP that is wrong, or only unusual |
//! | `connections` | which connections stay when there are too many, and who a client behind a proxy is |
//! | `overload` | refusals under overload |
//! | `packets` | when an evidence packet is made anew, and when it is reused |
//! | `webhooks` | deliveries against the interface document |

mod bodies;
mod connections;
mod documents;
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
mod world;
