//! Money: whole minor units of an ISO 4217 currency. Never read as a float, never rounded.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::limits::AMOUNT_MINOR_UNITS;

/// An ISO 4217 currency that has a minor unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Currency(iso_currency::Currency);

impl Currency {
    /// US dollars, the default of the specification.
    pub const USD: Self = Self(iso_currency::Currency::USD);

    /// Reads the three-letter code, upper case.
    ///
    /// # Errors
    /// `currency_unknown`, `currency_has_no_minor_unit` (metals, test codes and the like).
    pub fn parse(code: &str) -> Result<Self, AmountError> {
        let currency =
            iso_currency::Currency::from_code(code).ok_or(AmountError::CurrencyUnknown)?;
        currency
            .exponent()
            .ok_or(AmountError::CurrencyHasNoMinorUnit)?;
        Ok(Self(currency))
    }

    /// The three-letter code.
    pub fn code(self) -> &'static str {
        self.0.code()
    }

    /// Decimals of the currency: 2 for USD, 0 for JPY, 3 for KWD.
    pub fn decimals(self) -> u32 {
        u32::from(self.0.exponent().unwrap_or(0))
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

impl Serialize for Currency {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.code())
    }
}

impl<'de> Deserialize<'de> for Currency {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let code = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        Self::parse(&code)
            .map_err(|e| serde::de::Error::custom(format_args!("a currency {}", e.rule())))
    }
}

/// Why a number is not an amount of a currency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum AmountError {
    /// Not a number in JSON's notation.
    NotANumber,
    /// Below zero.
    Negative,
    /// More decimals than the currency has.
    Precision,
    /// More than 15 significant digits of minor units.
    TooLarge,
    /// Not an ISO 4217 code.
    CurrencyUnknown,
    /// A code without a minor unit, such as XAU.
    CurrencyHasNoMinorUnit,
}

impl AmountError {
    /// The stable code.
    pub fn code(self) -> &'static str {
        match self {
            Self::NotANumber => "amount_not_a_number",
            Self::Negative => "amount_negative",
            Self::Precision => "amount_precision",
            Self::TooLarge => "amount_too_large",
            Self::CurrencyUnknown => "currency_unknown",
            Self::CurrencyHasNoMinorUnit => "currency_has_no_minor_unit",
        }
    }

    /// What to send instead, for an amount of this currency.
    #[cfg(feature = "store")]
    pub(crate) fn fix(self, currency: Currency) -> String {
        let minor = AMOUNT_MINOR_UNITS;
        match self {
            Self::TooLarge => {
                let most = Amount { minor, currency }.decimal();
                format!("Send at most {most} ({currency}).")
            }
            _ => {
                let decimals = match currency.decimals() {
                    0 => "no decimals".to_owned(),
                    most => format!("at most {most} decimals"),
                };
                format!("Send a number from 0 with {decimals} ({currency}).")
            }
        }
    }

    /// The rule that is broken, as the rest of a sentence about the text.
    pub(crate) fn rule(self) -> &'static str {
        match self {
            Self::NotANumber => "is not a decimal number",
            Self::Negative => "is negative; amounts are zero or more",
            Self::Precision => "has more decimals than its currency; amounts are never rounded",
            Self::TooLarge => "is too large; an amount has at most 999,999,999,999,999 minor units",
            Self::CurrencyUnknown => "is not an ISO 4217 currency code (three capital letters)",
            Self::CurrencyHasNoMinorUnit => {
                "is a code without a minor unit, in which nothing can be priced"
            }
        }
    }
}

impl fmt::Display for AmountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let subject = match self {
            Self::CurrencyUnknown | Self::CurrencyHasNoMinorUnit => "the currency",
            Self::NotANumber | Self::Negative | Self::Precision | Self::TooLarge => "the amount",
        };
        write!(f, "{subject} {}", self.rule())
    }
}

impl std::error::Error for AmountError {}

/// An amount of money: 0 to 999,999,999,999,999 minor units of its currency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Amount {
    minor: i64,
    currency: Currency,
}

impl Amount {
    /// Makes an amount of minor units.
    ///
    /// # Errors
    /// `amount_negative`, `amount_too_large`.
    pub fn from_minor(minor: i64, currency: Currency) -> Result<Self, AmountError> {
        match minor {
            ..0 => Err(AmountError::Negative),
            0..=AMOUNT_MINOR_UNITS => Ok(Self { minor, currency }),
            _ => Err(AmountError::TooLarge),
        }
    }

