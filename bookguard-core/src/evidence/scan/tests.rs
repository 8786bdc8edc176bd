use super::*;
use crate::evidence::Packet;
use crate::evidence::verify::tests::fixture::Fixture;
use crate::evidence::verify_timeline;
use crate::ledger::Signer;
use crate::ledger::note::NoteError;

fn timeline(fixture: &Fixture, packet: &Packet) -> Timeline {
    let sealed = packet.seal(&fixture.signer).unwrap();
    let (report, timeline) = verify_timeline(sealed.text().as_bytes(), &fixture.vkey());
    assert!(report.verified(), "{report}");
    timeline.unwrap()
}

fn scanned(fixture: &Fixture, packet: &Packet) -> LogReport {
    let timeline = timeline(fixture, packet);
    let mut scan = Scan::new(timeline, &fixture.checkpoint(), &fixture.vkey()).unwrap();
    for path in scan.paths() {
        scan.take(&fixture.tile(&path)).unwrap();
    }
    assert_eq!(scan.progress(), (fixture.size(), fixture.size()));
    scan.finish().unwrap()
}

#[test]
fn a_packet_with_all_entries_is_complete() {
    let fixture = Fixture::new();
    for packet in [fixture.recorded(), fixture.protected(), fixture.notified()] {
        let report = scanned(&fixture, &packet);
        assert!(report.complete() && report.honest(), "{report}");
        assert_eq!(report.missing, []);
    }
    let report = scanned(&fixture, &fixture.protected());
    let size = fixture.size();
    assert_eq!(
        report.to_string(),
        format!(
            "Complete: the packet shows 2 entries, and the log example.com/log with its {size} entries holds no others of \
             this booking."
        )
    );
}

#[test]
fn entries_after_the_packet_make_it_older_and_nothing_worse() {
    let mut fixture = Fixture::new();
    let (packet, size) = (fixture.recorded(), fixture.size());
    fixture.protect(3);
    let report = scanned(&fixture, &packet);
    assert!(!report.complete() && report.honest());
    assert_eq!((report.left_out, report.later), (0, 1));
    let [later] = &report.missing[..] else {
        panic!("{report}")
    };
    assert_eq!((later.index, later.seq, later.left_out), (size, 1, false));
    assert_eq!(
        report.to_string(),
        format!(
            "Nothing was left out: the packet shows all 1 entry of this booking that the log example.com/log held when the \
             packet was made, the first {size} entries of the log. The packet is older than the log: 1 entry of this \
             booking was added since (entry {size} of the log, number 2 of the booking, written {}); fetch a new packet to \
             see more.",
            later.written_at
        )
    );
}

#[test]
fn an_entry_that_the_packet_hides_is_named() {
    let mut fixture = Fixture::new();
    let place = fixture.size() + 1;
    let (packet, honest) = fixture.hiding_the_protection();
    assert!(scanned(&fixture, &honest).complete());
    let report = scanned(&fixture, &packet);
    assert!(!report.complete() && !report.honest());
    assert_eq!((report.left_out, report.later), (1, 0));
    let entry = &report.missing[0];
    assert_eq!((entry.index, entry.seq, entry.left_out), (place, 1, true));
    let said = report.to_string();
    assert!(
        said.starts_with("Left out: when the packet was made, the log example.com/log had ")
            && said.contains("and 1 entry of this booking among them is missing from the packet")
            && said.contains(&format!(
                "entry {place} of the log, number 2 of the booking"
            )),
        "{said}"
    );
    // What was added since is told apart from it.
    fixture.other_work();
    assert_eq!(
        scanned(&fixture, &packet),
        LogReport {
            size: fixture.size(),
            root_hash: fixture.root().to_string(),
            ..report
        }
    );
}

#[test]
fn of_many_missing_entries_the_first_are_listed_and_the_rest_counted() {
    let mut fixture = Fixture::new();
    let packet = fixture.crowded_before_it_is_told();
    let report = scanned(&fixture, &packet);
    assert_eq!(report.missing.len(), MISSING_ENTRIES);
    assert!(report.later as usize > MISSING_ENTRIES, "{report}");
    let said = report.to_string();
    assert!(
        said.contains(&format!("; and {} more)", report.later - NAMED as u64)),
        "{said}"
    );
}

#[test]
fn only_a_log_that_continues_the_packets_is_scanned() {
    let fixture = Fixture::new();
    let timeline = timeline(&fixture, &fixture.protected());
    let refused =
        |checkpoint: &str, vkey: &str| Scan::new(timeline.clone(), checkpoint, vkey).err().unwrap();
    let (genuine, vkey) = (fixture.checkpoint(), fixture.vkey());
    assert!(matches!(
        refused(&genuine, "no key"),
        ScanError::Key(KeyError::Form)
    ));
    let impostor = Signer::from_seed(fixture.signer.name(), &[9; 32]).unwrap();
    let foreign = Checkpoint::sign(&impostor, fixture.size(), fixture.root());
    let why = refused(&foreign, &vkey);
    assert!(
        matches!(
            why,
            ScanError::Checkpoint(CheckpointError::Note(NoteError::Unsigned { .. }))
        ),
        "{why}"
    );
    let other = Signer::from_seed("example.com/other", &[9; 32]).unwrap();
    let elsewhere = Checkpoint::sign(&other, fixture.size(), fixture.root());
    let why = refused(&elsewhere, &other.verifier().to_string()).to_string();
    assert!(
        why.starts_with("The log is not the one that proves the packet: the checkpoint is of the log example.com/other, "),
        "{why}"
    );
    let smaller = Checkpoint::sign(&fixture.signer, 3, fixture.root());
    let why = refused(&smaller, &vkey).to_string();
    assert!(
        why.starts_with(
            "The log does not continue the one that proves the packet: the log has 3 entries, but "
        ),
        "{why}"
    );
    // A log of the same key with another first entry, and more entries: of one size, the checkpoints alone would show it.
    let mut other = Fixture::lying(&crate::evidence::verify::tests::fixture::Lie::Text);
    while other.size() <= fixture.size() {
        other.other_work();
    }
    let mut scan = Scan::new(timeline.clone(), &other.checkpoint(), &vkey).unwrap();
    let mut paths = scan.paths();
    let why = paths.find_map(|path| scan.take(&other.tile(&path)).err());
    let why = why.unwrap().to_string();
    assert!(
        why.contains("the log is forked") && why.contains("together they prove it"),
        "{why}"
    );
}

#[test]
fn an_entry_that_cannot_be_read_ends_the_scan() {
    let mut fixture = Fixture::new();
    let packet = fixture.protected();
    let index = fixture.log_bytes(b"{\"v\":\"bookguard.leaf/2\"}");
    let timeline = timeline(&fixture, &packet);
    let mut scan = Scan::new(timeline, &fixture.checkpoint(), &fixture.vkey()).unwrap();
    let why = (scan.paths()).find_map(|path| scan.take(&fixture.tile(&path)).err());
    let why = why.unwrap().to_string();
    assert!(
        why.starts_with(&format!("Entry {index} of the log cannot be read"))
            && why.contains("bookguard.leaf/2"),
        "{why}"
    );
}
