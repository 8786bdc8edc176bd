//! What ends with a contract, and that ending it twice changes nothing.

use super::*;
use crate::features::fixture::*;

#[test]
fn keys_endpoints_and_the_record_end_once() {
    let mut work = work(PartnerStatus::Active, vec![endpoint(7, &[])]);
    let disarm = || command(DisarmPartner { partner_id: id(1) });
    let ended = changes(decide(&work, &disarm()));
    let is = |kind: fn(&Change) -> bool| ended.iter().filter(|change| kind(change)).count();
    assert_eq!(
        is(|change| matches!(change, Change::EndpointDeleted { .. })),
        1
    );
    let suspended = |change: &Change| {
        matches!(
            change,
            Change::PartnerStatusChanged {
                status: PartnerStatus::Suspended,
                ..
            }
        )
    };
    assert_eq!(is(suspended), 1);
    apply_all(&mut work, &ended);
    assert!(changes(decide(&work, &disarm())).is_empty());
    for (done, expected) in [(false, 0), (true, 1), (true, 0)] {
        let reply = ContractEnd {
            partner_id: id(1),
            erased: 0,
            held: Vec::new(),
            next: None,
            done,
        };
        let end = command(EndContract {
            partner_id: id(1),
            reply,
        });
        let changed = changes(decide(&work, &end));
        assert_eq!(changed.len(), expected, "{done}");
        apply_all(&mut work, &changed);
    }
}
