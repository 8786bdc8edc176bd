//! C2SP tlog-policy: which logs somebody trusts, and which of their witnesses must have cosigned a checkpoint.
//!
//! `checkpoint` and `cosignature` check the signatures. Invariant: a policy that was read has exactly one quorum, which some
//! set of its witnesses reaches; no witness counts twice towards it.

use std::collections::{HashMap, HashSet};
use std::fmt;

use super::checkpoint::{Checkpoint, CheckpointError};
use super::cosignature::CosignerKey;
use super::note::{KeyError, NoteError, VerifierKey};

/// The longest policy that is read, in bytes.
pub const MAX_POLICY_BYTES: usize = 64 * 1024;
/// The most logs, witnesses and groups, each. The format recommends at least 32.
pub const MAX_ENTRIES: usize = 256;

/// A log or a witness that the policy names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known<K> {
    /// The name by which the policy's quorum refers to it; of a log, its origin.
    pub name: String,
    /// Its public key.
    pub key: K,
    /// Where to reach it.
    pub url: Option<String>,
}

/// A trust policy. Parsed from the format's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustPolicy {
    logs: Vec<Known<VerifierKey>>,
    witnesses: Vec<Known<CosignerKey>>,
    groups: Vec<Group>,
    quorum: Option<Member>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Group {
    least: usize,
    members: Vec<Member>,
}

/// An index into the policy's witnesses or groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Member {
    Witness(usize),
    Group(usize),
}

/// A checkpoint that satisfies a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trusted {
    /// What the log says of itself.
    pub checkpoint: Checkpoint,
    /// The witnesses that have cosigned it, in the policy's order, each with its time in seconds since 1970 (UTC).
    pub cosigned: Vec<(String, u64)>,
}

impl TrustPolicy {
    /// The logs whose checkpoints are trusted.
    #[must_use]
    pub fn logs(&self) -> &[Known<VerifierKey>] {
        &self.logs
    }

    /// The witnesses, whether or not the quorum names them.
    #[must_use]
    pub fn witnesses(&self) -> &[Known<CosignerKey>] {
        &self.witnesses
    }

    /// Checks that a note is a checkpoint of one of the logs, and cosigned as the quorum demands.
    ///
    /// # Errors
    /// [`TrustError::Log`] and [`TrustError::Quorum`]; [`TrustError::Cosignature`] for a witness of the policy whose
    /// cosignature is wrong, because whoever put it there wanted to deceive.
    pub fn check(&self, note: &str) -> Result<Trusted, TrustError> {
        let mut refused = None;
        let opened = self.logs.iter().find_map(|log| {
            let opened = Checkpoint::open(note, &log.key);
            opened.map_err(|why| refused = Some(why)).ok()
        });
        let checkpoint = opened.ok_or(TrustError::Log(refused))?;
        let cosigned = self.check_cosignatures(note)?;
        Ok(Trusted {
            checkpoint,
            cosigned,
        })
    }

    /// Checks that a checkpoint, whose log was checked otherwise, is cosigned as the quorum demands. Returns the witnesses as
    /// [`Trusted::cosigned`] has them.
    ///
    /// # Errors
    /// [`TrustError::Quorum`] and [`TrustError::Cosignature`].
    pub fn check_cosignatures(&self, note: &str) -> Result<Vec<(String, u64)>, TrustError> {
        let mut cosigned = Vec::new();
        let mut have = vec![false; self.witnesses.len()];
        for (witness, have) in self.witnesses.iter().zip(&mut have) {
            match witness.key.verify(note) {
                Ok(time) => {
                    *have = true;
                    cosigned.push((witness.name.clone(), time));
                }
                Err(NoteError::Unsigned { .. }) => {}
                Err(why) => {
                    let witness = witness.name.clone();
                    return Err(TrustError::Cosignature { witness, why });
                }
            }
        }
        match self.has_quorum(&have) {
            true => Ok(cosigned),
            false => Err(TrustError::Quorum { cosigned }),
        }
    }

    /// As [`TrustPolicy::check`], for a caller that has checked the log itself: a policy that names no log takes it,
    /// one that names some must name it.
    ///
    /// # Errors
    /// As [`TrustPolicy::check`], if the policy names logs.
    pub fn check_known(&self, note: &str) -> Result<Vec<(String, u64)>, TrustError> {
        match self.logs.as_slice() {
            [] => self.check_cosignatures(note),
            _ => self.check(note).map(|trusted| trusted.cosigned),
        }
    }

