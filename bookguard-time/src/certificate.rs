//! What a certificate says. Its signature and its place in a path are webpki's to judge.

use crate::der::{self, Element, Elements};
use crate::{Error, oid};

const DIGITAL_SIGNATURE: u8 = 0x80;
const NON_REPUDIATION: u8 = 0x40;
const CERTIFICATE_SIGNING: u8 = 0x04;

/// The fields of a certificate that matter here.
#[derive(Debug, Clone)]
pub struct Certificate<'a> {
    pub der: &'a [u8],
    pub serial: &'a [u8],
    /// The whole name, with its tag.
    pub issuer: &'a [u8],
    subject: &'a [u8],
    /// Milliseconds since 1970.
    pub not_before: i64,
    pub not_after: i64,
    extensions: Vec<Extension<'a>>,
}

#[derive(Debug, Clone)]
struct Extension<'a> {
    id: &'a [u8],
    critical: bool,
    value: &'a [u8],
}

impl<'a> Certificate<'a> {
    /// Reads a certificate.
    ///
    /// # Errors
    /// [`Error::Malformed`] if it is not a certificate of version 3, or has an extension twice.
    pub fn read(der: &'a [u8]) -> Result<Self, Error> {
        let mut outer = Elements::new(der, "a certificate");
        let mut fields = outer.inside(der::SEQUENCE)?;
        outer.end()?;
        let mut tbs = fields.inside(der::SEQUENCE)?;
        fields.element(der::SEQUENCE)?;
        fields.element(der::BIT_STRING)?;
        fields.end()?;
        let mut version = tbs.inside(der::context(0))?;
        if version.number()? != 2 {
            return Err(tbs.malformed());
        }
        let serial = tbs.integer()?;
        tbs.element(der::SEQUENCE)?;
        let issuer = tbs.element(der::SEQUENCE)?.raw;
        let mut validity = tbs.inside(der::SEQUENCE)?;
        let (not_before, not_after) = (time(&mut validity)?, time(&mut validity)?);
        validity.end()?;
        let subject = tbs.element(der::SEQUENCE)?.value;
        tbs.element(der::SEQUENCE)?;
        tbs.optional(der::context_value(1))?;
        tbs.optional(der::context_value(2))?;
        let extensions = match tbs.optional_inside(der::context(3))? {
            None => Vec::new(),
            Some(mut explicit) => {
                let list = explicit.inside(der::SEQUENCE)?;
                explicit.end()?;
                extensions(list)?
            }
        };
        tbs.end()?;
        Ok(Self {
            der,
            serial,
            issuer,
            subject,
            not_before,
            not_after,
            extensions,
        })
    }

