//! The `bookguard` binary as people and scripts use it.
//!
//! | module | tests |
//! |---|---|
//! | `doctor` | each fault of an installation, found alone |
//! | `story` | the whole story on a database file, on a database that a server is using, and on a server |
//! | `cancellation` | cancellations previewed, guarded, recorded and decided |
//! | `reschedules` | reschedules and acceptances |
//! | `codes` | each exit code, and the message that goes with it |
//! | `printing` | the output: tables, JSON, completions, and readers that stop reading |
//! | `columns` | answers as rows and columns, requests printed for curl, and requests that no command is made for |
//! | `profiles` | servers and keys that a person notes once |
//! | `secrets` | where API keys may come from |
//! | `server_log` | what a server logs and what it never logs |
//! | `serving` | the message of a `serve` that cannot serve, and that it damages nothing |
//! | `sharing` | links to a booking's evidence, and where their tokens are not |
//! | `signals` | signals that stop `serve`, stop it at once, or reload its settings |
//! | `items` | evidence items and their files, and a backup that holds them |
//! | `lists` | the administrator's lists across partners |
//! | `completeness` | packets compared with the public log, a mirror of it, and servers that are not a log |
//! | `erasing` | a database put back from before an erasure |
//! | `disputes` | evidence in the fields of a card dispute |
//! | `drill` | every known way to tamper with a database, and what notices it |
//! | `log` | events shown as they happen |
//! | `recoveries` | missed events sent again |
//! | `disk` | a full disk |
//! | `storage` | a disk that fails or fills up under a server, and the permissions of its files |
//! | `pruning` | old events counted and pruned by hand, and by a server that is killed while pruning |
//! | `moving` | a database moved to another one, of the same engine or of the other |
//! | `target` | (the database or server that commands work on) |
//! | `cosigning` | a log and its witnesses, also those that misbehave or know more than the log |
//! | `auditing` | logs whose maps are true, and logs that lie, before witnesses that audit, mirrors and monitors |
//! | `backup` | a database copied while it is in use |
//! | `backup_folder` | backups that are verified, and of which the newest stay |
//! | `restore` | a backup put in the place of a database |
//! | `witnessing` | witnesses that are raced and killed, and public logs that are mirrored and watched |

mod auditing;
mod backup;
mod backup_folder;
mod cancellation;
mod codes;
mod columns;
mod completeness;
mod cosigning;
mod disk;
mod disputes;
mod doctor;
mod drill;
mod erasing;
mod items;
mod lists;
mod log;
mod moving;
mod printing;
mod profiles;
mod pruning;
mod recoveries;
mod reschedules;
mod restore;
mod secrets;
mod server_log;
mod serving;
mod sharing;
mod signals;
mod storage;
mod story;
mod target;
mod witnessing;
