//! Settings, their sources and their errors.

use bookguard_core::ledger::cosignature::Cosigner;

use super::*;

fn parse(text: &str) -> Result<Settings, String> {
    let mut faults = Faults::default();
    let read = Settings::parse(text, "", &mut faults);
    faults.none().map(|()| read.unwrap_or_default())
}

#[test]
fn the_stronger_source_wins_and_defaults_fill_the_rest() {
    let flags = Settings {
        listen: Some("0.0.0.0:1".to_owned()),
        ..Settings::default()
    };
    let file = parse("listen = \"0.0.0.0:2\"\ndb = \"a.db\"\nrate_limit_per_second = 0").unwrap();
    let config = flags.merge(file).resolve().unwrap();
    assert_eq!(
        (config.listen.as_str(), config.db),
        ("0.0.0.0:1", "a.db".into())
    );
    assert_eq!(
        (
            config.rate_limit_per_second,
            config.registrations_per_minute
        ),
        (0, 300)
    );
    assert_eq!(config.webhooks, AddressRules::public());
}

#[test]
fn each_default_is_one_that_its_setting_takes() {
    let said = Settings {
        db: Some("a.db".into()),
        ..Settings::default()
    };
    let said = said.resolve().unwrap();
    let config = Config {
        changed: vec!["db"],
        in_force: said.in_force.clone(),
        ..Config::of("a.db")
    };
    assert_eq!(format!("{said:?}"), format!("{config:?}"));
    assert_eq!(Settings::default().resolve().unwrap().db, DB.into());
    assert_eq!(config.listen, "127.0.0.1:8080");
    assert_eq!(config.quota, Quota::GENEROUS);
    assert_eq!(config.rate_limit_burst, 2_000);
    assert!(config.verifies_endpoints && config.library_policies);
    assert_eq!(config.registration, RegistrationMode::Open);
}

#[test]
fn a_variable_that_no_setting_has_is_named_with_the_one_that_was_meant() {
    let settings = Settings::ALL.iter().map(|setting| setting.variable());
    assert_eq!(Settings::ignored(settings.map(Into::into)), [""; 0]);
    #[rustfmt::skip]
    let cases = [
        ("BOOKGUARD_TRUSTED_PROXY", Some("did you mean BOOKGUARD_TRUSTED_PROXIES?")),
        ("BOOKGUARD_URLS", Some("did you mean BOOKGUARD_URL?")),
        ("BOOKGUARD_trusted_proxies", Some("did you mean BOOKGUARD_TRUSTED_PROXIES?")),
        ("BOOKGUARD_SOMETHING_ELSE", Some("`bookguard serve --help` lists all")),
        ("BOOKGUARD_API_KEY", None),
        ("BOOKGUARD_PASSWORD", None),
        ("BOOKGUARD_PORT_8080_TCP_ADDR", None),
        ("BOOKGUARD_SERVICE_HOST", None),
        ("BOOKGUARD_METRICS_PORT", None),
        ("BOOKGUARD_METRICS_SERVICE_HOST", None),
        ("BOOKGUARD_TEST_TOOLS", None),
        ("BOOKGUARDS", None),
        ("PATH", None),
    ];
    for (variable, expected) in cases {
        let expected = expected.map(|way| {
            format!(
                "the environment variable {variable} is ignored, because no setting has it; {way}"
            )
        });
        let ignored = Settings::ignored([variable.into()]);
        assert_eq!(ignored, Vec::from_iter(expected), "{variable}");
    }
}

