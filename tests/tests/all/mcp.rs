//! The Model Context Protocol, over HTTP and through `bookguard mcp`.
//!
//! | module | tests |
//! |---|---|
//! | `client` | (a client over either transport, which checks every answer against the announced schema) |
//! | `story` | the whole story of a booking in tools, over each transport |
//! | `access` | keys, scopes, other partners, other sites |
//! | `messages` | messages that no proper client sends |
//! | `room` | limits: large and slow messages, and faulty calls |

mod access;
mod client;
mod messages;
mod room;
mod story;