    /// What is left of this amount without another of the same currency; zero if that one is larger.
    pub(crate) fn less(self, other: Self) -> Self {
        let minor = self.minor.saturating_sub(other.minor).max(0);
        Self { minor, ..self }
    }

    /// Reads a decimal as JSON writes numbers (`12`, `12.50`, `1e3`), exactly. Leading zeros are read too; trailing ones do not count
    /// as precision.
    ///
    /// # Errors
    /// `amount_not_a_number`, `amount_negative`, `amount_precision`, `amount_too_large`.
    pub fn parse(text: &str, currency: Currency) -> Result<Self, AmountError> {
        let (negative, unsigned) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
        let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
        let exponent_digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        if !digits(whole) || !digits(fraction) || !digits(exponent_digits) {
            return Err(AmountError::NotANumber);
        }
        let fraction = fraction.trim_end_matches('0');
        let significant: String = [whole, fraction].concat();
        let trimmed = significant.trim_start_matches('0').trim_end_matches('0');
        if trimmed.is_empty() {
            return Ok(Self { minor: 0, currency });
        }
        if negative {
            return Err(AmountError::Negative);
        }
        // minor = trimmed × 10^shift; an exponent too long for i64 is far outside either bound.
        let tail_zeros = significant.len() - significant.trim_end_matches('0').len();
        let exponent: i64 = exponent.parse().unwrap_or(if exponent.starts_with('-') {
            -1_000_000
        } else {
            1_000_000
        });
        let exponent = exponent.clamp(-1_000_000, 1_000_000);
        let shift =
            exponent + i64::from(currency.decimals()) + tail_zeros as i64 - fraction.len() as i64;
        if shift < 0 {
            return Err(AmountError::Precision);
        }
        if trimmed.len() as i64 + shift > 15 {
            return Err(AmountError::TooLarge);
        }
        let minor =
            trimmed.parse::<i64>().map_err(|_| AmountError::TooLarge)? * 10_i64.pow(shift as u32);
        Self::from_minor(minor, currency)
    }

    /// Minor units (cents for USD).
    pub fn minor(self) -> i64 {
        self.minor
    }

    /// The currency.
    pub fn currency(self) -> Currency {
        self.currency
    }

    /// The amount with all decimals of its currency: `617.25`, `33333` for JPY.
    pub fn decimal(self) -> String {
        let decimals = self.currency.decimals();
        if decimals == 0 {
            return self.minor.to_string();
        }
        let unit = 10_i64.pow(decimals);
        format!(
            "{}.{:0width$}",
            self.minor / unit,
            self.minor % unit,
            width = decimals as usize
        )
    }

    /// The amount as a JSON number: without a fraction if it is whole, otherwise in the shortest form, which is also how
    /// RFC 8785 writes it. Exact, because 15 significant digits survive a double.
    pub fn json_number(self) -> Decimal {
        let unit = 10_i64.pow(self.currency.decimals());
        if self.minor % unit == 0 {
            return Decimal((self.minor / unit).into());
        }
        let double = self.minor as f64 / unit as f64;
        Decimal(serde_json::Number::from_f64(double).unwrap_or_else(|| 0.into()))
    }
}

/// A decimal number as it appears in JSON: from 0, with at most four places, as many as any currency has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Decimal(serde_json::Number);