#[test]
fn a_fault_in_the_file_names_line_and_key() {
    #[rustfmt::skip]
    let cases = [
        ("db = \"x\"\nlisten = 5\n", ", line 2 (listen): it must be a text in quotes"),
        ("db = \"x\"\n\nlisen = \"a\"\n", ", line 3: there is no setting \"lisen\"; did you mean \"listen\"?"),
        ("dev = yes\n", ", line 1 (dev)"),
        ("dev = \"true\"\n", ", line 1 (dev): it must be true or false, without quotes"),
        ("retention_days = -1\n", ", line 1 (retention_days): it must be a whole number from 0 to 36500, such as 90"),
        ("trusted_proxies = \"10.0.0.0/8\"\n", ", line 1 (trusted_proxies): it must be a list of texts in quotes"),
        ("min_free_disk = true\n", ", line 1 (min_free_disk): it must be a number of bytes, or a text"),
        ("colour = 1\n", ", line 1: there is no setting \"colour\"; `bookguard serve --help` lists all"),
        ("dev = true\nwebhook_proxy = 5", ", line 2 (webhook_proxy): webhook_proxy must be"),
    ];
    for (text, expected) in cases {
        let why = parse(text).unwrap_err();
        assert!(why.starts_with(expected), "{text}: {why}");
    }
    let file = Path::new("/nowhere/b.toml");
    let nothing = Settings::default;
    let why = Config::load(Some(file), nothing(), nothing(), Faults::default()).unwrap_err();
    assert!(
        why.starts_with("the configuration file /nowhere/b.toml cannot be read"),
        "{why}"
    );
}

#[test]
fn a_file_names_the_ledger_key_s_file_and_never_holds_the_key() {
    let text = "ledger_key = \"/run/secrets/ledger.key\"";
    let source = parse(text).unwrap().ledger_key.unwrap();
    assert_eq!(source.path(), Some(Path::new("/run/secrets/ledger.key")));
    for value in [
        "\"PRIVATE+KEY+b+0123abcd+ASECRET\"",
        "PRIVATE+KEY+b+0123abcd+ASECRET",
        "[\"PRIVATE+KEY+b+0123abcd+ASECRET\"]",
    ] {
        let why = parse(&format!("\nledger_key = {value}\n")).unwrap_err();
        assert!(why.starts_with(", line 2"), "{why}");
        assert!(why.contains("ledger_key"), "{why}");
        assert!(!why.contains("SECRET") && !why.contains("0123"), "{why}");
    }
}

#[test]
fn the_database_s_address_may_be_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("address");
    let named = || Settings {
        db_file: Some(file.clone()),
        ..Settings::default()
    };
    let db = || Settings {
        db: Some("a.db".into()),
        ..Settings::default()
    };
    let why = named().resolve().unwrap_err();
    assert!(
        why.starts_with("db_file is ") && why.contains("cannot be read"),
        "{why}"
    );
    for (text, wrong) in [
        ("postgres://ann:hunter2@h/b\n", None),
        (" \n", Some("holds no address")),
        ("postgres://ann:hunter2@h/b\nx", Some("more than one line")),
        (
            "postgres://ann:hunter2@h/b?hunter2=x",
            Some("unknown option"),
        ),
    ] {
        std::fs::write(&file, text).unwrap();
        match (named().resolve(), wrong) {
            (Ok(config), None) => assert_eq!(config.db, text.trim().into()),
            (Err(why), Some(words)) => {
                assert!(why.contains(words) && !why.contains("ann:hunter2"), "{why}");
            }
            (found, _) => panic!("{text}: {:?}", found.map(|config| config.db)),
        }
    }
    std::fs::write(&file, "b.db").unwrap();
    // The stronger source wins, whichever of the two it has; one source has one of them.
    assert_eq!(named().merge(db()).resolve().unwrap().db, "b.db".into());
    assert_eq!(db().merge(named()).resolve().unwrap().db, "a.db".into());
    let both = Settings {
        db: Some("a.db".into()),
        ..named()
    };
    assert!(both.resolve().unwrap_err().starts_with("db and db_file"));
}

#[test]
fn a_proxy_s_password_is_never_shown() {
    let settings = parse("webhook_proxy = \"http://user:hunter2@proxy.example:3128\"").unwrap();
    let shown = format!("{settings:?}{:?}", settings.clone().resolve().unwrap());
    assert!(
        shown.contains("http://…@proxy.example:3128") && !shown.contains("hunter2"),
        "{shown}"
    );
    let why = parse("postgres://user:hunter2@db.example/b?sslmode=require\n").unwrap_err();
    assert!(
        why.starts_with(", line 1: ") && !why.contains("hunter2"),
        "{why}"
    );
    for value in [
        "socks5://user:hunter2@proxy.example",
        "http://user:hunter2@",
        "user:hunter2",
    ] {
        let why = parse(&format!("webhook_proxy = \"{value}\"")).unwrap_err();
        assert!(
            why.contains("webhook_proxy") && !why.contains("hunter2"),
            "{why}"
        );
    }
}