    /// Whether the witnesses that `has` finds suffice for the quorum.
    pub fn is_reached_by(&self, has: impl Fn(&Known<CosignerKey>) -> bool) -> bool {
        let have: Vec<bool> = self.witnesses.iter().map(has).collect();
        self.has_quorum(&have)
    }

    fn has_quorum(&self, have: &[bool]) -> bool {
        self.quorum.is_none_or(|quorum| self.reached(quorum, have))
    }

    fn reached(&self, member: Member, have: &[bool]) -> bool {
        match member {
            Member::Witness(at) => have[at],
            Member::Group(at) => {
                let Group { least, members } = &self.groups[at];
                let reached = members.iter().filter(|&&it| self.reached(it, have));
                reached.count() >= *least
            }
        }
    }

    /// Reads a policy.
    ///
    /// # Errors
    /// The first line that breaks a rule of the format, with the rule.
    pub fn parse(text: &str) -> Result<Self, TrustPolicyError> {
        if text.len() > MAX_POLICY_BYTES {
            return Err(TrustPolicyError::new(0, Fault::TooLong));
        }
        let mut reading = Reading::default();
        for (number, line) in (1..).zip(text.split_terminator('\n')) {
            let read = reading.line(line);
            read.map_err(|fault| TrustPolicyError::new(number, fault))?;
        }
        let quorum = (reading.quorum).ok_or_else(|| TrustPolicyError::new(0, Fault::NoQuorum))?;
        Ok(Self {
            logs: reading.logs,
            witnesses: reading.witnesses,
            groups: reading.groups,
            quorum,
        })
    }
}

/// A policy, some of whose lines were read.
#[derive(Default)]
struct Reading {
    logs: Vec<Known<VerifierKey>>,
    witnesses: Vec<Known<CosignerKey>>,
    groups: Vec<Group>,
    /// Names defined so far.
    names: HashMap<String, Member>,
    /// Members of some group.
    used: HashSet<Member>,
    quorum: Option<Option<Member>>,
}

/// The name of the quorum that needs no witness.
const NONE: &str = "none";

impl Reading {
    fn line(&mut self, line: &str) -> Result<(), Fault> {
        if line
            .bytes()
            .any(|byte| matches!(byte, 0..0x20 | 0x7f) && byte != b'\t')
        {
            return Err(Fault::Control);
        }
        let mut words = line.split([' ', '\t']).filter(|word| !word.is_empty());
        let Some(keyword) = words.next().filter(|word| !word.starts_with('#')) else {
            return Ok(());
        };
        let words: Vec<&str> = words.collect();
        match (keyword, words.as_slice()) {
            ("log", [vkey, url @ ..]) if url.len() < 2 => {
                let key: VerifierKey = vkey.parse().map_err(Fault::Key)?;
                if self.logs.iter().any(|log| log.key.key() == key.key()) {
                    return Err(Fault::TwiceTheKey);
                }
                let name = key.name().to_owned();
                add(&mut self.logs, known(name, key, url))?;
            }
            ("witness", [name, vkey, url @ ..]) if url.len() < 2 => {
                let key: CosignerKey = vkey.parse().map_err(Fault::Key)?;
                if (self.witnesses.iter()).any(|one| one.key.key() == key.key()) {
                    return Err(Fault::TwiceTheKey);
                }
                let at = add(&mut self.witnesses, known((*name).to_owned(), key, url))?;
                self.name(name, Member::Witness(at))?;
            }
            ("group", [name, least, members @ ..]) if !members.is_empty() => {
                let members = members.iter().map(|member| self.member(member));
                let members = members.collect::<Result<Vec<_>, _>>()?;
                let least = match *least {
                    "any" => 1,
                    "all" => members.len(),
                    least => least
                        .parse()
                        .ok()
                        .filter(|count| (1..=members.len()).contains(count))
                        .filter(|_| least.bytes().all(|byte| byte.is_ascii_digit()))
                        .ok_or(Fault::Threshold)?,
                };
                let at = add(&mut self.groups, Group { least, members })?;
                self.name(name, Member::Group(at))?;
            }
            ("quorum", [name]) => {
                let quorum = match *name {
                    NONE => None,
                    name => Some(*self.names.get(name).ok_or(Fault::Undefined)?),
                };
                if self.quorum.replace(quorum).is_some() {
                    return Err(Fault::TwoQuorums);
                }
            }
            _ => return Err(Fault::Form),
        }
        Ok(())
    }

