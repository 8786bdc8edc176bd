//! Which records may be deleted.

use crate::engine::batch::BatchState;
use crate::engine::command::Command as _;
use crate::features::audit::PruneAudit;
use crate::limits::{AUDIT_DAYS_MIN, DAY_MS};
use crate::model::{AuditId, Timestamp};

#[test]
fn no_record_is_deleted_in_its_first_month() {
    let at = Timestamp::from_ms(100 * DAY_MS);
    let month = i64::from(AUDIT_DAYS_MIN) * DAY_MS;
    for (age, deleted) in [(month + 1, 7), (month, 0), (0, 0), (-1, 0)] {
        let newest = AuditId::new(at.plus_ms(-age), [255; 10]);
        let prune = PruneAudit { records: 7, newest };
        let (changes, reply) = prune.decide(&BatchState::default(), at).unwrap();
        let done = (reply, changes.len());
        assert_eq!(done, (deleted, usize::from(deleted > 0)), "{age}");
    }
}