#[test]
fn endpoints_are_verified_unless_the_operator_or_a_developer_says_otherwise() {
    for (text, verifies) in [
        ("", true),
        ("dev = true", false),
        ("dev = true\nwebhook_verification = \"first_success\"", true),
        ("webhook_verification = \"off\"", false),
    ] {
        let config = parse(text).unwrap().resolve().unwrap();
        assert_eq!(config.verifies_endpoints, verifies, "{text}");
    }
}

#[test]
fn every_wrong_value_is_refused_with_its_name() {
    #[rustfmt::skip]
    let cases = [
        ("registration = \"opn\"", "registration"),
        ("public_url = \"example.com\"", "public_url"),
        ("public_url = \"ftp://example.com\"", "public_url"),
        ("public_url = \"https://example.com/?a\"", "public_url"),
        ("public_url = \"https://a:s3cret@example.com\"", "public_url"),
        ("operator_url = \"https//a:s3cret@example.com\"", "operator_url"),
        ("db_file = \"postgres://a:s3cret@example.com/b\"", "db_file"),
        ("otlp_endpoint = \"127.0.0.1:4318\"", "otlp_endpoint"),
        ("webhook_allow_subnets = [\"10.0.0.0/33\"]", "webhook_allow_subnets"),
        ("trusted_proxies = [\"10.0.0.0/33\"]", "trusted_proxies"),
        ("proxy_header = \"x-real-ip\"", "proxy_header"),
        ("rate_limit_per_second = 2000000", "rate_limit_per_second"),
        ("retention_days = 36501", "retention_days"),
        ("audit_retention_days = 29", "audit_retention_days"),
        ("audit_retention_days = 3651", "audit_retention_days"),
        ("webhook_verification = \"on\"", "webhook_verification"),
        ("rate_limit_burst = 0", "rate_limit_burst"),
        ("listen = \"8080\"", "listen"),
        ("listen = \":8080\"", "listen"),
        ("listen = \"::1:8080\"", "listen"),
        ("listen = \"localhost:65536\"", "listen"),
        ("metrics_listen = \"localhost\"", "metrics_listen"),
        ("operator_listen = \"[::1]\"", "operator_listen"),
        ("listen = \"h:1\"\nmetrics_listen = \"h:1\"", "metrics_listen and listen are both \"h:1\"; give"),
        (
            "listen = \"0.0.0.0:1\"\noperator_listen = \"127.0.0.1:1\"",
            "operator_listen and listen are \"127.0.0.1:1\" and \"0.0.0.0:1\", which take the same port; give each",
        ),
        ("listen = \"10.0.0.1:1\"\nmetrics_listen = \"[::]:1\"", "metrics_listen and listen"),
        ("metrics_listen = \"[::1]:1\"\noperator_listen = \"[0::1]:1\"", "operator_listen and metrics_listen"),
        ("quota_endpoints = 21", "quota_endpoints"),
        ("quota_bytes = \"1000 TiB\"", "quota_bytes"),
    ];
    for (text, named) in cases {
        let why = parse(text).unwrap().resolve().unwrap_err();
        assert!(why.starts_with(named), "{text}: {why}");
        assert!(!why.contains("s3cret"), "{why}");
        assert!(!why.contains("without a base"), "{why}");
    }
    let bare = parse("public_url = \"bookings.example\"").unwrap();
    assert_eq!(
        bare.resolve().unwrap_err(),
        "public_url is \"bookings.example\", which does not begin with http:// or https://; write it like \
         https://bookings.example.com"
    );
}

