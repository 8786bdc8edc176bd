//! Compares an output with the one that a page shows: character by character, ignoring white space; `…` matches anything.

/// Returns whether `output` has the shape of `shown`.
pub fn fits(shown: &str, output: &str) -> bool {
    let bare = |text: &str| {
        text.chars()
            .filter(|c| !c.is_whitespace())
            .collect::<String>()
    };
    let (shown, output) = (bare(shown), bare(output));
    let mut pieces = shown.split('…');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = output.strip_prefix(first) else {
        return false;
    };
    let Some(last) = pieces.next_back() else {
        return rest.is_empty();
    };
    for piece in pieces {
        match rest.split_once(piece) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[test]
fn an_output_fits_what_is_shown_but_for_space_and_what_is_left_out() {
    for (shown, output, expected) in [
        ("{\n  \"a\": 1\n}\n", "{\"a\":1}", true),
        ("{\"a\":1}", "{\"a\":2}", false),
        (
            "{\"id\":\"bkg_…\",\"n\":1}",
            "{\"id\":\"bkg_0\",\"n\":1}",
            true,
        ),
        (
            "{\"id\":\"bkg_…\",\"n\":1}",
            "{\"id\":\"bkg_0\",\"n\":2}",
            false,
        ),
        ("…\nNOT VERIFIED.\n", "x\nNOT VERIFIED.\n", true),
        ("…\nNOT VERIFIED.\n", "x\nVerified.\n", false),
        ("a…b…c", "abc", true),
        ("a…b…c", "acb", false),
        ("a", "ab", false),
        ("", "", true),
    ] {
        assert_eq!(fits(shown, output), expected, "{shown:?} {output:?}");
    }
}