impl<'de> Deserialize<'de> for Decimal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = serde_json::Number::deserialize(deserializer)?;
        let text = number.to_string();
        let places = text.split_once('.').map_or(0, |(_, places)| places.len());
        match text.starts_with('-') || text.contains('e') || places > 4 {
            true => Err(serde::de::Error::custom("is not an amount of any currency")),
            false => Ok(Self(number)),
        }
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The JSON form of an amount: `{"amount":"617.25","minorUnits":61725,"currency":"USD"}`.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AmountJson<'a> {
    amount: std::borrow::Cow<'a, str>,
    minor_units: i64,
    currency: Currency,
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        AmountJson {
            amount: self.decimal().into(),
            minor_units: self.minor,
            currency: self.currency,
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Amount {
    /// Refuses an object whose text and minor units are different amounts.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = AmountJson::deserialize(deserializer)?;
        let amount = Self::from_minor(json.minor_units, json.currency)
            .map_err(|e| serde::de::Error::custom(format_args!("an amount {}", e.rule())))?;
        if amount.decimal() != json.amount {
            return Err(serde::de::Error::custom("amount and minorUnits differ"));
        }
        Ok(amount)
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.currency, self.decimal())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn minor(text: &str, code: &str) -> Result<i64, AmountError> {
        Amount::parse(text, Currency::parse(code).unwrap()).map(Amount::minor)
    }

    #[test]
    fn decimals_are_read_exactly() {
        for (text, code, expected) in [
            ("1000", "USD", Ok(100_000)),
            ("1.15", "USD", Ok(115)),
            ("1e3", "USD", Ok(100_000)),
            ("1.5E+2", "USD", Ok(15_000)),
            ("12500e-2", "USD", Ok(12_500)),
            ("100.00", "JPY", Ok(100)),
            ("007", "USD", Ok(700)),
            ("0", "USD", Ok(0)),
            ("-0.00", "USD", Ok(0)),
            ("0e99999999999999999999", "USD", Ok(0)),
            ("1234.567", "BHD", Ok(1_234_567)),
            ("9999999999999.99", "USD", Ok(999_999_999_999_999)),
            ("10000000000000.00", "USD", Err(AmountError::TooLarge)),
            ("1e400", "USD", Err(AmountError::TooLarge)),
            ("1e99999999999999999999", "USD", Err(AmountError::TooLarge)),
            (
                "1e-99999999999999999999",
                "USD",
                Err(AmountError::Precision),
            ),
            ("1.2345", "KWD", Err(AmountError::Precision)),
            ("0.001", "USD", Err(AmountError::Precision)),
            ("-1", "USD", Err(AmountError::Negative)),
            ("NaN", "USD", Err(AmountError::NotANumber)),
            ("1.", "USD", Err(AmountError::NotANumber)),
            ("", "USD", Err(AmountError::NotANumber)),
            ("1e", "USD", Err(AmountError::NotANumber)),
        ] {
            assert_eq!(minor(text, code), expected, "{text} {code}");
        }
    }

    #[test]
    fn codes_without_a_minor_unit_are_refused() {
        assert_eq!(
            Currency::parse("XAU"),
            Err(AmountError::CurrencyHasNoMinorUnit)
        );
        assert_eq!(Currency::parse("usd"), Err(AmountError::CurrencyUnknown));
        assert_eq!(Currency::parse("ZZZ"), Err(AmountError::CurrencyUnknown));
        assert_eq!(Currency::parse("KWD").unwrap().decimals(), 3);
        assert_eq!(Currency::parse("JPY").unwrap().decimals(), 0);
    }

    #[test]
    fn an_error_is_a_sentence_about_the_amount_or_its_currency() {
        for (refused, says) in [
            (
                minor("ten", "USD").unwrap_err(),
                "the amount is not a decimal number",
            ),
            (
                Currency::parse("usd").unwrap_err(),
                "the currency is not an ISO 4217 currency code (three capital letters)",
            ),
        ] {
            assert_eq!(refused.to_string(), says);
        }
    }

    #[test]
    fn an_amount_is_an_object_that_agrees_with_itself() {
        let amount = Amount::parse("617.25", Currency::USD).unwrap();
        let json = r#"{"amount":"617.25","minorUnits":61725,"currency":"USD"}"#;
        assert_eq!(serde_json::to_string(&amount).unwrap(), json);
        assert_eq!(serde_json::from_str::<Amount>(json).unwrap(), amount);
        for faulty in [
            r#"{"amount":"617.25","minorUnits":61726,"currency":"USD"}"#,
            r#"{"amount":"-0.01","minorUnits":-1,"currency":"USD"}"#,
            r#"{"amount":"617.25","minorUnits":61725,"currency":"JPY"}"#,
        ] {
            assert!(serde_json::from_str::<Amount>(faulty).is_err(), "{faulty}");
        }
    }

    proptest! {
        #[test]
        fn every_amount_survives_its_json_number(minor in 0..=AMOUNT_MINOR_UNITS, code in prop::sample::select(vec!["USD", "JPY", "KWD", "CLF"])) {
            let amount = Amount::from_minor(minor, Currency::parse(code).unwrap()).unwrap();
            let text = amount.json_number().to_string();
            prop_assert_eq!(Amount::parse(&text, amount.currency()), Ok(amount));
            prop_assert_eq!(Amount::parse(&amount.decimal(), amount.currency()), Ok(amount));
        }

        #[test]
        fn no_text_makes_the_reader_panic(text in "\\PC{0,40}") {
            let _ = Amount::parse(&text, Currency::USD);
        }
    }
}