#[test]
fn a_number_that_is_none_or_too_large_is_told_from_one_out_of_range() {
    #[rustfmt::skip]
    let cases = [
        ("abc", "--map-interval-seconds is \"abc\"; it must be a whole number, in digits alone"),
        ("-1", "--map-interval-seconds is \"-1\"; it must be a whole number, in digits alone"),
        ("4294967296", "--map-interval-seconds is \"4294967296\", which is too large"),
        ("0", "--map-interval-seconds is 0; it must be at least 1"),
    ];
    for (value, told) in cases {
        let mut faults = Faults::default();
        let read = Settings::read(settings::Source::Flag, &mut faults, |setting| {
            (setting.name == "map_interval_seconds").then(|| value.into())
        });
        let why = read.checked(faults).unwrap_err();
        assert_eq!(why, told);
    }
}

#[test]
fn a_fault_names_the_flag_or_the_variable_that_was_written() {
    for (source, place) in [
        (settings::Source::Flag, "--log-level"),
        (settings::Source::Variable, "BOOKGUARD_LOG_LEVEL"),
    ] {
        let mut faults = Faults::default();
        let read = Settings::read(source, &mut faults, |setting| {
            (setting.name == "log_level").then(|| "loud".into())
        });
        let why = read.checked(faults).unwrap_err();
        assert!(why.starts_with(&format!("{place} is \"loud\"; ")), "{why}");
    }
}

#[test]
fn every_fault_is_told_at_once() {
    let text = "retention_days = 36501\nlisten = \"127.0.0.1:1\"\noperator_listen = \"127.0.0.1:1\"\n\
                log_level = \"loud\"\npublic_url = \"x\"\nwebhook_allow_subnets = [\"x\"]";
    let why = parse(text).unwrap().resolve().unwrap_err();
    assert!(
        why.starts_with("the settings have 5 faults: (1) retention_days is 36501"),
        "{why}"
    );
    for named in [
        "; (2) operator_listen and listen are both \"127.0.0.1:1\"",
        "; (3) public_url",
        "; (4) webhook_allow_subnets",
        "; (5) log_level",
    ] {
        assert!(why.contains(named), "{why}");
    }
}

#[test]
fn the_faults_of_all_sources_are_told_with_those_of_the_whole() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("b.toml");
    let text = "db = \"a.db\"\nlisten = 5\nconsole = 3\nport = \"x\"\npublic_url = \"console\"\ntimestamp_roots = 1\n\
                timestamp_authorities = [\"http://t.example.com\"]\npdf_fonts = [\n  \"a.ttf\",\n  7,\n]";
    std::fs::write(&file, text).unwrap();
    let mut faults = Faults::default();
    let variables = Settings::read(settings::Source::Variable, &mut faults, |setting| {
        ["dev", "library_policies"]
            .contains(&setting.name)
            .then(|| "maybe".into())
    });
    // It would be the address at which the server listens by default, which it does not say.
    let flags = Settings {
        operator_listen: Some("127.0.0.1:8080".to_owned()),
        ..Settings::default()
    };
    let why = Config::load(Some(&file), flags, variables, faults).unwrap_err();
    let why = why.replace(file.to_str().unwrap(), "b.toml");
    assert!(
        why.starts_with("the settings have 8 faults: (1) BOOKGUARD_DEV is"),
        "{why}"
    );
    for told in [
        "; (2) BOOKGUARD_LIBRARY_POLICIES is",
        "; (3) b.toml, line 2 (listen): it must be a text in quotes",
        "; (4) b.toml, line 3 (console): it must be true or false, without quotes",
        "; (5) b.toml, line 4: there is no setting \"port\"; ",
        "; (6) b.toml, line 6 (timestamp_roots): it must be a text in quotes",
        "; (7) b.toml, line 10 (pdf_fonts): it must be a list of texts in quotes",
        // The address is not the setting `console`.
        "; (8) public_url is \"console\"",
    ] {
        assert!(why.contains(told), "{told}: {why}");
    }
}

