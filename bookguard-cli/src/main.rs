//! The bookguard command line.

fn main() {}