    fn name(&mut self, name: &str, member: Member) -> Result<(), Fault> {
        if name == NONE || self.names.insert(name.to_owned(), member).is_some() {
            return Err(Fault::Name);
        }
        Ok(())
    }

    /// A member of a group. Each name is a member of one group at most, so that no witness counts twice.
    fn member(&mut self, name: &str) -> Result<Member, Fault> {
        let member = *self.names.get(name).ok_or(Fault::Undefined)?;
        if !self.used.insert(member) {
            return Err(Fault::TwiceAMember);
        }
        Ok(member)
    }
}

fn known<K>(name: String, key: K, url: &[&str]) -> Known<K> {
    let url = url.first().map(|url| (*url).to_owned());
    Known { name, key, url }
}

fn add<T>(list: &mut Vec<T>, one: T) -> Result<usize, Fault> {
    if list.len() == MAX_ENTRIES {
        return Err(Fault::TooMany);
    }
    list.push(one);
    Ok(list.len() - 1)
}

/// Why a trust policy cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustPolicyError {
    /// The line, from 1; 0 if the fault is of the whole text.
    pub line: usize,
    fault: Fault,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Fault {
    TooLong,
    TooMany,
    Control,
    Form,
    Key(KeyError),
    TwiceTheKey,
    Name,
    Undefined,
    TwiceAMember,
    Threshold,
    TwoQuorums,
    NoQuorum,
}

impl TrustPolicyError {
    fn new(line: usize, fault: Fault) -> Self {
        Self { line, fault }
    }
}

impl fmt::Display for TrustPolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "line {}: ", self.line)?;
        }
        f.write_str(match &self.fault {
            Fault::TooLong => return write!(f, "a trust policy has at most {MAX_POLICY_BYTES} bytes"),
            Fault::TooMany => {
                return write!(f, "a trust policy has at most {MAX_ENTRIES} logs, witnesses and groups each");
            }
            Fault::Key(why) => return why.fmt(f),
            Fault::Control => "a trust policy has no control characters but tabs and newlines",
            Fault::Form => {
                "a line is one of: log KEY [URL]; witness NAME KEY [URL]; group NAME all|any|NUMBER NAME…; quorum NAME; or a \
                 comment after #"
            }
            Fault::TwiceTheKey => "another line has the same public key",
            Fault::Name => "another line defines the same name, or the name is “none”, which the format keeps for itself",
            Fault::Undefined => "a name is not defined by a line above",
            Fault::TwiceAMember => "a name is a member already, of this group or of another; it may be one only once",
            Fault::Threshold => "the number of a group is at least 1 and at most the number of its members",
            Fault::TwoQuorums => "a trust policy has one quorum line; this is the second",
            Fault::NoQuorum => "a trust policy needs a quorum line; without witnesses it is: quorum none",
        })
    }
}

impl std::error::Error for TrustPolicyError {}

/// Why a checkpoint does not satisfy a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum TrustError {
    /// It is not signed by a log of the policy. The reason is that of the last log; `None` if the policy names no log.
    Log(Option<CheckpointError>),
    /// The cosignature under the name of a witness is wrong.
    Cosignature {
        /// The witness's name in the policy.
        witness: String,
        /// What is wrong with it.
        why: NoteError,
    },
    /// Too few witnesses have cosigned it.
    Quorum {
        /// Those that have, as in [`Trusted::cosigned`].
        cosigned: Vec<(String, u64)>,
    },
}

impl fmt::Display for TrustError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Log(None) => {
                f.write_str("the trust policy names no log, so it trusts no checkpoint")
            }
            Self::Log(Some(why)) => write!(f, "no log of the trust policy has signed this: {why}"),
            Self::Cosignature { witness, why } => {
                write!(
                    f,
                    "the cosignature of the witness {witness} does not verify: {why}"
                )
            }
            Self::Quorum { cosigned } if cosigned.is_empty() => {
                f.write_str("no witness of the trust policy has cosigned the checkpoint")
            }
            Self::Quorum { cosigned } => {
                let names: Vec<&str> = cosigned.iter().map(|(name, _)| name.as_str()).collect();
                write!(
                    f,
                    "too few witnesses of the trust policy have cosigned the checkpoint: only {}",
                    names.join(", ")
                )
            }
        }
    }
}

impl std::error::Error for TrustError {}

#[cfg(test)]
mod tests;
