//! Endpoint tests: one attempt each, made for a caller that waits for it.
//!
//! A test is signed, checked and sent like a delivery. Invariants: one test of an endpoint at a time, at most
//! [`TESTS_PER_PARTNER`] of a partner's endpoints and [`TESTS_AT_ONCE`] in all on this node; a test is never settled, claimed
//! or repeated.

use std::sync::Arc;

use bookguard_core::engine::outbox::EndpointStanding;
use bookguard_core::error::Error;
use bookguard_core::limits::TESTS_PER_PARTNER;
use bookguard_core::model::{EndpointId, PartnerId};
use bookguard_core::operation::TestDelivery;
use bookguard_core::webhook::Attempt;

use super::deliver::DeliveryContext;
use super::sender::{ASKER, Asker};
use crate::under_way::{Full, OneUnderWay, UnderWay};

/// The most tests under way on one node: few, because each holds a request's connection.
const TESTS_AT_ONCE: usize = 64;

/// The tests under way.
#[derive(Debug)]
pub(super) struct EndpointTests {
    endpoints: Arc<UnderWay<EndpointId>>,
    partners: Arc<UnderWay<PartnerId>>,
}

/// A test that was admitted. Dropping it lets the next test of the endpoint begin.
#[derive(Debug)]
pub struct EndpointTest {
    test: TestDelivery,
    _places: (OneUnderWay<EndpointId>, OneUnderWay<PartnerId>),
}

impl Default for EndpointTests {
    fn default() -> Self {
        Self {
            endpoints: UnderWay::new(1, usize::MAX),
            partners: UnderWay::new(TESTS_PER_PARTNER, TESTS_AT_ONCE),
        }
    }
}

impl EndpointTests {
    /// Begins a test.
    ///
    /// # Errors
    /// `test_running`, `busy`.
    pub(super) fn begin(&self, test: TestDelivery) -> Result<EndpointTest, Error> {
        let running = |why| Error::conflict("test_running", why);
        let endpoint = self.endpoints.begin(test.endpoint_id).map_err(|_| {
            running(format!(
                "A test of webhook endpoint {} is under way. Wait for its answer, fifteen seconds at most, and test again.",
                test.endpoint_id
            ))
        })?;
        let partner = self.partners.begin(test.partner_id).map_err(|full| match full {
            Full::Own => running(format!(
                "Tests of {TESTS_PER_PARTNER} webhook endpoints of the partner are under way, the most at a time. Wait for an \
                 answer, fifteen seconds at most, and test again."
            )),
            Full::All => Error {
                message: format!(
                    "{TESTS_AT_ONCE} tests of webhook endpoints are under way on this node, the most at a time. Wait a moment, and test again."
                ),
                ..Error::busy()
            },
        })?;
        Ok(EndpointTest {
            test,
            _places: (endpoint, partner),
        })
    }
}

impl EndpointTest {
    pub(super) fn endpoint_id(&self) -> EndpointId {
        self.test.endpoint_id
    }

    /// Makes the attempt.
    pub(super) async fn run(&self, context: &DeliveryContext) -> Attempt {
        let TestDelivery {
            partner_id,
            endpoint_id,
            event_id,
            body,
        } = &self.test;
        // Not cached: a caller that just changed the endpoint wants to test the change.
        let destination = (context.endpoints)
            .destination(*partner_id, *endpoint_id)
            .await;
        let asker = Asker {
            partner_id: *partner_id,
            standing: EndpointStanding::New,
        };
        let patience = context.attempt_time;
        let attempting = context.attempt(patience, event_id, body, destination.as_ref());
        ASKER.scope(asker, attempting).await
    }
}

#[cfg(test)]
mod tests {
    use bookguard_core::model::EventId;

    use super::*;

    /// A test of endpoint `n`. Each partner has four endpoints.
    fn test(n: u8) -> TestDelivery {
        TestDelivery {
            partner_id: PartnerId::from_bytes([n / 4; 16]),
            endpoint_id: EndpointId::from_bytes([n; 16]),
            event_id: EventId::from_bytes([0; 16]),
            body: Arc::from(&b"{}"[..]),
        }
    }

    #[test]
    fn an_endpoint_is_tested_once_at_a_time_and_a_node_makes_few_tests_at_once() {
        let tests = Arc::<EndpointTests>::default();
        let code = |test| tests.begin(test).map(drop).map_err(|error| error.code);
        let first = tests.begin(test(0)).unwrap();
        assert_eq!(code(test(0)).unwrap_err(), "test_running");
        assert_eq!(code(test(1)), Ok(()));
        drop(first);
        let all: Vec<EndpointTest> = (0..64).map(|n| tests.begin(test(n)).unwrap()).collect();
        let refused = tests.begin(test(64)).unwrap_err();
        assert_eq!(refused.code, "busy");
        assert!(refused.message.starts_with("64 tests"), "{refused}");
        drop(all);
        assert_eq!(code(test(64)), Ok(()));
    }

    #[test]
    fn a_partner_tests_few_endpoints_at_once() {
        let tests = Arc::<EndpointTests>::default();
        let of_one = |n| TestDelivery {
            partner_id: PartnerId::from_bytes([9; 16]),
            ..test(n)
        };
        let mut all: Vec<EndpointTest> = (0..4).map(|n| tests.begin(of_one(n)).unwrap()).collect();
        let refused = tests.begin(of_one(4)).unwrap_err();
        assert_eq!(refused.code, "test_running");
        assert!(refused.message.starts_with("Tests of 4"), "{refused}");
        assert!(
            tests.begin(test(4)).is_ok(),
            "another partner has its own share"
        );
        all.pop();
        assert!(tests.begin(of_one(4)).is_ok());
    }
}
