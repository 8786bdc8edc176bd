//! The source of time.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::SystemTime;

use crate::model::Timestamp;

/// The system's clock, or one set by hand.
#[derive(Debug, Clone, Default)]
pub enum Clock {
    /// The system's.
    #[default]
    System,
    /// Set by hand: milliseconds since the epoch.
    Set(Arc<AtomicI64>),
}

impl Clock {
    /// The current instant.
    pub fn now(&self) -> Timestamp {
        match self {
            Self::System => SystemTime::now().into(),
            Self::Set(ms) => Timestamp::from_ms(ms.load(Ordering::Acquire)),
        }
    }
}