#[test]
fn a_fault_that_may_come_from_a_rate_that_cannot_be_read_is_not_told() {
    let mut faults = Faults::default();
    let text = "rate_limit_per_second = \"0\"\nrate_limit_burst = 0";
    let read = Settings::parse(text, "b.toml", &mut faults).unwrap();
    let why = read.checked(faults).unwrap_err();
    let told = "b.toml, line 1 (rate_limit_per_second)";
    assert!(why.starts_with(told) && !why.contains("burst"), "{why}");
}

#[test]
fn where_to_listen_is_a_host_and_a_port() {
    for text in ["0.0.0.0:0", "[::1]:8080", "bookings.example.com:443"] {
        let config = parse(&format!("listen = \"{text}\"")).unwrap();
        assert_eq!(config.resolve().unwrap().listen, text);
    }
}

#[test]
fn listeners_may_have_one_port_at_addresses_that_differ() {
    for (place, other) in [
        ("127.0.0.1:1", "127.0.0.2:1"),
        ("127.0.0.1:1", "[::1]:1"),
        ("0.0.0.0:1", "[::1]:1"),
        ("0.0.0.0:1", "127.0.0.1:2"),
        ("0.0.0.0:0", "127.0.0.1:0"),
        ("127.0.0.1:1", "b.example:1"),
    ] {
        let text = format!("listen = \"{place}\"\noperator_listen = \"{other}\"");
        let config = parse(&text).unwrap().resolve().unwrap();
        assert_eq!(config.operator_listen.as_deref(), Some(other));
    }
}

#[test]
fn a_size_is_a_number_or_a_text_in_the_file() {
    for (text, bytes) in [
        ("", bookguard_core::limits::MIN_FREE_DISK),
        ("min_free_disk = 0", 0),
        ("min_free_disk = 4096", 4096),
        ("min_free_disk = \"2 GiB\"", 2 << 30),
    ] {
        let config = parse(text).unwrap().resolve().unwrap();
        assert_eq!(config.min_free_disk, bytes, "{text}");
    }
    for text in ["min_free_disk = -1", "min_free_disk = \"lots\""] {
        let why = parse(text).unwrap_err();
        assert!(why.contains("min_free_disk"), "{why}");
    }
}

#[test]
fn a_quota_that_is_not_said_is_generous() {
    let config = parse("quota_bookings = 0\nquota_bytes = \"1GiB\"");
    let expected = Quota {
        bookings: Some(0),
        bytes: Some(1 << 30),
        ..Quota::GENEROUS
    };
    assert_eq!(config.unwrap().resolve().unwrap().quota, expected);
}

#[test]
fn the_public_address_ends_without_a_slash() {
    for (text, kept) in [
        ("https://example.com/", "https://example.com"),
        ("http://example.com:81/base/", "http://example.com:81/base"),
    ] {
        assert_eq!(base_url_text("public_url", "…", text).as_deref(), Ok(kept));
    }
}

#[test]
fn witnesses_are_named_by_a_trust_policy_and_can_be_asked() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy");
    let key = |n: u8| {
        Cosigner::from_seed("w.example", &[n; 32])
            .unwrap()
            .verifier()
    };
    let line = |n: u8, url: &str| format!("witness w{n} {} {url}\n", key(n));
    let read = |text: &str| {
        std::fs::write(&file, text).unwrap();
        let settings = format!("witnesses = {file:?}");
        parse(&settings).unwrap().resolve()
    };
    let policy = line(1, "https://w.example/base/") + "quorum w1\n";
    let config = read(&policy).unwrap();
    assert_eq!(
        config.witnesses,
        Some(Arc::new(TrustPolicy::parse(&policy).unwrap()))
    );
    let many = (1..=16)
        .map(|n| line(n, "https://w.example"))
        .collect::<String>();
    #[rustfmt::skip]
    let cases = [
        (String::new(), "not a trust policy: a trust policy needs a quorum line"),
        ("witness w1 nothing\n".to_owned(), "not a trust policy: line 1: "),
        (line(1, "") + "quorum w1\n", "names no witness with an address"),
        ("quorum none\n".to_owned(), "names no witness with an address"),
        (many + "quorum none\n", "names 16 witnesses; it may name at most 15"),
        (line(1, "w.example") + "quorum w1\n", "does not begin with http:// or https://"),
        (line(1, "ftp://w.example") + "quorum w1\n", "is not an http or https address"),
        (line(1, "https://u:p@w.example") + "quorum w1\n", "has more than scheme"),
        ("x".repeat(70_000), "at most 65536 bytes"),
    ];
    for (text, words) in cases {
        let why = read(&text).unwrap_err();
        assert!(
            why.starts_with("witnesses is ") && why.contains(words),
            "{why}"
        );
    }
    std::fs::remove_file(&file).unwrap();
    let settings = format!("witnesses = {file:?}");
    let why = parse(&settings).unwrap().resolve().unwrap_err();
    assert!(why.contains("which cannot be read: "), "{why}");
}

