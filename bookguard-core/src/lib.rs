//! Bookguard: evidence and protection for bookings.
