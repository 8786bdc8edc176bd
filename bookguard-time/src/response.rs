//! The response around a token: whether the authority granted it.

use crate::Error;
use crate::der::{self, Elements};

const GRANTED: u64 = 0;
const GRANTED_WITH_MODS: u64 = 1;
/// Of an authority's words.
const MAX_TEXT: usize = 200;

/// The token's bytes.
///
/// # Errors
/// [`Error::Malformed`]; [`Error::Refused`] if the authority granted none.
pub fn token(response: &[u8]) -> Result<&[u8], Error> {
    let mut outer = Elements::new(response, "the response");
    let mut fields = outer.inside(der::SEQUENCE)?;
    outer.end()?;
    let mut status = fields.inside(der::SEQUENCE)?;
    let number = status.number()?;
    let text = status
        .optional_inside(der::SEQUENCE)?
        .map(words)
        .transpose()?
        .unwrap_or_default();
    status.optional(der::BIT_STRING)?;
    status.end()?;
    if number != GRANTED && number != GRANTED_WITH_MODS {
        return Err(Error::Refused {
            status: number,
            text,
        });
    }
    let token = fields.element(der::SEQUENCE)?;
    fields.end()?;
    Ok(token.raw)
}

fn words(mut texts: Elements<'_>) -> Result<String, Error> {
    let mut all = String::new();
    while !texts.is_empty() {
        let text = String::from_utf8_lossy(texts.element(der::UTF8_STRING)?.value);
        all.extend(
            text.chars()
                .filter(|character| !character.is_control())
                .take(MAX_TEXT.saturating_sub(all.len())),
        );
    }
    Ok(all)
}