#[test]
fn a_token_in_an_authority_s_address_is_never_shown() {
    let text = "timestamp_authorities = [\"http://t.example.com:8080/tsr?token=s3cret\", \"http://t.example.org/tsr\"]";
    let settings = parse(text).unwrap();
    let shown = "[\"http://t.example.com:8080/…\", \"http://t.example.org/tsr\"]";
    assert!(format!("{settings:?}").contains(shown), "{settings:?}");
    let [flag, environment] = ["flag", "environment"].map(|from| (from, Settings::default()));
    let in_force = Settings::in_force([flag, environment, ("file", settings)]);
    let mut in_force = in_force.iter();
    let authorities = in_force.find(|setting| setting.name == "timestamp_authorities");
    assert_eq!(authorities.unwrap().value, shown);
}

#[test]
fn authorities_are_addresses_and_have_roots() {
    let settings = |authorities: &[&str], roots: Option<&str>, seconds: Option<u32>| {
        let authorities = authorities
            .iter()
            .map(|url| AuthorityUrl((*url).to_owned()))
            .collect();
        let settings = Settings {
            timestamp_authorities: Some(authorities),
            timestamp_roots: roots.map(Into::into),
            timestamp_interval_seconds: seconds,
            ..Settings::default()
        };
        settings.resolve()
    };
    let good = ["http://t.example.com/tsr?a=b", "https://t.example.org:8443"];
    let timestamps = settings(&good, Some("roots.pem"), None).unwrap().timestamps;
    let timestamps = timestamps.unwrap();
    assert_eq!(timestamps.interval, Duration::from_secs(600));
    assert_eq!(timestamps.authorities.len(), 2);
    assert_eq!(
        settings(&[], Some("roots.pem"), None).unwrap().timestamps,
        None
    );
    #[rustfmt::skip]
    let cases = [
        (&good[..], None, None, "timestamp_roots is not"),
        (&["t.example.com"], Some("r"), None, "not an http or https address"),
        (&["ftp://t.example.com"], Some("r"), None, "not an http or https address"),
        (&["http://a:s3cret@t.example.com"], Some("r"), None, "without a password"),
        (&["ftp://t.example.com/a?s3cret"], Some("r"), None, "holds \"ftp://t.example.com/…\""),
        (&["http://"], Some("r"), None, "not an address"),
        (&["http://t.example.com"; 9], Some("r"), None, "it may name at most 8"),
        (&good, Some("r"), Some(14), "it must be at least 15"),
        (&good, Some("r"), Some(86_401), "it must be at most 86400"),
    ];
    for (authorities, roots, seconds, says) in cases {
        let why = settings(authorities, roots, seconds).unwrap_err();
        assert!(why.contains(says), "{authorities:?}: {why}");
        assert!(!why.contains("s3cret"), "{why}");
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("roots.pem");
    let config = settings(&good, file.to_str(), None).unwrap();
    let why = config.stamper().unwrap_err();
    assert!(
        why.contains("roots.pem") && why.contains("timestamp_roots"),
        "{why}"
    );
    std::fs::write(&file, "nothing").unwrap();
    let why = config.stamper().unwrap_err();
    assert!(why.contains("there is no certificate in it"), "{why}");
    assert!(Config::of("a.db").stamper().unwrap().is_none());
}
