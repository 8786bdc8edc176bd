//! The address rules in the form in which the core asks for them when an endpoint is created.
//!
//! `address` holds the rules. The core sees only the result: the address to store, or why it is refused.

use std::sync::Arc;

use bookguard_core::service::AddressRefused;
use bookguard_core::service::EndpointRule;

use super::address::AddressRules;

/// Converts `rules` to the form that `bookguard_core::service::ServiceConfig::endpoint_rule` takes.
///
/// The result refuses with `invalid_url` or `blocked_address`, like [`AddressRules::check_url`].
pub fn endpoint_rule(rules: AddressRules) -> EndpointRule {
    Arc::new(move |text| match rules.check_url(text) {
        Ok(url) => Ok(url.into()),
        Err(refused) => Err(AddressRefused {
            code: refused.code(),
            message: refused.message().to_owned(),
            fix: fix(refused.code()).to_owned(),
        }),
    })
}

fn fix(code: &str) -> &'static str {
    match code {
        "blocked_address" => "Send an https address on the public internet.",
        _ => {
            "Send an absolute address such as https://hooks.example.com/bookguard, without user name and fragment."
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_stored_as_the_parser_writes_it_or_refused_with_code_reason_and_way_out() {
        let rule = endpoint_rule(AddressRules::public());
        assert_eq!(
            rule("HTTPS://Hooks.Example.com:443/a b").unwrap_err().code,
            "invalid_url"
        );
        assert_eq!(
            rule("HTTPS://Hooks.Example.com:443"),
            Ok("https://hooks.example.com/".to_owned())
        );
        let refused = rule("https://127.0.0.1/").unwrap_err();
        assert_eq!(refused.code, "blocked_address");
        assert!(refused.message.contains("127.0.0.1") && refused.fix.contains("public internet"));
        let refused = rule("http://example.com/").unwrap_err();
        assert_eq!(refused.code, "invalid_url");
        assert!(refused.fix.contains("https://"));
        assert!(endpoint_rule(AddressRules::dev())("http://127.0.0.1:9/").is_ok());
    }
}
