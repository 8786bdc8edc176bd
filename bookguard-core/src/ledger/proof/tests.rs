//! Merkle proofs against the published vectors and an independent implementation.

use proptest::prelude::*;

use super::*;
use crate::ledger::hash::leaf_hash;
use crate::ledger::tree::tests::{Oracle, Stored, grown, leaf};
use crate::ledger::tree::{Frontier, Tree};

fn inclusion(stored: &Stored, index: u64, size: u64) -> Vec<Hash> {
    prove_inclusion(index, size, |level, index| stored.read(level, index)).unwrap()
}

fn consistency(stored: &Stored, from: u64, to: u64) -> Vec<Hash> {
    prove_consistency(from, to, |level, index| stored.read(level, index)).unwrap()
}

#[test]
fn every_proof_of_the_published_vectors_is_made_and_verified() {
    let vectors: serde_json::Value =
        serde_json::from_str(include_str!("../../../../tests/vectors/ledger.json")).unwrap();
    let hash = |value: &serde_json::Value| value.as_str().unwrap().parse::<Hash>().unwrap();
    let hashes = |value: &serde_json::Value| -> Vec<Hash> {
        value.as_array().unwrap().iter().map(hash).collect()
    };
    let leaves = hashes(&vectors["leafHashes"]);
    let root = |size: u64| match size {
        0 => EMPTY_ROOT,
        _ => hash(&vectors["roots"][usize::try_from(size).unwrap() - 1]["root"]),
    };
    let mut stored = Stored::default();
    stored.put(Tree::empty().append(leaves.iter().copied()));

    let cases = vectors["inclusion"].as_array().unwrap();
    assert_eq!(cases.len(), 36);
    for case in cases {
        let number = |name: &str| case[name].as_u64().unwrap();
        let (index, size, path) = (number("index"), number("size"), hashes(&case["path"]));
        let leaf = leaves[usize::try_from(index).unwrap()];
        assert_eq!(inclusion(&stored, index, size), path);
        assert_eq!(
            verify_inclusion(&leaf, index, size, &path, &root(size)),
            Ok(())
        );
    }
    let cases = vectors["consistency"].as_array().unwrap();
    assert_eq!(cases.len(), 36);
    for case in cases {
        let number = |name: &str| case[name].as_u64().unwrap();
        let (from, to, path) = (number("from"), number("to"), hashes(&case["path"]));
        assert_eq!(consistency(&stored, from, to), path);
        assert_eq!(
            verify_consistency(from, &root(from), to, &root(to), &path),
            Ok(())
        );
    }
}

#[test]
fn an_inclusion_proof_holds_for_its_own_statement_only() {
    const SIZE: u64 = 20;
    let (tree, stored) = grown([SIZE]);
    for index in 0..SIZE {
        let path = inclusion(&stored, index, SIZE);
        let check = |index, size, path: &[Hash]| {
            verify_inclusion(&leaf(7), index, size, path, &tree.root()).is_ok()
        };
        assert_eq!(check(index, SIZE, &path), index == 7);
        if index != 7 {
            continue;
        }
        for other in (0..40).filter(|other| *other != index) {
            assert!(!check(other, SIZE, &path), "index {other}");
        }
        // Another size fails unless the path is the same for it; a size is only believed from a checkpoint.
        assert!(!check(index, 8, &path) && !check(index, 7, &path) && !check(index, 40, &path));
        for at in 0..path.len() {
            let mut shorter = path.clone();
            shorter.remove(at);
            assert!(!check(index, SIZE, &shorter));
            for bit in 0..256 {
                let mut flipped = path.clone();
                flipped[at].0[bit / 8] ^= 1 << (bit % 8);
                assert!(!check(index, SIZE, &flipped));
            }
        }
        let mut longer = path.clone();
        longer.push(leaf(0));
        assert!(!check(index, SIZE, &longer));
        assert!(!check(index, SIZE, &[]));
    }
}

#[test]
fn a_consistency_proof_holds_for_its_own_statement_only() {
    const SIZE: u64 = 20;
    let (tree, stored) = grown([SIZE]);
    let mut old = Frontier::empty();
    for from in 0..=SIZE {
        let path = consistency(&stored, from, SIZE);
        let check = |from, old: &Hash, new: &Hash, path: &[Hash]| {
            verify_consistency(from, old, SIZE, new, path)
        };
        assert_eq!(check(from, &old.root(), &tree.root(), &path), Ok(()));
        assert!(check(from, &leaf(99), &tree.root(), &path).is_err());
        if from > 0 {
            assert!(check(from, &old.root(), &leaf(99), &path).is_err());
            assert!(check(from - 1, &old.root(), &tree.root(), &path).is_err());
        }
        assert!(check(from + 1, &old.root(), &tree.root(), &path).is_err());
        let mut longer = path.clone();
        longer.push(leaf(0));
        assert_eq!(
            check(from, &old.root(), &tree.root(), &longer),
            Err(ProofError::Length)
        );
        for at in 0..path.len() {
            let mut wrong = path.clone();
            wrong[at].0[0] ^= 1;
            assert!(check(from, &old.root(), &tree.root(), &wrong).is_err());
            wrong.remove(at);
            assert!(check(from, &old.root(), &tree.root(), &wrong).is_err());
        }
        old.append(leaf(from));
    }
}