    fn extension(&self, id: &[u8]) -> Option<&Extension<'a>> {
        self.extensions.iter().find(|extension| extension.id == id)
    }

    fn inside(&self, id: &[u8]) -> Option<Elements<'a>> {
        self.extension(id)
            .map(|extension| Elements::new(extension.value, "an extension of a certificate"))
    }

    /// The identifier of its key, if it has one.
    ///
    /// # Errors
    /// [`Error::Malformed`] if the identifier cannot be read.
    pub fn key_id(&self) -> Result<Option<&'a [u8]>, Error> {
        self.value_of(oid::SUBJECT_KEY_ID, der::OCTET_STRING)
    }

    /// What an extension holds that is one element with this tag.
    fn value_of(&self, id: &[u8], tag: u8) -> Result<Option<&'a [u8]>, Error> {
        let Some(mut extension) = self.inside(id) else {
            return Ok(None);
        };
        let value = extension.element(tag)?.value;
        extension.end()?;
        Ok(Some(value))
    }

    /// Whether it is an authority for certificates, and how many authorities may stand below it.
    ///
    /// # Errors
    /// [`Error::Malformed`] if what it says of that cannot be read.
    pub fn authority(&self) -> Result<(bool, Option<u64>), Error> {
        let Some(mut value) = self.inside(oid::BASIC_CONSTRAINTS) else {
            return Ok((false, None));
        };
        let mut fields = value.inside(der::SEQUENCE)?;
        value.end()?;
        let authority = fields.flag()?;
        let length = if fields.is_empty() {
            None
        } else {
            Some(fields.number()?)
        };
        fields.end()?;
        Ok((authority, length))
    }

    /// RFC 3161 section 2.3: the key signs time-stamps and nothing else, and every program must know that.
    ///
    /// # Errors
    /// [`Error::Purpose`] if that is not so; [`Error::Malformed`] if its purposes cannot be read.
    pub fn signs_time_stamps_only(&self) -> Result<(), Error> {
        let Some(extension) = self.extension(oid::EXTENDED_KEY_USAGE) else {
            return Err(Error::Purpose(
                "the signer's certificate does not name its purpose",
            ));
        };
        let mut value = Elements::new(extension.value, "the purposes of a certificate");
        let mut purposes = value.inside(der::SEQUENCE)?;
        value.end()?;
        let purpose = purposes.object()?;
        if purpose != oid::TIME_STAMPING {
            return Err(Error::Purpose(
                "the signer's certificate is not for time-stamps",
            ));
        }
        if !purposes.is_empty() {
            return Err(Error::Purpose(
                "the signer's certificate is not for time-stamps alone",
            ));
        }
        if !extension.critical {
            return Err(Error::Purpose(
                "the purpose of the signer's certificate is not marked critical",
            ));
        }
        self.signs_only()
    }

    /// The uses of its key, if it limits them. The first byte counts the unused bits of the last.
    fn key_usage(&self) -> Result<Option<&'a [u8]>, Error> {
        self.value_of(oid::KEY_USAGE, der::BIT_STRING)
    }

    /// Whether its key may sign certificates: if it limits the uses of its key, this must be one of them (RFC 5280 section
    /// 4.2.1.3).
    ///
    /// # Errors
    /// [`Error::Malformed`] if the uses of its key cannot be read.
    pub fn signs_certificates(&self) -> Result<bool, Error> {
        Ok(match self.key_usage()? {
            None => true,
            Some([0..=7, bits, ..]) => bits & CERTIFICATE_SIGNING != 0,
            Some(_) => false,
        })
    }

    fn signs_only(&self) -> Result<(), Error> {
        let Some(bits) = self.key_usage()? else {
            return Ok(());
        };
        match bits {
            [0..=7, bits] if *bits != 0 && bits & !(DIGITAL_SIGNATURE | NON_REPUDIATION) == 0 => {
                Ok(())
            }
            _ => Err(Error::Purpose(
                "the key of the signer's certificate is for something else than signatures",
            )),
        }
    }

    /// The subject's name for people: its common name, or its organization.
    ///
    /// # Errors
    /// [`Error::Malformed`] if the name cannot be read.
    pub fn name(&self) -> Result<String, Error> {
        let mut parts = Elements::new(self.subject, "the name in a certificate");
        let (mut common, mut organization) = (None, None);
        while !parts.is_empty() {
            let mut set = parts.inside(der::SET)?;
            while !set.is_empty() {
                let mut pair = set.inside(der::SEQUENCE)?;
                let id = pair.object()?;
                let value = pair.any()?;
                pair.end()?;
                match id {
                    oid::COMMON_NAME => common = text(value),
                    oid::ORGANIZATION => organization = text(value),
                    _ => {}
                }
            }
        }
        Ok(common.or(organization).unwrap_or_default())
    }
}

fn text(element: Element<'_>) -> Option<String> {
    let readable = matches!(
        element.tag,
        der::UTF8_STRING | der::PRINTABLE_STRING | der::IA5_STRING
    );
    let text = std::str::from_utf8(element.value)
        .ok()
        .filter(|_| readable)?;
    Some(
        text.chars()
            .filter(|character| !character.is_control())
            .take(100)
            .collect(),
    )
}

fn time(validity: &mut Elements<'_>) -> Result<i64, Error> {
    let element = validity.any()?;
    let time = match element.tag {
        der::UTC_TIME => der::utc_time(element.value),
        der::GENERALIZED_TIME => der::generalized_time(element.value),
        _ => None,
    };
    time.ok_or_else(|| validity.malformed())
}

fn extensions(mut list: Elements<'_>) -> Result<Vec<Extension<'_>>, Error> {
    let mut all: Vec<Extension<'_>> = Vec::new();
    while !list.is_empty() {
        let mut fields = list.inside(der::SEQUENCE)?;
        let id = fields.object()?;
        let critical = fields.flag()?;
        let value = fields.element(der::OCTET_STRING)?.value;
        fields.end()?;
        if all.iter().any(|other| other.id == id) {
            return Err(list.malformed());
        }
        all.push(Extension {
            id,
            critical,
            value,
        });
    }
    Ok(all)
}
