use bookguard_core::features::api_keys::rotation::RotateApiKey;
use bookguard_core::features::bookings::{CreateBooking, GetBooking, ListBookings};
use bookguard_core::features::endpoints::update::UpdateEndpoint;
use bookguard_core::features::erasures::EraseValues;
use bookguard_core::features::partners::UpdatePartner;
use bookguard_core::operation::Operation as _;

use super::*;

fn typed(route: &Route, line: &[&str]) -> Result<Request, Failure> {
    let mut flags = Flags::of(route);
    if route.id == UpdateEndpoint::ROUTE.id {
        flags.opposite("ownSecret", "partners-secret", "The partner's");
    }
    let shape = flags.shape(clap::Command::new("x"));
    let words = std::iter::once(&"x").chain(line);
    flags.request(&shape.try_get_matches_from(words).unwrap())
}

fn body(route: &Route, line: &[&str]) -> Result<String, Failure> {
    typed(route, line).map(|request| String::from_utf8(request.body).unwrap())
}

fn booking(more: &[&str]) -> Result<String, Failure> {
    let line = [
        "--talent-id=t",
        "--talent-name=T \"quoted\"",
        "--organizer-id=o",
        "--organizer-name=O",
        "--event-type=concert",
        "--event-date=2027-06-01T20:00:00Z",
    ];
    body(&CreateBooking::ROUTE, &[&line[..], more].concat())
}

#[test]
fn an_amount_goes_out_as_it_was_typed() {
    for value in [
        "1200",
        "12.50",
        "1e2",
        "9999999999999.99",
        "-1",
        "0.10",
        "1e400",
    ] {
        let body = booking(&["--booking-value", value]).unwrap();
        let expected = format!(
            r#"{{"talent":{{"id":"t","name":"T \"quoted\""}},"organizer":{{"id":"o","name":"O"}},"eventType":"concert","eventDate":"2027-06-01T20:00:00Z","bookingValue":{value}}}"#
        );
        assert_eq!(body, expected);
    }
}

#[test]
fn what_is_no_number_is_refused_before_it_is_sent() {
    #[rustfmt::skip]
    let cases = [
        "", "12,50", ".5", "5.", "$5", "\"5\"", "{}", "1 2", "1,\"x\":2", "NaN", "+5", "05",
    ];
    for value in cases {
        let failure = booking(&[&format!("--booking-value={value}")]).unwrap_err();
        assert!(
            matches!(&failure, Failure::Usage(why) if why.starts_with("--booking-value is")),
            "{value}: {failure:?}"
        );
    }
}

