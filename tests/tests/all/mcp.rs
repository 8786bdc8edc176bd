//! The Model Context Protocol, over HTTP and through `bookguard mcp`.
//!
//! | module | what |
//! |---|---|
//! | `client` | a client of either kind, which holds every answer to the schema that was announced |
//! | `story` | the whole story of a booking in tools, wherever they are called |
//! | `access` | keys, scopes, other partners, other sites |
//! | `messages` | what no proper client would send |

mod access;
mod client;
mod messages;
mod room;
mod story;
