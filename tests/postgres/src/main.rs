//! A server to try things by hand, and for the test that kills its owner. It prints the URL of an empty database, and ends
//! when its standard input is closed.

fn main() {
    let Some(postgres) = bookguard_test_postgres::Postgres::shared() else {
        std::process::exit(1);
    };
    println!("{}", postgres.fresh_database());
    let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
}
