//! What is sent to partners, as the document's `webhooks`: written down, as no operation of ours describes it. Tests hold
//! the bodies and headers that are sent against it.

use bookguard_core::input::Node;

const WEBHOOKS: &str = include_str!("webhooks.json");

/// What is sent, by the event's type.
pub(super) fn sent() -> Node {
    part("webhooks")
}

/// Bodies and their payloads.
pub(super) fn schemas() -> Vec<(String, Node)> {
    part("schemas").members().to_vec()
}

/// The headers that come with every body.
pub(super) fn parameters() -> Vec<(String, Node)> {
    part("parameters").members().to_vec()
}

/// What is made of a receiver's answers.
pub(super) fn responses() -> Vec<(String, Node)> {
    part("responses").members().to_vec()
}

fn part(name: &str) -> Node {
    let whole = Node::parse(WEBHOOKS);
    whole.get(name).cloned().expect("a test makes the document")
}