#[test]
fn pairs_are_split_at_the_first_equals_sign_and_named_once() {
    let good = ["--booking-value=1", "--metadata=a=b=c", "--metadata=d="];
    let good = booking(&good).unwrap();
    assert!(good.contains(r#""metadata":{"a":"b=c","d":""}"#), "{good}");
    for bad in [&["a"][..], &["a=1", "a=2"]] {
        let pairs = bad.iter().map(|pair| format!("--metadata={pair}"));
        let pairs: Vec<String> = pairs.collect();
        let line: Vec<&str> = pairs.iter().map(String::as_str).collect();
        let failure = booking(&[&["--booking-value=1"][..], &line].concat());
        assert!(
            matches!(&failure, Err(Failure::Usage(why)) if why.contains("--metadata")),
            "{bad:?}"
        );
    }
}

#[test]
fn what_is_taken_away_is_null() {
    let route = &UpdatePartner::ROUTE;
    let line = [
        "--default-policies=concert=house",
        "--no-default-policies=dj",
        "--no-time-zone",
    ];
    assert_eq!(
        body(route, &line).unwrap(),
        r#"{"defaultPolicies":{"concert":"house","dj":null},"timeZone":null}"#
    );
    let both = ["--default-policies=dj=house", "--no-default-policies=dj"];
    assert!(matches!(body(route, &both), Err(Failure::Usage(_))));
    let line = [
        "end_1",
        "--events=a,b",
        "--events=c",
        "--no-description",
        "--rate-limit-per-second=5",
        "--partners-secret",
    ];
    let request = typed(&UpdateEndpoint::ROUTE, &line).unwrap();
    assert_eq!(request.path, ["end_1"]);
    assert_eq!(
        String::from_utf8(request.body).unwrap(),
        r#"{"events":["a","b","c"],"description":null,"rateLimitPerSecond":5,"ownSecret":false}"#
    );
}

/// The help of a flag, or of a positional argument.
fn help_of(flags: &Flags, name: &str) -> String {
    let command = flags.shape(clap::Command::new("x"));
    let mut args = command.get_arguments();
    let arg = args.find(|arg| arg.get_id() == name).unwrap();
    arg.get_help().unwrap().to_string()
}

#[test]
fn help_says_what_is_removed_and_whose_id_is_meant() {
    let partner = Flags::of(&UpdatePartner::ROUTE);
    assert_eq!(help_of(&partner, "no-time-zone"), "Remove the time zone");
    let endpoint = Flags::of(&UpdateEndpoint::ROUTE);
    assert_eq!(
        help_of(&endpoint, "no-description"),
        "Remove the description"
    );
    assert_eq!(help_of(&endpoint, "no-rate-limit-per-second"), "No limit");
    let key = Flags::of(&RotateApiKey::ROUTE);
    assert_eq!(help_of(&key, "api-key-id"), "The API key's id");
}

#[test]
fn path_and_query_are_the_route_s() {
    let request = typed(&GetBooking::ROUTE, &["bkg_1"]).unwrap();
    assert_eq!((request.path.len(), request.body.len()), (1, 0));
    let line = ["--status=a&b", "--limit", "5"];
    let request = typed(&ListBookings::ROUTE, &line).unwrap();
    let pairs = [("status", "a&b"), ("limit", "5")];
    let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(request.query, pairs);
}

#[test]
fn the_help_of_others_names_a_flag_as_it_is_called() {
    let mut flags = Flags::of(&EraseValues::ROUTE);
    flags.name("fields", "values");
    let command = flags.shape(clap::Command::new("x"));
    let mut args = command.get_arguments();
    let party = args.find(|arg| arg.get_long() == Some("party")).unwrap();
    let help = party.get_help().unwrap().to_string();
    assert!(help.contains("instead of --values"), "{help}");
}

#[test]
fn a_fault_is_shown_at_the_flag_that_was_typed_for_it() {
    let route = &CreateBooking::ROUTE;
    let mut flags = Flags::of(route);
    flags.name("bookingValue", "value").positional("eventType");
    flags.or_json();
    let shape = || flags.shape(clap::Command::new("x").no_binary_name(true));
    let typed = [
        "concert",
        "--talent-id=1",
        "--talent-name=T",
        "--organizer-id=2",
        "--organizer-name=O",
        "--event-date=x",
        "--value=5",
    ];
    let matches = shape().try_get_matches_from(typed).unwrap();
    for (pointer, flag) in [
        ("/bookingValue", Some("--value")),
        ("/talent/id", Some("--talent-id")),
        ("/metadata/color", Some("--metadata color")),
        ("/eventType", Some("<EVENT_TYPE>")),
        ("Idempotency-Key", Some("--idempotency-key")),
        ("/talent", None),
        ("/bookingValues", None),
        ("?bookingValue", Some("--value")),
        ("?limit", None),
        ("", None),
    ] {
        assert_eq!(
            flags.typed_at(pointer, &matches).as_deref(),
            flag,
            "{pointer}"
        );
    }
    let matches = shape().try_get_matches_from(["--json=-"]).unwrap();
    assert_eq!(flags.typed_at("/bookingValue", &matches), None);
    let flags = Flags::of(&ListBookings::ROUTE);
    let matches = flags.shape(clap::Command::new("x").no_binary_name(true));
    let matches = matches.try_get_matches_from([""; 0]).unwrap();
    let flag = flags.typed_at("?eventFrom", &matches);
    assert_eq!(flag.as_deref(), Some("--event-from"));
}
