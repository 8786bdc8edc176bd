//! The `bookguard` binary as people and scripts use it.
//!
//! | module | asks |
//! |---|---|
//! | `story` | whether the whole story can be told on a database file, beside a server on it, and on a server |
//! | `cancellation` | cancellations looked at, guarded, made and decided |
//! | `reschedules` | changes of date and acceptances |
//! | `codes` | what each exit code stands for, and what is said beside it |
//! | `printing` | what is printed: tables, JSON, completions, to readers who go away |
//! | `secrets` | where keys may come from |
//! | `serving` | what `serve` says and leaves alone when it cannot serve |
//! | `signals` | what `serve` does when it is told to end, to end at once, or to read its settings anew |
//! | `lists` | what the administrator lists across partners |
//! | `log` | whether events are shown as they happen |
//! | `recoveries` | whether what was missed is delivered once more |
//! | `disk` | a disk that is full |
//! | `storage` | a disk that fails or runs out of room under a server, and who may read what is kept on it |
//! | `pruning` | old events counted and pruned by hand, and by a server that is killed at it |
//! | `moving` | a database that moves to another, to the same engine and to the other |
//! | `target` | (where commands work) |
//! | `backup` | a database that is copied while it is used |

mod backup;
mod cancellation;
mod codes;
mod disk;
mod lists;
mod log;
mod moving;
mod printing;
mod pruning;
mod recoveries;
mod reschedules;
mod secrets;
mod serving;
mod signals;
mod storage;
mod story;
mod target;
