//! Answers as they are: one booking's story, told by a server, with made-up secrets and the longest answers cut.
//! A test holds each against its schema.

use std::sync::LazyLock;

use bookguard_core::input::Node;

const EXAMPLES: &str = include_str!("examples.json");
static READ: LazyLock<Node> = LazyLock::new(|| Node::parse(EXAMPLES));

/// The `response` of an operation, or a status among the `refusals`.
pub(super) fn of(id: &str, which: &str) -> Option<Node> {
    READ.get(id)?.get(which).cloned()
}
