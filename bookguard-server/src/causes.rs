//! What is behind an error.

use std::error::Error;

/// An error and its causes, the deepest last.
pub(crate) fn chain<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| (*error).source())
}

/// The first error of this kind in the chain.
pub(crate) fn cause<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    chain(error).find_map(|cause| cause.downcast_ref())
}

/// An error with its causes, in one line.
pub(crate) fn in_words(error: &(dyn Error + 'static)) -> String {
    let words: Vec<String> = chain(error).map(ToString::to_string).collect();
    words.join(": ")
}
