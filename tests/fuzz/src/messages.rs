//! Messages of the Model Context Protocol (JSON-RPC 2.0), and the arguments of a tool in them.

use bookguard_core::features::bookings::{CreateBooking, ListBookings};
use bookguard_core::features::cancellations::CancelBooking;
use bookguard_core::operation::Operation as _;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::mcp;

/// What is passed on is a message that reads the same again, with arguments that are an object. A fault is an answer in JSON. Each
/// argument goes to one place: the path, the query, a header, or the body.
pub fn read(bytes: &[u8]) {
    let [id, text, arguments] = match mcp::read(bytes) {
        Ok(Some(ask)) => ask,
        Ok(None) => return,
        Err(fault) => {
            let fault: Value = serde_json::from_str(&fault).expect("a fault is JSON");
            assert!(fault["error"]["code"].is_i64());
            return;
        }
    };
    let again = mcp::read(text.as_bytes()).expect("what is passed on is a message");
    assert_eq!(again.map(|[id, ..]| id), Some(id));
    assert!(arguments.starts_with('{'));
    for route in [
        ListBookings::ROUTE,
        CreateBooking::ROUTE,
        CancelBooking::ROUTE,
    ] {
        let Ok(request) = mcp::input(&route, &arguments) else {
            continue;
        };
        assert_eq!(request.path.len(), route.parameters().count());
        let in_body = match route.body.declaration() {
            None => 0,
            Some(_) => count(std::str::from_utf8(&request.body).expect("a body is text")),
        };
        let key = usize::from(request.idempotency_key.is_some());
        let placed = request.path.len() + request.query.len() + key + in_body;
        assert_eq!(placed, count(&arguments), "{arguments}");
    }
}

/// The number of an object's members, counting a name that is there twice as two.
fn count(object: &str) -> usize {
    struct Members(usize);
    impl<'de> serde::Deserialize<'de> for Members {
        fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
            struct Counter;
            impl<'de> serde::de::Visitor<'de> for Counter {
                type Value = Members;

                fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    f.write_str("an object")
                }

                fn visit_map<A: serde::de::MapAccess<'de>>(
                    self,
                    mut map: A,
                ) -> Result<Members, A::Error> {
                    let mut members = 0;
                    while map.next_entry::<String, &RawValue>()?.is_some() {
                        members += 1;
                    }
                    Ok(Members(members))
                }
            }
            from.deserialize_map(Counter)
        }
    }
    let members: Members = serde_json::from_str(object).expect("it is an object");
    members.0
}
