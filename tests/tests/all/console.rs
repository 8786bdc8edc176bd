//! The console over HTTP, as a browser uses it.
//!
//! | module | tests |
//! |---|---|
//! | `sessions` | signing in and out, and how long it lasts |
//! | `pages` | every page: what it is made of, where it leads, and that it changes nothing |
//! | `forms` | every form: who may send it, and what happens to one that is refused |
//! | `actions`, `policies` | what people do with it; how they write policies |
//! | `operator` | the same of the operator's console, and that neither opens the other |
//! | `browser`, `html`, `world` | somebody at a browser, what the pages hold, and partners with one of everything |

mod actions;
mod browser;
mod forms;
mod html;
mod operator;
mod pages;
mod policies;
mod sessions;
mod world;
