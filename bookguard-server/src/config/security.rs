//! The contents of `security.txt` (RFC 9116): the settings, and the rules for their values.
//!
//! Invariant: a [`SecurityTxt`] has a contact, and none of its values can start another line of the file.

use url::{ParseError, Url};

use super::settings::Faults;

/// The most values of one field; more would help no reader.
const VALUES: usize = 10;
/// The most characters of one value.
const CHARS: usize = 500;

/// What the operator tells a person who finds a vulnerability.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecurityTxt {
    /// Where to report it, the preferred place first: `mailto:`, `https:` or `tel:` addresses.
    pub contacts: Vec<String>,
    /// The address of the disclosure policy.
    pub policy: Option<String>,
    /// The address of the key for encrypting reports.
    pub encryption: Option<String>,
    /// Languages that reports may be in, as RFC 5646 tags.
    pub languages: Vec<String>,
}

impl SecurityTxt {
    /// Checks the values, and notes a sentence for each setting at fault. Returns `None` if no contact is given.
    pub(super) fn checked(self, faults: &mut Faults) -> Option<Self> {
        let others = [
            ("security_policy", self.policy.is_some()),
            ("security_encryption", self.encryption.is_some()),
            ("security_languages", !self.languages.is_empty()),
        ];
        if self.contacts.is_empty() {
            let (name, _) = others.iter().find(|(_, given)| *given)?;
            let why = format!(
                "{name} is set and security_contacts is not; security.txt needs a contact, such as \
                 security_contacts = [\"mailto:security@example.com\"]"
            );
            return faults.note(&[*name, "security_contacts"], Err(why));
        }
        faults.checked("security_contacts", Some(&self.contacts), |name, all| {
            few(name, all)?;
            (all.iter()).try_for_each(|it| address(name, it, &["mailto", "https", "tel"]))
        });
        faults.checked("security_policy", self.policy.as_deref(), |name, it| {
            address(name, it, &["https"])
        });
        faults.checked(
            "security_encryption",
            self.encryption.as_deref(),
            |name, it| address(name, it, &["https", "dns", "openpgp4fpr"]),
        );
        faults.checked("security_languages", Some(&self.languages), |name, all| {
            few(name, all)?;
            all.iter().try_for_each(|tag| language(tag))
        });
        Some(self)
    }
}

fn few(name: &str, values: &[String]) -> Result<(), String> {
    match values.len() {
        0..=VALUES => Ok(()),
        count => Err(format!(
            "{name} has {count} values; it may have at most {VALUES}"
        )),
    }
}

/// Checks an absolute address with one of these schemes (RFC 9116 sections 2.5.3, 2.5.4 and 2.5.7: web addresses use https).
fn address(name: &str, text: &str, schemes: &[&str]) -> Result<(), String> {
    let wrong = |why: String| {
        let schemes: Vec<String> = schemes.iter().map(|scheme| format!("{scheme}:")).collect();
        Err(format!(
            "{name} holds \"{text}\", {why}; write an address that begins with {}",
            schemes.join(" or ")
        ))
    };
    if text.len() > CHARS || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return wrong(format!(
            "which is longer than {CHARS} characters, or has characters other than visible ASCII"
        ));
    }
    match Url::parse(text) {
        Ok(url) if !schemes.contains(&url.scheme()) => {
            wrong(format!("which begins with {}:", url.scheme()))
        }
        Ok(url) if url.scheme() == "mailto" && !url.path().contains('@') => {
            wrong("which names no mailbox".to_owned())
        }
        Ok(url) if url.path().is_empty() && !url.has_host() => {
            wrong("which names nothing".to_owned())
        }
        Ok(_) => Ok(()),
        Err(_) if text.contains('@') => wrong(format!(
            "which is not an address (did you mean \"mailto:{text}\"?)"
        )),
        Err(ParseError::RelativeUrlWithoutBase) => wrong("which is not an address".to_owned()),
        Err(e) => wrong(format!("which is not an address ({e})")),
    }
}

/// Checks the syntax of a language tag (RFC 5646 section 2.1), not whether the language exists.
fn language(tag: &str) -> Result<(), String> {
    let mut parts = tag.split('-');
    let first = parts.next().unwrap_or_default();
    let sane = (2..=8).contains(&first.len())
        && first.bytes().all(|byte| byte.is_ascii_alphabetic())
        && parts.all(|part| {
            (1..=8).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
        });
    if sane {
        Ok(())
    } else {
        Err(format!(
            "security_languages holds \"{tag}\", which is not a language tag; write tags like \"en\" or \"de-CH\""
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(contacts: &[&str]) -> SecurityTxt {
        SecurityTxt {
            contacts: contacts.iter().map(|text| (*text).to_owned()).collect(),
            policy: None,
            encryption: None,
            languages: Vec::new(),
        }
    }

    fn checked(said: SecurityTxt) -> Result<Option<SecurityTxt>, String> {
        let mut faults = Faults::default();
        let checked = said.checked(&mut faults);
        faults.none().map(|()| checked)
    }

    #[test]
    fn nothing_said_is_nothing_and_a_contact_is_enough() {
        assert_eq!(checked(given(&[])), Ok(None));
        let said = given(&[
            "mailto:security@b.example",
            "https://b.example/r",
            "tel:+1-201-555-0123",
        ]);
        assert_eq!(checked(said).unwrap().unwrap().contacts.len(), 3);
    }

    #[test]
    fn what_would_make_no_valid_file_is_refused_by_name() {
        for contact in [
            "security@b.example",
            "http://b.example/report",
            "javascript:alert(1)",
            "mailto:",
            "mailto:nobody",
            "tel:",
            "",
            "https://b.example/\nExpires: 2099-01-01T00:00:00Z",
            "https://b.example/ b",
            "https://b\u{fc}cher.example/",
        ] {
            let why = checked(given(&[contact])).unwrap_err();
            assert!(
                why.starts_with("security_contacts holds"),
                "{contact:?}: {why}"
            );
        }
        let why = checked(given(&["security@b.example"])).unwrap_err();
        assert!(
            why.contains("did you mean \"mailto:security@b.example\"?"),
            "{why}"
        );
        let many: Vec<String> = (0..11).map(|n| format!("mailto:{n}@b.example")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(checked(given(&many)).unwrap_err().contains("at most 10"));
        #[rustfmt::skip]
        let cases = [
            (SecurityTxt { policy: Some("http://b.example".to_owned()), ..given(&["tel:+1"]) }, "security_policy"),
            (SecurityTxt { encryption: Some("ftp://b.example".to_owned()), ..given(&["tel:+1"]) }, "security_encryption"),
            (SecurityTxt { languages: vec!["en".to_owned(), "english!".to_owned()],..given(&["tel:+1"]) }, "security_languages"),
            (
                SecurityTxt {
                    policy: Some("https://b.example".to_owned()),
                    ..given(&[])
                },
                "security_policy is set and security_contacts is not",
            ),
            (SecurityTxt { languages: vec!["en".to_owned()],..given(&[]) }, "security_languages is set and"),
        ];
        for (adjust, named) in cases {
            let why = checked(adjust).unwrap_err();
            assert!(why.starts_with(named), "{why}");
        }
    }
}
