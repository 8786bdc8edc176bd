//! From a rule to money: penalty with its floors, refund, balance due, compensation, and the name of the result.
//!
//! Invariants: refund and balance due are never both above zero; if everything was paid, refund and penalty add up to the
//! value.

use super::document::{Deposit, Document};
use super::outcome::{Basis, Split};
use super::rule::Rule;
use super::words::ResolutionPath;
use crate::model::{Amount, Currency};

/// The amounts promised and paid, under one policy.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stakes<'p> {
    pub document: &'p Document,
    pub basis: Basis,
    pub currency: Currency,
    pub paid: Amount,
}

/// The result of a rule.
#[derive(Debug, Clone, Copy)]
pub(super) enum Settled<'p> {
    /// A person decides.
    Manual,
    /// Amounts of money.
    Sums(Settlement<'p>),
}

impl Settled<'_> {
    /// What is returned, and what is kept or owed; none where a person decides.
    pub fn amounts(&self) -> (Option<Amount>, Option<Amount>) {
        match self {
            Self::Manual => (None, None),
            Self::Sums(sums) => (Some(sums.refund), Some(sums.penalty)),
        }
    }
}

/// The result of a rule in money.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settlement<'p> {
    pub penalty: Amount,
    pub refund: Amount,
    pub balance_due: Amount,
    pub compensation: Amount,
    /// The split that set the penalty; `None` for an agreed figure and for a bound of a person's decision.
    pub split: Option<&'p Split>,
    /// What set the final penalty.
    pub bound: Bound,
}

impl Settlement<'_> {
    /// What is kept of the amount paid: the penalty without what is still owed.
    pub fn kept(&self) -> Amount {
        self.penalty.less(self.balance_due)
    }
}

/// What set a penalty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bound {
    /// The rule's own outcome.
    Outcome,
    /// The non-refundable deposit, which is more than the outcome.
    Deposit,
    /// A step reached before a change of date, which is more than the outcome.
    Reschedule,
}

impl<'p> Stakes<'p> {
    pub fn new(document: &'p Document, value: Amount, paid: Amount) -> Self {
        Self {
            document,
            basis: document.basis(value.minor()),
            currency: value.currency(),
            paid,
        }
    }

    /// Settles by a rule of the policy. `reached` is the penalty of a step reached before a change of date, in minor units; if it is
    /// `None`, because a person would have had to decide that, a person decides every rule of which it is the minimum.
    /// Returns `None` if the policy has no such rule.
    pub fn settle(&self, rule: Rule, reached: Option<i64>) -> Option<Settled<'p>> {
        let Some(charge) = self.document.outcome(rule)?.charge(self.basis) else {
            return Some(Settled::Manual);
        };
        let mut penalty = charge.penalty;
        let mut bound = Bound::Outcome;
        if rule.has_floors() {
            let Some(reached) = reached else {
                return Some(Settled::Manual);
            };
            let deposit = self.document.deposit.as_ref();
            let kept = deposit.is_some_and(|Deposit { non_refundable, .. }| *non_refundable);
            if kept && self.basis.deposit > penalty {
                penalty = self.basis.deposit;
                bound = Bound::Deposit;
            }
            if reached > penalty {
                penalty = reached;
                bound = Bound::Reschedule;
            }
        }
        let sums = self.divide(penalty, charge.compensation);
        Some(Settled::Sums(Settlement {
            split: Some(charge.split),
            bound,
            ..sums
        }))
    }

    /// Settles by a figure both sides agreed on: that much is returned, and nothing more is owed.
    pub fn settle_agreed(&self, refund: Amount) -> Settlement<'p> {
        self.divide(self.paid.minor().saturating_sub(refund.minor()), 0)
    }

    /// Settles with a penalty given in minor units.
    pub fn divide(&self, penalty: i64, compensation: i64) -> Settlement<'p> {
        let paid = self.paid.minor();
        Settlement {
            penalty: self.amount(penalty),
            refund: self.amount(paid.saturating_sub(penalty)),
            balance_due: self.amount(penalty.saturating_sub(paid)),
            compensation: self.amount(compensation),
            split: None,
            bound: Bound::Outcome,
        }
    }

    /// An amount of the booking's currency, not below zero.
    pub fn amount(&self, minor: i64) -> Amount {
        Amount::from_minor(minor.max(0), self.currency)
            .expect("no part of an amount is larger than the amount")
    }
}

impl Settlement<'_> {
    /// The name of the result.
    pub fn path(&self, rule: Rule) -> ResolutionPath {
        if rule == Rule::Mutual {
            return ResolutionPath::MutualAgreement;
        }
        self.path_of_sums()
    }

    /// The name of the result, independent of what set it. The first match wins.
    pub fn path_of_sums(&self) -> ResolutionPath {
        let zero = |amount: Amount| amount.minor() == 0;
        if !zero(self.compensation) {
            ResolutionPath::RefundWithCompensation
        } else if !zero(self.balance_due) {
            ResolutionPath::BalanceDue
        } else if zero(self.refund) && zero(self.penalty) {
            ResolutionPath::NoMoneyDue
        } else if zero(self.penalty) {
            ResolutionPath::FullRefund
        } else if zero(self.refund) {
            ResolutionPath::NoRefund
        } else {
            ResolutionPath::PartialRefund
        }
    }
}