#[test]
fn positions_outside_the_tree_have_no_proof() {
    let (_, stored) = grown([3]);
    let read = |level, index| stored.read(level, index);
    let error = ReadError::OutOfRange { asked: 3, size: 3 };
    assert_eq!(prove_inclusion(3, 3, read).unwrap_err(), error);
    let error = ReadError::OutOfRange { asked: 4, size: 3 };
    assert_eq!(prove_consistency(4, 3, read).unwrap_err(), error);
    assert!(matches!(
        prove_inclusion(300, 1000, read).unwrap_err(),
        ReadError::Missing { .. }
    ));
    assert!(matches!(
        prove_inclusion(2, 4, read).unwrap_err(),
        ReadError::Size {
            level: 0,
            index: 0,
            found: 96,
            ..
        }
    ));
    let error = ProofError::OutOfRange { asked: 0, size: 0 };
    assert_eq!(
        verify_inclusion(&leaf(0), 0, 0, &[], &EMPTY_ROOT),
        Err(error)
    );
    let error = ProofError::OutOfRange { asked: 4, size: 3 };
    let verified = verify_consistency(4, &leaf(0), 3, &leaf(0), &[]);
    assert_eq!(verified, Err(error));
}

#[test]
fn hostile_sizes_end_in_an_error() {
    let path = vec![leaf_hash(b"x"); MAX_PATH];
    for size in [1, 2, 3, 1 << 32, (1 << 63) + 1, u64::MAX - 1, u64::MAX] {
        for position in [0, 1, size / 2, size.saturating_sub(2), size - 1, size] {
            for length in [0, 1, 63, 64] {
                let path = &path[..length];
                let root = leaf(1);
                assert!(verify_inclusion(&leaf(0), position, size, path, &root).is_err());
                let held = verify_consistency(position, &root, size, &leaf(2), path);
                assert!(held.is_err(), "{position} of {size}");
            }
            let nothing = |_, _| Ok::<_, std::fmt::Error>(None);
            assert!(size == 1 || prove_inclusion(position, size, nothing).is_err());
            let made = prove_consistency(position, size, nothing);
            assert_eq!(made.is_ok(), position == 0 || position == size);
        }
    }
}

#[test]
fn proofs_need_no_other_tiles_and_what_is_kept_of_them_changes_none_even_after_a_rollback() {
    let (_, first) = grown([66_000]);
    // Another log from entry 600 on, as after a rollback, in the same cache.
    let (mut tree, mut second) = (Tree::empty(), Stored::default());
    let other = |number| {
        leaf(if number < 600 {
            number
        } else {
            number + 1_000_000
        })
    };
    second.put(tree.append((0..66_000).map(other)));
    let kept = UpperNodes::default();
    for log in [&first, &second, &first] {
        for size in [1, 16, 255, 256, 257, 511, 700, 65_535, 65_536, 66_000] {
            let leaves = [0, 7, 8, 15, 16, 255, 256, 599, 600, 40_000, 65_535, 65_999];
            let leaves = leaves.into_iter().filter(|leaf| *leaf < size);
            let tiles = tiles_of(leaves.clone(), size);
            let read = |level, index| {
                assert!(tiles.contains(&(level, index)), "{level} {index} of {size}");
                log.read(level, index)
            };
            let mut prover = Prover::new(size, read, Some(&kept));
            for index in leaves {
                let path = prover.inclusion(index).unwrap();
                assert_eq!(path, inclusion(log, index, size), "{index} of {size}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn proofs_agree_with_an_independent_implementation(
        size in prop_oneof![1u64..600, 1u64..4000],
        extra in 0u64..300,
        positions in prop::collection::vec(any::<prop::sample::Index>(), 8),
    ) {
        // The stored tiles have grown past the tree that is proven.
        let (_, stored) = grown([size + extra]);
        let oracle = Oracle::of(size);
        let root = oracle.root(size);
        let theirs = |hashes: &[Hash]| hashes.iter().map(|hash| tlog_tiles::Hash(hash.0)).collect::<Vec<_>>();
        for position in positions {
            let index = position.index(usize::try_from(size).unwrap()) as u64;
            let path = inclusion(&stored, index, size);
            let tiles = tiles_of([index], size);
            let read = |level, index| {
                assert!(tiles.contains(&(level, index)), "{level} {index} of {size}");
                stored.read(level, index)
            };
            prop_assert_eq!(&Prover::new(size, read, None).inclusion(index).unwrap(), &path);
            prop_assert_eq!(theirs(&path), tlog_tiles::prove_record(size, index, &oracle).unwrap());
            prop_assert_eq!(verify_inclusion(&leaf(index), index, size, &path, &root), Ok(()));
            let checked = tlog_tiles::check_record(
                &theirs(&path), size, tlog_tiles::Hash(root.0), index, tlog_tiles::Hash(leaf(index).0),
            );
            prop_assert!(checked.is_ok());

            let from = index + 1;
            let path = consistency(&stored, from, size);
            let old = oracle.root(from);
            prop_assert_eq!(theirs(&path), tlog_tiles::prove_tree(size, from, &oracle).unwrap());
            prop_assert_eq!(verify_consistency(from, &old, size, &root, &path), Ok(()));
            let checked = tlog_tiles::check_tree(
                &theirs(&path), size, tlog_tiles::Hash(root.0), from, tlog_tiles::Hash(old.0),
            );
            prop_assert!(checked.is_ok());
        }
    }
}
