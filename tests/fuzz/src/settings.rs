//! The configuration file.

use std::ffi::OsString;

use crate::config;
use crate::config::settings::{Faults, Setting, Settings, Source};

/// Part of addresses that are settings: who reads the log or the help must not learn it.
const PASSWORD: &str = "kH4-9w_Zq.7tR";

/// What is read has every setting, and its text as a variable means the same. Whatever else stands in a file, no password is shown.
pub fn read(bytes: &[u8]) {
    let Some(text) = crate::text(bytes).filter(|text| !text.contains(PASSWORD)) else {
        return;
    };
    if let Ok(settings) = config::parse(text) {
        for (setting, said) in Settings::ALL.iter().zip(shown(&settings)) {
            if said.from == "file" && !setting.is_list && !hides(setting.name) {
                let value = OsString::from(&said.value);
                let only = |one: &Setting| (one.name == setting.name).then(|| value.clone());
                let mut faults = Faults::default();
                let read = Settings::read(Source::Variable, &mut faults, only);
                (faults.none()).expect("a value that is shown can be written");
                let again = shown(&read)
                    .into_iter()
                    .find(|one| one.name == setting.name);
                assert_eq!(
                    again.map(|again| again.value),
                    Some(said.value),
                    "{}",
                    setting.name
                );
            }
        }
    }
    for secret in [
        format!("webhook_proxy = \"http://user:{PASSWORD}@proxy.example:3128\""),
        format!("db = \"postgres://user:{PASSWORD}@db.example/bookguard?sslmode=require\""),
        format!("postgres://user:{PASSWORD}@db.example/bookguard?sslmode=require"),
        format!("timestamp_authorities = [\"http://t.example/tsr?token={PASSWORD}\"]"),
    ] {
        let with = format!("{text}\n{secret}\n");
        let said = match config::parse(&with) {
            Ok(settings) => format!("{settings:?}{:?}", shown(&settings)),
            Err(why) => {
                assert!(!why.is_empty());
                why
            }
        };
        assert!(!said.contains(PASSWORD), "{said}");
    }
}

fn shown(settings: &Settings) -> Vec<bookguard_core::service::SettingInForce> {
    let nothing = Settings::default;
    Settings::in_force([
        ("flag", nothing()),
        ("environment", nothing()),
        ("file", settings.clone()),
    ])
}

/// Whether the text that is shown is not what was written: an address without its password, a key by the name of its file.
fn hides(name: &str) -> bool {
    ["db", "ledger_key", "webhook_proxy"].contains(&name)
}
