//! The HTTP interface as it is on the wire: every documented status, and what comes in that should not.
//!
//! | module | asks |
//! |---|---|
//! | `statuses` | whether each operation gives each status it documents, and no other |
//! | `world` | (the operations, and a server to ask them of) |
//! | `documents` | what is served beside the operations |
//! | `pages` | what people and programs find there before they know an operation |
//! | `bodies` | what is said to JSON that is wrong, one of each kind of fault |
//! | `objects` | what is said to bodies that are not JSON objects; that each operation reads its own body |
//! | `policies` | what is said to policies that are none, and to what a partner cannot decide |
//! | `refusals` | what is said to cancellations, decisions, new dates and acceptances that cannot be |
//! | `queries` | what is said to query parameters and idempotency keys that are wrong |
//! | `messages` | what is said to HTTP that is wrong, or only unusual |
//! | `connections` | who may stay when there are too many, and who a client behind a proxy is |
//! | `overload` | what is said to too much |
//! | `packets` | when an evidence packet is made anew, and when it is the one made before |
//! | `webhooks` | whether what is sent is what the interface document says |

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
