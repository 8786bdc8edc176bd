//! SQL that goes on working when a later schema has more columns: it names those it means.

use super::sources;

/// Returns the string literals of the store, with the module of each.
fn literals() -> Vec<(String, String)> {
    let store = sources("bookguard-core").into_iter();
    let store = store.filter(|(file, _)| file.starts_with("store"));
    let split = store.flat_map(|(file, text)| {
        let literals: Vec<_> = text.split('"').map(str::to_owned).collect();
        literals.into_iter().map(move |text| (file.clone(), text))
    });
    split.collect()
}

#[test]
fn no_statement_depends_on_which_columns_a_table_has() {
    let mut inserts = 0;
    for (file, text) in literals() {
        for every in ["SELECT *", "RETURNING *", ".* FROM", ".*,"] {
            assert!(!text.contains(every), "{file}: {text}");
        }
        for insert in text.split("INSERT INTO ").skip(1) {
            let rest = insert.trim_start_matches(|c: char| c.is_ascii_lowercase() || c == '_');
            // Split where the engine puts its own words before the rest of a statement.
            if !rest.is_empty() && !insert.starts_with('{') {
                assert!(rest.starts_with(" ("), "{file}: {text}");
                inserts += 1;
            }
        }
    }
    assert!(inserts > 25, "only {inserts} were found");
}
